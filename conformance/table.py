"""The table of results: backend and transform against groups of checks."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from zeropower.conformance.check import GROUPS

OUTCOMES = ("passed", "failed", "skipped")


@dataclass
class Results:
    """Counts of outcomes, and why checks did not run.

    Attributes
    ----------
    rows
        The order of the rows.
    counts
        Row -> group -> outcome -> number.
    missing
        Rows that have no checks, each with its reason.
    reasons
        Reason -> how many checks it kept from running, or from counting as passed.
    """

    rows: list[str] = field(default_factory=list[str])
    counts: dict[str, dict[str, dict[str, int]]] = field(default_factory=dict[str, dict[str, dict[str, int]]])
    missing: dict[str, str] = field(default_factory=dict[str, str])
    reasons: dict[str, int] = field(default_factory=dict[str, int])

    def add(self, row: str, group: str, outcome: str, reason: str = "") -> None:
        """Count one check."""
        cell = self.counts.setdefault(row, {}).setdefault(group, dict.fromkeys(OUTCOMES, 0))
        cell[outcome] += 1
        if reason:
            self.reasons[reason] = self.reasons.get(reason, 0) + 1

    def lines(self) -> list[str]:
        """Return the table, followed by the distinct reasons."""
        columns = [group for group in GROUPS if any(group in cells for cells in self.counts.values())]
        rows = [["/".join(OUTCOMES), *columns]]
        for row in self.rows:
            if row in self.missing:
                rows.append([row, *("skipped" for _ in columns)])
            elif row in self.counts:
                rows.append([row, *(_cell(self.counts[row].get(group)) for group in columns)])
        widths = [max(len(row[i]) for row in rows) for i in range(len(columns) + 1)]
        table = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
        return [*table, *(f"skipped: {row}: {reason}" for row, reason in self.missing.items()), *self._why()]

    def _why(self) -> list[str]:
        return [f"skipped: {reason} ({count})" for reason, count in self.reasons.items()]


def _cell(counts: Mapping[str, int] | None) -> str:
    return "/".join(str(counts[outcome]) for outcome in OUTCOMES) if counts else "-"
