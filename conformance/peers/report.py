"""What the comparisons with peers and with stored vectors found, as one table."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from zeropower import DIALECTS, Backend
from zeropower.conformance.peers.answers import Answer
from zeropower.conformance.peers.compare import compare
from zeropower.conformance.peers.peer import Peer, missing, version
from zeropower.conformance.peers.registry import PEERS
from zeropower.conformance.vectors import FORMULA, cases_of, moved_apart, run_steps, stored

COLUMNS: tuple[str, ...] = ("dialect", "beside", "question", "cases", "largest difference", "bound there", "verdict")
"""What the columns of the table say."""


class Row(NamedTuple):
    """One dialect beside one peer, or beside vectors, under one question.

    Attributes
    ----------
    dialect
        The dialect.
    beside
        The peer and its version, or ``"vectors"``.
    question
        As in :mod:`zeropower.conformance.peers.compare`.
    cases
        How many runs were compared.
    difference
        The one that comes nearest to its bound, or exceeds it most.
    bound
        The bound of that.
    agrees
        Whether all are within theirs.
    """

    dialect: str
    beside: str
    question: str
    cases: int
    difference: float
    bound: float
    agrees: bool

    def cells(self) -> tuple[str, ...]:
        """Return the row as text."""
        verdict = "agrees" if self.agrees else "DIFFERS"
        found = f"{self.difference:.1e}", f"{self.bound:.1e}"
        return self.dialect, self.beside, self.question, str(self.cases), *found, verdict


def rows_of_peer(peer: Peer, backends: Sequence[Backend]) -> list[Row]:
    """Compare with one peer that can run here."""
    answers = compare(peer, backends)
    beside = f"{peer.name} {version(peer)}"
    questions = dict.fromkeys(answer.question for answer in answers)
    return [_row(peer.dialect, beside, q, [each for each in answers if each.question == q]) for q in questions]


def rows_of_vectors() -> list[Row]:
    """Compare every dialect that has an original with the stored vectors."""
    found = {name: [_beside_vector(name, case) for case in cases_of(name)] for name in DIALECTS}
    return [_row(name, "vectors", "formula", answers) for name, answers in found.items() if answers]


def _beside_vector(dialect: str, case: str) -> Answer:
    """Run the core over a case, in numpy and float64."""
    golden = stored()
    ours = run_steps(dialect, case, golden[f"start/{case}"], golden[f"grads/{case}"])
    return Answer("formula", "core", case, moved_apart(case, ours, golden[f"{dialect}/{case}"]), FORMULA)


def all_rows(backends: Sequence[Backend]) -> tuple[list[Row], dict[str, str]]:
    """Compare with all that is there.

    Parameters
    ----------
    backends
        Those whose optimizers are compared with peers as well.

    Returns
    -------
    tuple of list and dict
        The rows, by dialect, and the peers that could not run, each with the reason.
    """
    absent = {peer.name: reason for peer in PEERS if (reason := missing(peer))}
    rows = rows_of_vectors()
    for peer in PEERS:
        if peer.name not in absent:
            rows += rows_of_peer(peer, backends)
    order = list(DIALECTS)
    return sorted(rows, key=lambda row: order.index(row.dialect)), absent


def as_text(rows: Iterable[Row]) -> str:
    """Return the table aligned in columns."""
    lines = [COLUMNS, *(row.cells() for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
    )


def _row(dialect: str, beside: str, question: str, answers: Sequence[Answer]) -> Row:
    worst = max(answers, key=lambda answer: np.nan_to_num(answer.difference / answer.bound, nan=np.inf))
    agrees = all(answer.agrees for answer in answers)
    return Row(dialect, beside, question, len(answers), worst.difference, worst.bound, agrees)
