"""The runner is tested as it is used: as a command, in a process of its own."""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

HERE = Path(__file__).parent


class Outcome(NamedTuple):
    """What a run of the suite came to."""

    code: int
    out: str
    err: str

    @property
    def table(self) -> dict[str, dict[str, tuple[int, ...]]]:
        """Row -> column -> (passed, failed, skipped); a column without checks is left out."""
        lines = self.out.splitlines()
        start = next(i for i, line in enumerate(lines) if line.startswith("passed/failed/skipped"))
        columns = re.split(r"\s{2,}", lines[start])[1:]
        table = {}
        for line in lines[start + 1 :]:
            row, *cells = re.split(r"\s{2,}", line)
            if len(cells) != len(columns) or line.startswith("skipped: "):
                break
            counted = {
                c: tuple(map(int, cell.split("/"))) for c, cell in zip(columns, cells, strict=True) if "/" in cell
            }
            table[row] = counted
        return table

    @property
    def reasons(self) -> list[str]:
        """Why checks did not run."""
        return [line.removeprefix("skipped: ") for line in self.out.splitlines() if line.startswith("skipped: ")]


def run_python(*arguments: str, cwd: Path, path: Path) -> Outcome:
    environment = {name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"}
    environment["PYTHONPATH"] = os.pathsep.join([str(path), str(HERE)])
    answer = subprocess.run(
        [sys.executable, *arguments], cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )
    return Outcome(answer.returncode, answer.stdout, answer.stderr)


@pytest.fixture
def conformance(tmp_path: Path) -> Callable[..., Outcome]:
    """`conformance(*arguments)`: the command, called in an empty folder that is also on the module path."""
    return lambda *arguments: run_python("-m", "zeropower.conformance", *arguments, cwd=tmp_path, path=tmp_path)


@pytest.fixture
def run_pytest(tmp_path: Path) -> Callable[..., Outcome]:
    """`run_pytest(*arguments)`: pytest in a folder of one's own."""
    return lambda *arguments: run_python("-m", "pytest", *arguments, cwd=tmp_path, path=tmp_path)
