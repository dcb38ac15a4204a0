"""What the suite compares with: textbook formulas in float64, written without the core.

The numbers of the tables are printed here a second time, so that a slip of the pen in the core is seen.
"""

from collections.abc import Collection, Sequence
from typing import Any, Literal, TypeAlias

import numpy as np

Triples: TypeAlias = Sequence[tuple[float, float, float]]

_PAPER = (  # Amsel, Persson, Musco, Gower, arXiv:2505.16932, section 4
    (8.28721201814563, -23.595886519098837, 17.300387312530933),
    (4.107059111542203, -2.9478499167379106, 0.5448431082926601),
    (3.9486908534822946, -2.908902115962949, 0.5518191394370137),
    (3.3184196573706015, -2.488488024314874, 0.51004894012372),
    (2.300652019954817, -1.6689039845747493, 0.4188073119525673),
    (1.891301407787398, -1.2679958271945868, 0.37680408948524835),
    (1.8750014808534479, -1.2500016453999487, 0.3750001645474248),
    (1.875, -1.25, 0.375),
)

TABLES: dict[str, Triples] = {
    "keller": ((3.4445, -4.7750, 2.0315),),
    "you": (
        (4.0848, -6.8946, 2.9270),
        (3.9505, -6.3029, 2.6377),
        (3.7418, -5.5913, 2.3037),
        (2.8769, -3.1427, 1.2046),
        (2.8366, -3.0525, 1.2012),
    ),
    "polar_express": (*((a / 1.01, b / 1.01**3, c / 1.01**5) for a, b, c in _PAPER[:-1]), _PAPER[-1]),
}


def quintics(table: str | Triples, steps: int) -> Triples:
    """Return the triple of each step; steps beyond the table repeat its last."""
    rows = TABLES[table] if isinstance(table, str) else table
    return tuple(rows[min(step, len(rows) - 1)] for step in range(steps))


def polynomial(values: np.ndarray, triples: Triples) -> np.ndarray:
    """Map singular values: ``s -> a s + b s³ + c s⁵``, once for each triple."""
    for a, b, c in triples:
        values = a * values + b * values**3 + c * values**5
    return values


def orthogonalized(
    x: np.ndarray,
    triples: Triples,
    *,
    normalize: str = "frobenius",
    eps: float | None = None,
    eps_mode: str = "clamp",
) -> np.ndarray:
    """Return ``u p(s) vᵀ`` of each normalised matrix ``u s vᵀ``.

    Parameters
    ----------
    x
        Matrices (..., m, n), finite.
    triples
        The quintics, one a step.
    normalize
        ``"frobenius"``, ``"schatten4"``, ``"spectral_bound"`` or ``"aol"``.
    eps
        Floor of the Frobenius norm.
    eps_mode
        ``"clamp"`` or ``"add"``.

    Returns
    -------
    ndarray
        The shape of ``x``, float64.
    """
    x = normalized(x, normalize, eps, eps_mode)
    if x.size == 0:
        return x
    left, values, right = np.linalg.svd(x, full_matrices=False)
    return (left * polynomial(values, triples)[..., None, :]) @ right


def normalized(x: np.ndarray, how: str, eps: float | None = None, eps_mode: str = "clamp") -> np.ndarray:
    """Scale each matrix by the Frobenius norm, then as ``how`` says; zero matrices stay zero."""
    x = x.astype(np.float64)
    if x.size == 0:
        return x
    largest = _or_one(np.max(np.abs(x), axis=(-2, -1), keepdims=True))  # squares of 1e300 overflow
    x = x / largest
    norm = np.sqrt(np.sum(x**2, axis=(-2, -1), keepdims=True))
    if eps is not None:
        norm = np.maximum(norm, eps / largest) if eps_mode == "clamp" else norm + eps / largest
    x = x / _or_one(norm)
    if how == "schatten4":
        fourth = np.sum(np.linalg.svd(x, compute_uv=False) ** 4, axis=-1)[..., None, None]
        return x / _or_one(fourth**0.25)
    if how == "spectral_bound":
        fourth = np.sum(np.linalg.svd(x, compute_uv=False) ** 4, axis=-1)[..., None, None]
        rows = x if x.shape[-2] <= x.shape[-1] else x.mT
        greatest = np.max(np.sum(np.abs(rows @ rows.mT), axis=-1), axis=-1)[..., None, None]
        return x / np.sqrt(_or_one(np.minimum(fourth**0.5, greatest)))
    if how == "aol":
        wide = x.shape[-2] <= x.shape[-1]
        rows = x if wide else x.mT
        sums = np.sum(np.abs(rows @ rows.mT), axis=-1, keepdims=True)
        rows = rows / np.sqrt(_or_one(sums))
        return rows if wide else rows.mT
    return x


