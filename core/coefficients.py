"""Odd quintics ``p(s) = a s + b s³ + c s⁵`` that push singular values towards one: named tables and their bounds."""

from collections.abc import Sequence
from typing import Any, TypeAlias, cast

import numpy as np

from zeropower.checks import require_choice, require_count, require_number

Triple: TypeAlias = tuple[float, float, float]
Coefficients: TypeAlias = str | Sequence[float] | Sequence[Sequence[float]]


def _divide(triples: Sequence[Triple], safety: float) -> tuple[Triple, ...]:
    """Compose each quintic but the last with ``s -> s / safety``, which widens the interval that it maps safely."""
    return (*_divide_all(triples[:-1], safety), triples[-1])


def _divide_all(triples: Sequence[Triple], safety: float) -> tuple[Triple, ...]:
    return tuple((a / safety, b / safety**3, c / safety**5) for a, b, c in triples)


def after_division(triples: tuple[Triple, ...], safety: float) -> tuple[Triple, ...]:
    """Return the quintics whose first one takes singular values before they are divided by a safety factor."""
    return triples if safety == 1.0 else (*_divide_all(triples[:1], safety), *triples[1:])


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
    # The paper's own safety factor: each triple divided for inputs up to 1.01, the last undivided (also HeavyBall).
    "polar_express": _divide(_POLAR_EXPRESS_PAPER, safety=1.01),
    # As the paper prints them: bounded on [0, 1] and no further, so that they need a safety factor of the norm.
    "polar_express_raw": _POLAR_EXPRESS_PAPER,
    # Dao-AILab, gram-newton-schulz 0.1.6: the first five, all of them divided for inputs up to 1.05.
    "polar_express_dao": _divide_all(_POLAR_EXPRESS_PAPER[:5], safety=1.05),
    # NVIDIA Emerging-Optimizers (fd77292): those of "polar_express", rounded to four digits.
    "polar_express_nvidia": (
        (8.2051, -22.9019, 16.4607),
        (4.0664, -2.8612, 0.5184),
        (3.9096, -2.8234, 0.5250),
        (3.2856, -2.4153, 0.4853),
        (2.2779, -1.6198, 0.3985),
        (1.8726, -1.2307, 0.3585),
        (1.8564, -1.2132, 0.3568),
        (1.8750, -1.2500, 0.3750),
    ),
    # timm 1.0.31 "polar_express": the paper's program run with a safety factor of 1.01.
    "polar_express_timm": (
        (8.237312490495555, -23.157747414558198, 16.680568411445915),
        (4.082441999064835, -2.893047735332586, 0.5252849256975648),
        (3.9263479922546582, -2.8547468034765298, 0.5318022422894988),
        (3.2982187133085143, -2.424541981026706, 0.48632008358844075),
        (2.2970369434552573, -1.63662558125903, 0.4002628455953627),
        (1.8763805351440397, -1.2347896577722228, 0.35891887501668385),
        (1.8564423485617974, -1.2132449880935525, 0.3568003487825883),
        (1.8749994008682747, -1.2499988017229169, 0.3749994008546422),
    ),
    # timm 1.0.31 "polar_express_safer": the same with 1.02.
    "polar_express_timm_safer": (
        (8.156554524902461, -22.48329292557795, 15.878769915207462),
        (4.0429299351667245, -2.808917465908704, 0.5000178451051299),
        (3.8916678022926563, -2.7724841532176825, 0.5060648178503389),
        (3.285753657755658, -2.3681294933425394, 0.46449024233003117),
        (2.3005307116270983, -1.6111665557258408, 0.3833374427545273),
        (1.8631210546382593, -1.2042161621002727, 0.3421879560523383),
        (1.8382572152247512, -1.1779263289537742, 0.3396513038637379),
        (1.8749999923301852, -1.2499999836060613, 0.374999991275876),
    ),
    # modded-nanogpt (f411b3d), Dion, muonium, optimuon: the paper's program for five steps, safety 1.02, cushion 2;
    # there the norm is multiplied by 1.02 as well.
    "polar_express_jordan": (
        (8.156554524902461, -22.48329292557795, 15.878769915207462),
        (4.042929935166739, -2.808917465908714, 0.5000178451051316),
        (3.8916678022926607, -2.772484153217685, 0.5060648178503393),
        (3.285753657755655, -2.3681294933425376, 0.46449024233003106),
        (2.3465413258596377, -1.7097828382687081, 0.42323551169305323),
    ),
    # Grishina, Smirnov, Rakhuba, "CANS" (arXiv:2506.10935), as Emerging-Optimizers has them; bounded on [0, 1] alone.
    "cans": (
        (8.4703, -25.1081, 18.6293),
        (4.1828, -3.1087, 0.5806),
        (3.9619, -2.9541, 0.5630),
        (3.2866, -2.4647, 0.5074),
        (2.2737, -1.6447, 0.4162),
    ),
    # flash-newton-schulz, for its AOL normalisation; singular values above 0.88 come out negative.
    "aol": (
        (4.0098, -7.0585, 2.4635),
        (3.4585, -5.5479, 2.5959),
        (2.7573, -3.2939, 1.4254),
        (2.7215, -3.0494, 1.3169),
    ),
    # DeepSeek-V4's report: eight steps of Keller's, then two that converge.
    "deepseek_v4": ((3.4445, -4.7750, 2.0315),) * 8 + ((2.0, -1.5, 0.5),) * 2,
    # Relaxed cubic schedule (arXiv:2606.00371), as Emerging-Optimizers has it, five steps: c = 0.
    "cubic": (
        (3.3656576, -3.3420992, 0.0),
        (2.5744352, -1.4957376, 0.0),
        (2.5368962, -1.4312570, 0.0),
        (2.4418906, -1.2764040, 0.0),
        (2.2230472, -0.9630650, 0.0),
    ),
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


def positive_up_to(triples: Sequence[Triple]) -> float:
    """Return the greatest singular value of (0, 1] up to which all stay positive: beyond, directions are reversed."""
    grid = np.geomspace(1e-10, 1.0, 40_001)
    negative = np.flatnonzero(~(apply(triples, grid) > 0.0))
    return float(grid[max(negative[0] - 1, 0)]) if negative.size else 1.0
