"""The tables of ``docs/dialects.md``: between two marks each, everything is generated."""

import re
from collections.abc import Sequence

from zeropower.conformance.peers.report import COLUMNS, Row
from zeropower.dialect_table import COLUMNS as RECIPE_COLUMNS
from zeropower.dialect_table import as_markdown, rows


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
    if proofs is not None:
        page = _between(page, "proofs", as_markdown(COLUMNS, [row.cells() for row in proofs]))
    return _between(page, "recipes", _recipes(proofs_of(page)))


def proofs_of(page: str) -> list[tuple[str, ...]]:
    """Return the cells of the table of proofs that a page holds, line by line."""
    lines = _pattern("proofs").findall(page)[:1]
    body = lines[0].strip().splitlines()[3:-1] if lines else []
    return [tuple(cell.strip() for cell in line.strip("|").split("|")) for line in body]


def _recipes(proofs: Sequence[tuple[str, ...]]) -> str:
    """Return the table of all recipes, each with what it was proven beside and how that ended."""
    beside: dict[str, dict[str, set[str]]] = {}
    for dialect, name, *_, verdict in proofs:
        beside.setdefault(dialect, {}).setdefault(name, set()).add(verdict)
    cells = {
        dialect: ", ".join(f"{name} {'/'.join(sorted(verdicts))}" for name, verdicts in found.items())
        for dialect, found in beside.items()
    }
    return as_markdown((*RECIPE_COLUMNS, "proof"), [(*row, cells.get(row[0], "ours")) for row in rows()])


def _pattern(name: str) -> re.Pattern[str]:
    start, end = f"<!-- {name}: generated -->", f"<!-- {name}: end -->"
    return re.compile(re.escape(start) + ".*" + re.escape(end), re.DOTALL)


def _between(page: str, name: str, text: str) -> str:
    start, end = f"<!-- {name}: generated -->", f"<!-- {name}: end -->"
    pattern = _pattern(name)
    if not pattern.search(page):
        raise ValueError(f"page has no {start!r} .. {end!r}; accepted: a page with both marks")
    return pattern.sub(lambda _: f"{start}\n{text}\n{end}", page)