def _or_one(x: np.ndarray) -> np.ndarray:
    return np.where(x == 0, 1.0, x)


def with_spectrum(shape: tuple[int, ...], values: Sequence[float] | np.ndarray, seed: int = 0) -> np.ndarray:
    """Return matrices (..., m, n) with these min(m, n) singular values and random vectors."""
    random = np.random.default_rng(seed)
    small = min(shape[-2:])
    left, _ = np.linalg.qr(random.standard_normal((*shape[:-1], small)))
    right, _ = np.linalg.qr(random.standard_normal((*shape[:-2], shape[-1], small)))
    return (left * np.asarray(values)) @ right.mT


def matrices(shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    """Return well-conditioned matrices: singular values from 1 to 1/4, so that 16-bit results still say something."""
    return with_spectrum(shape, np.linspace(1.0, 0.25, min(shape[-2:])), seed)


def rotation(size: int, seed: int = 0) -> np.ndarray:
    """Return a random orthogonal matrix."""
    return np.linalg.qr(np.random.default_rng(seed).standard_normal((size, size)))[0]


class Rounding:
    """Arithmetic with the relative errors of a dtype, at random: what rounding would do in some other order.

    Parameters
    ----------
    unit
        Unit roundoff of each result.
    sum_unit
        Unit roundoff in which products accumulate.
    seed
        Of the errors.
    """

    def __init__(self, unit: float, sum_unit: float, seed: int) -> None:
        self.unit, self.sum_unit = unit, sum_unit
        self.random = np.random.default_rng(seed)

    def _signs(self, shape: tuple[int, ...]) -> np.ndarray:
        return self.random.integers(0, 2, shape) * 2.0 - 1.0

    def of(self, x: np.ndarray) -> np.ndarray:
        """Round a result."""
        return x + self.unit * np.abs(x) * self._signs(x.shape)

    def product(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Multiply matrices; errors of a sum of k terms grow with the square root of k."""
        size = self.sum_unit * a.shape[-1] ** 0.5 * (np.abs(a) @ np.abs(b))
        product = a @ b
        return self.of(product + size * self._signs(product.shape))


def rounded_loop(
    x: np.ndarray, triples: Triples, rounding: Rounding, restarts: Collection[int] | Literal["standard"] = "standard"
) -> np.ndarray:
    """Run the textbook iteration on normalised matrices, each operation rounded.

    Parameters
    ----------
    x
        Normalised matrices (..., m, n).
    triples
        The quintics, one a step.
    rounding
        How results are rounded.
    restarts
        ``"standard"``, or the steps before which the Gram iteration restarts.

    Returns
    -------
    ndarray
        The shape of ``x``.
    """
    if x.shape[-2] > x.shape[-1]:
        return rounded_loop(x.mT, triples, rounding, restarts).mT
    of, product = rounding.of, rounding.product
    x = of(x)
    gram: Any = None
    q: Any = None
    for step, (a, b, c) in enumerate(triples):
        if gram is None or restarts == "standard" or step in restarts:
            x, q = (x if q is None else product(q, x)), None
            gram = product(x, x.mT)
        z = of(of(b * gram) + of(c * product(gram, gram)))
        factor = z + a * np.eye(z.shape[-1])
        if restarts == "standard":
            x = of(of(a * x) + product(z, x))
            continue
        q = of(factor) if q is None else of(of(a * q) + product(q, z))
        half = of(of(a * gram) + product(z, gram))
        gram = of(of(a * half) + product(z, half))
    return x if q is None else product(q, x)
