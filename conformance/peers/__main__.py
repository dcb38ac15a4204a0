"""The command ``python -m zeropower.conformance.peers``."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from zeropower import Backend
from zeropower.conformance.discovery import find_backends
from zeropower.conformance.peers.page import rewrite
from zeropower.conformance.peers.report import all_rows, as_text


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare every dialect with its stored vectors and with its peer where that is installed.

    Parameters
    ----------
    arguments
        Of the command line; ``None`` takes those of the process.

    Returns
    -------
    int
        0 if all agree; 1 if something differs, or a peer is missing that was asked for.
    """
    parser = argparse.ArgumentParser(prog="python -m zeropower.conformance.peers", description=main.__doc__)
    parser.add_argument("--require-all", action="store_true", help="fail if a peer is not installed")
    parser.add_argument("--write", type=Path, metavar="PAGE", help="put the tables into this page (docs/dialects.md)")
    options = parser.parse_args(arguments)
    backends = [each for each in find_backends(["torch", "jax"]) if isinstance(each, Backend)]
    rows, absent = all_rows(backends)
    print(as_text(rows))
    for name, reason in absent.items():
        print(f"not compared: {name}: {reason}")
    if options.write is not None:
        options.write.write_text(rewrite(options.write.read_text("utf-8"), rows), "utf-8")
    return int(not all(row.agrees for row in rows) or (options.require_all and bool(absent)))


sys.exit(main())
