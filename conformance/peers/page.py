"""The tables of ``docs/dialects.md``: between two marks each, everything is generated."""

import re
from collections.abc import Sequence

from zeropower.conformance.peers.report import COLUMNS, Row
from zeropower.dialect_table import COLUMNS as RECIPE_COLUMNS
from zeropower.dialect_table import as_markdown, rows


def recipes() -> str:
    """Return the table of all recipes."""
    return as_markdown(RECIPE_COLUMNS, rows())


def rewrite(page: str, proofs: Sequence[Row] | None) -> str:
    """Return a page with its tables made anew.

    Parameters
    ----------
    page
        The page.
    proofs
        The rows of the proofs; ``None`` leaves that table as it is.

    Returns
    -------
    str
        The page.

    Raises
    ------
    ValueError
        If a mark is missing.
    """
    page = _between(page, "recipes", recipes())
    if proofs is None:
        return page
    return _between(page, "proofs", as_markdown(COLUMNS, [row.cells() for row in proofs]))


def _between(page: str, name: str, text: str) -> str:
    start, end = f"<!-- {name}: generated -->", f"<!-- {name}: end -->"
    pattern = re.compile(re.escape(start) + ".*" + re.escape(end), re.DOTALL)
    if not pattern.search(page):
        raise ValueError(f"page has no {start!r} .. {end!r}; accepted: a page with both marks")
    return pattern.sub(lambda _: f"{start}\n{text}\n{end}", page)
