"""Odd quintics ``p(s) = a s + b s³ + c s⁵`` that push singular values towards one: named tables and their bounds."""

from collections.abc import Sequence
from typing import Any, TypeAlias, cast

import numpy as np

from zeropower.checks import require_choice, require_count, require_number

Triple: TypeAlias = tuple[float, float, float]
Coefficients: TypeAlias = str | Sequence[float] | Sequence[Sequence[float]]


def _divide(triples: Sequence[Triple], safety: float) -> tuple[Triple, ...]:
    """Compose each quintic but the last with ``s -> s / safety``, which widens the interval that it maps safely."""
    divided = ((a / safety, b / safety**3, c / safety**5) for a, b, c in triples[:-1])
    return (*divided, triples[-1])


# Amsel, Persson, Musco, Gower, "The Polar Express" (arXiv:2505.16932), section 4: optimal for singular values in
# [1e-3, 1], as printed there; the last triple is the limit, Newton-Schulz of order five.
_POLAR_EXPRESS_PAPER: tuple[Triple, ...] = (
    (8.28721201814563, -23.595886519098837, 17.300387312530933),
    (4.107059111542203, -2.9478499167379106, 0.5448431082926601),
    (3.9486908534822946, -2.908902115962949, 0.5518191394370137),
    (3.3184196573706015, -2.488488024314874, 0.51004894012372),
    (2.300652019954817, -1.6689039845747493, 0.4188073119525673),
    (1.891301407787398, -1.2679958271945868, 0.37680408948524835),
    (1.8750014808534479, -1.2500016453999487, 0.3750001645474248),
    (1.875, -1.25, 0.375),
)

TABLES: dict[str, tuple[Triple, ...]] = {
    # K. Jordan, "Muon" (2024): one quintic for every step, steepest slope at zero that stays bounded on [0, 1].
    "keller": ((3.4445, -4.7750, 2.0315),),
    # J. You (2025), five quintics tuned one by one; in circulation as "you", "quintic" and optax's "dion".
    "you": (
        (4.0848, -6.8946, 2.9270),
        (3.9505, -6.3029, 2.6377),
        (3.7418, -5.5913, 2.3037),
        (2.8769, -3.1427, 1.2046),
        (2.8366, -3.0525, 1.2012),
    ),
    # The paper's own safety factor: each triple divided for inputs up to 1.01, the last undivided.
    "polar_express": _divide(_POLAR_EXPRESS_PAPER, safety=1.01),
}
"""Named tables. Interval of each: singular values in (0, 1], after a normalisation that bounds them by one."""


def schedule(coefficients: Coefficients, steps: int) -> tuple[Triple, ...]:
    """Return the quintic of each step.

    Parameters
    ----------
    coefficients
        A name of :data:`TABLES`, one triple ``(a, b, c)`` for all steps, or a sequence of triples.
    steps
        How many steps, at least 0. Steps beyond the table repeat its last triple.

    Returns
    -------
    tuple of (float, float, float)
        One triple a step.

    Raises
    ------
    ValueError
        If the name is unknown, a table is empty or not of finite triples, or ``steps`` is negative.
    TypeError
        If ``steps`` is not an integer or a coefficient is not a number.

    Examples
    --------
    >>> schedule("keller", 2)
    ((3.4445, -4.775, 2.0315), (3.4445, -4.775, 2.0315))
    >>> schedule((1.5, -0.5, 0.0), 1)
    ((1.5, -0.5, 0.0),)
    """
    require_count("steps", steps, least=0)
    triples = table(coefficients)
    return triples[:steps] + triples[-1:] * (steps - len(triples))


def table(coefficients: Coefficients) -> tuple[Triple, ...]:
    """Return the distinct quintics that a name or a sequence stands for, checked."""
    if isinstance(coefficients, str):
        require_choice("coefficients", coefficients, TABLES)
        return TABLES[coefficients]
    rows = cast("tuple[Any, ...]", tuple(coefficients))
    if rows and isinstance(rows[0], int | float):
        rows = (rows,)
    triples: list[Triple] = []
    for row in rows:
        if not isinstance(row, tuple | list) or len(row) != 3:
            raise ValueError(f"coefficients={coefficients!r} holds {row!r}; accepted: a name, (a, b, c), or triples")
        for value in row:
            require_number("coefficients", value)
        triples.append((float(row[0]), float(row[1]), float(row[2])))
    if not triples:
        raise ValueError("coefficients is empty; accepted: a name, (a, b, c), or a sequence of triples")
    return tuple(triples)


def apply(triples: Sequence[Triple], s: np.ndarray) -> np.ndarray:
    """Map singular values through the composed quintics, in float64."""
    s = np.asarray(s, dtype=np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        for a, b, c in triples:
            square = s * s
            s = s * (a + square * (b + square * c))
    return s


def output_range(triples: Sequence[Triple], lower: float = 3e-3) -> tuple[float, float]:
    """Return the least and the greatest value that singular values in [``lower``, 1] are mapped to."""
    values = apply(triples, np.geomspace(lower, 1.0, 20_001))
    return float(values.min()), float(values.max())


def headroom(triples: Sequence[Triple], bound: float = 2.0) -> float:
    """Return the greatest singular value up to which the composed map stays within ``bound`` in magnitude.

    Rounding lets singular values of a normalised matrix exceed one by a few units of roundoff; a table whose
    headroom is smaller than that can blow up on a matrix of rank one.

    Parameters
    ----------
    triples
        The quintic of each step.
    bound
        What still counts as bounded.

    Returns
    -------
    float
        At most 2.0, where the search ends.
    """
    grid = np.concatenate([np.linspace(0.0, 1.0, 20_001), np.linspace(1.0, 2.0, 20_001)[1:]])
    values = apply(triples, grid)
    outside = np.flatnonzero(~(np.abs(values) <= bound))
    return float(grid[outside[0] - 1]) if outside.size else float(grid[-1])


def keeps_sign(triples: Sequence[Triple]) -> bool:
    """Tell whether every singular value in (0, 1] stays positive (a table that does not reverses directions)."""
    return bool(np.all(apply(triples, np.geomspace(1e-10, 1.0, 40_001)) > 0.0))
