"""The ``zeropower`` command. Frameworks, plotting and terminal packages load only when a command runs."""

import argparse
import sys
from collections.abc import Sequence
from typing import Final, NoReturn, Protocol

from zeropower import __version__

from . import compare, dialects
from .errors import INTERRUPTED, USAGE, UsageError

__all__ = ["main"]


class Command(Protocol):
    """A sub-command: a module of this package named like it, with these three members."""

    @property
    def SUMMARY(self) -> str:
        """One line for the help text."""
        ...

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments of the command to its parser."""
        ...

    def run(self, arguments: argparse.Namespace) -> int:
        """Do the work and return the exit code."""
        ...


COMMANDS: Final[dict[str, Command]] = {"compare": compare, "dialects": dialects}


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are one line, without the usage text."""

    def error(self, message: str) -> NoReturn:
        """Report bad arguments.

        Parameters
        ----------
        message : str
            What is wrong, as argparse words it.

        Raises
        ------
        UsageError
            Always.
        """
        raise UsageError(f"{message} (see {self.prog} --help)")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the ``zeropower`` command.

    Parameters
    ----------
    argv : sequence of str, optional
        Arguments without the program's name; by default those of the process.

    Returns
    -------
    int
        Exit code: 0 done, 2 input that cannot be used (one line on the standard error says why),
        130 interrupted.
    """
    try:
        arguments = _parser().parse_args(argv)
        return COMMANDS[arguments.command].run(arguments)
    except UsageError as error:
        print(f"zeropower: error: {error}", file=sys.stderr)
        return USAGE
    except KeyboardInterrupt:
        print("zeropower: interrupted", file=sys.stderr)
        return INTERRUPTED


def _parser() -> argparse.ArgumentParser:
    parser = Parser(prog="zeropower", description="The Muon optimizer family.", allow_abbrev=False)
    parser.add_argument("--version", action="version", version=f"zeropower {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="command", required=True)
    for name, command in COMMANDS.items():
        command.configure(
            commands.add_parser(
                name,
                help=command.SUMMARY,
                description=command.SUMMARY,
                allow_abbrev=False,
                formatter_class=argparse.RawDescriptionHelpFormatter,
            )
        )
    return parser
