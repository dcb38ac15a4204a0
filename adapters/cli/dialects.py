"""``zeropower dialects``: every dialect and what its recipes say."""

import argparse
import json
import shutil

from zeropower import DIALECTS
from zeropower.checks import require_choice
from zeropower.dialect_table import COLUMNS, as_markdown, rows

from .errors import UsageError

__all__ = ["SUMMARY", "configure", "run"]

SUMMARY = "Print the recipes of all dialects, or of those that are named."
_FORMATS = ("table", "markdown", "json")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command to its parser."""
    parser.add_argument("dialect", nargs="*", metavar="DIALECT", help="names; all of them by default")
    parser.add_argument("--format", choices=_FORMATS, default="table", help="default: table")


def run(arguments: argparse.Namespace) -> int:
    """Print the table.

    Parameters
    ----------
    arguments
        The parsed command line.

    Returns
    -------
    int
        0.

    Raises
    ------
    UsageError
        If a name is unknown.
    """
    for name in arguments.dialect:
        try:
            require_choice("dialect", name, DIALECTS)
        except ValueError as error:
            raise UsageError(str(error)) from None
    chosen = {name: DIALECTS[name] for name in arguments.dialect or DIALECTS}
    body = rows(chosen)
    if arguments.format == "json":
        print(json.dumps([dict(zip(COLUMNS, row, strict=True)) for row in body], indent=2))
    elif arguments.format == "markdown":
        print(as_markdown(COLUMNS, body))
    else:
        _print_table(body)
    return 0


def _print_table(body: list[tuple[str, ...]]) -> None:
    """Print a table where it fits, else each dialect as a paragraph."""
    widths = [max(len(cell) for cell in column) for column in zip(COLUMNS, *body, strict=True)]
    if sum(widths) + 2 * len(widths) <= shutil.get_terminal_size((80, 24)).columns:
        for line in (COLUMNS, *body):
            print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())
        return
    for row in body:
        name, *cells = row
        print(name)
        for column, cell in zip(COLUMNS[1:], cells, strict=True):
            if cell:
                print(f"  {column:<15}{cell}")
        print()
