"""A small text and a small model, so that a whole run of the command takes a second."""

import importlib.util
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from zeropower.cli import main

WORDS = [
    "the",
    "matrix",
    "turns",
    "its",
    "rows",
    "until",
    "each",
    "column",
    "stands",
    "upright",
    "and",
    "no",
    "direction",
    "is",
    "longer",
    "than",
    "another",
]


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """Run torch on one thread, since models this small only wait for a second one; put back what was set."""
    if importlib.util.find_spec("torch") is None:
        yield
        return
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """A folder of four files with 24 kB of words in random order."""
    rng = np.random.default_rng(0)
    folder = tmp_path / "corpus"
    folder.mkdir()
    for name in ("a.txt", "b.txt", "c.txt", "d.txt"):
        (folder / name).write_text(" ".join(rng.choice(WORDS, 1000)))
    return folder


@pytest.fixture
def arguments(corpus: Path, tmp_path: Path) -> list[str]:
    """Arguments of a tiny comparison that keeps its runs in a temporary folder."""
    sizes = [
        "--steps",
        "12",
        "--batch",
        "2",
        "--context",
        "16",
        "--width",
        "16",
        "--layers",
        "1",
        "--heads",
        "2",
    ]
    return ["compare", "--text", str(corpus), "--out", str(tmp_path / "runs"), *sizes]


@pytest.fixture
def compare(arguments: list[str], tmp_path: Path) -> Callable[..., Path]:
    """Run a tiny comparison to its end; returns the folder of the run."""

    def run(name: str, *more: str) -> Path:
        assert main([*arguments, "--name", name, *more]) == 0
        return tmp_path / "runs" / name

    return run


@pytest.fixture
def losses() -> Callable[[Path], dict[str, list[tuple[str, int, float]]]]:
    """Read what a run measured, without times: optimizer to (event, step, loss)."""

    def read(folder: Path) -> dict[str, list[tuple[str, int, float]]]:
        found: dict[str, list[tuple[str, int, float]]] = {}
        for line in (folder / "metrics.jsonl").read_text().splitlines():
            event: dict[str, Any] = json.loads(line)
            if "loss" in event:
                found.setdefault(event["optimizer"], []).append((
                    event["event"],
                    event["step"],
                    event["loss"],
                ))
        return found

    return read
