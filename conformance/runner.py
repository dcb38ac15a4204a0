"""The command ``python -m zeropower.conformance``."""

import argparse
import os
import sys
from collections.abc import Sequence
from importlib.metadata import entry_points
from pathlib import Path
from typing import NoReturn

from zeropower.conformance.discovery import ALL, ENTRY_POINTS

SUITE = Path(__file__).with_name("suite")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the suite with pytest over the chosen backends.

    Parameters
    ----------
    arguments
        Of the command line; ``None`` takes those of the process.

    Returns
    -------
    int
        pytest's exit code: 0 if all passed, 1 if a check failed, 4 for a wrong backend, 5 if no check was chosen.
    """
    options = _parser().parse_args(arguments)
    try:
        import pytest
    except ImportError:
        sys.stderr.write("ERROR: the suite needs pytest: pip install 'zeropower[conformance]'\n")
        return 4
    # Read by libraries as they load: the suite's matrices are small, and threads would spin while they wait.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    command = ["-p", "zeropower.conformance.plugin", "--zeropower-backend", ",".join(options.backend or [ALL])]
    # Neither the settings nor the conftest of the folder in which it is called belong to the suite.
    command += ["-c", os.devnull, "--rootdir", str(SUITE), "--noconftest", "-q", "-p", "no:cacheprovider"]
    command += ["-W", "error", "--strict-markers", "--import-mode=importlib"]
    command += ["-k", options.k] if options.k else []
    command += ["-x"] if options.x else []
    if any(option.startswith(("-n", "--numprocesses")) for option in options.pytest):
        command += ["--dist", "loadgroup"]  # what a backend has compiled stays in the process that has it
    return int(pytest.main([*command, *options.pytest, str(SUITE)]))


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Say what is wrong in one line."""
        self.exit(2, f"{self.prog}: error: {message}\n")


def _parser() -> argparse.ArgumentParser:
    known = ", ".join([*(entry.name for entry in entry_points(group=ENTRY_POINTS)), ALL])
    parser = _Parser(
        prog="python -m zeropower.conformance",
        allow_abbrev=False,
        description="Run one suite of laws over the backends of zeropower.",
    )
    parser.add_argument(
        "--backend",
        action="append",
        metavar="NAME",
        help=f"{known}, or package.module:BACKEND; several separated by commas (default: {ALL})",
    )
    parser.add_argument("-k", metavar="EXPRESSION", help="only the checks that match, as for pytest")
    parser.add_argument("-x", action="store_true", help="stop at the first failure")
    parser.add_argument("pytest", nargs="*", metavar="-- PYTEST_OPTION", help="options for pytest, after --")
    return parser
