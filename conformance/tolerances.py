"""Every tolerance of the suite, with its derivation.

Errors are relative to a norm, per matrix or per tensor. A bound is never a guess: it is what roundoff does to the
textbook formula, measured in float64 with errors of the dtype's size, times :data:`SAFETY`; or, for products and
element-wise formulas, the classical bound of the operations counted.
"""

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from typing import Literal, TypeAlias

import numpy as np

from zeropower.conformance.oracles import Rounding, Triples, normalized, orthogonalized, rounded_loop

UNIT_ROUNDOFF = {"float64": 2.0**-53, "float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}

SUM_ROUNDOFF = {"float64": 2.0**-53, "float32": 2.0**-24, "float16": 2.0**-24, "bfloat16": 2.0**-24}
"""Products of 16-bit matrices accumulate in float32."""

SAFETY = 4.0
"""Of a measured response: the order of sums and the fusing of operations belong to the backend."""

SEEDS = (1, 2, 3)

ELEMENTWISE_ROUNDINGS = 16
"""Operations of an element-wise formula, each wrong by one unit roundoff at most: Adam's direction has 13."""

Tensors: TypeAlias = Mapping[str, np.ndarray]


def matrix_errors(actual: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """Return ``‖actual - exact‖_F / ‖exact‖_F`` of each matrix (..., m, n); against zero, the norm of ``actual``."""
    actual, exact = actual.astype(np.float64), exact.astype(np.float64)
    size = np.linalg.norm(exact, axis=(-2, -1))
    return np.linalg.norm(actual - exact, axis=(-2, -1)) / np.where(size == 0, 1.0, size)


def tensor_error(actual: np.ndarray, exact: np.ndarray) -> float:
    """Return ``‖actual - exact‖ / ‖exact‖`` of a whole tensor."""
    actual, exact = actual.astype(np.float64), exact.astype(np.float64)
    size = float(np.linalg.norm(exact.ravel()))
    return float(np.linalg.norm((actual - exact).ravel())) / (size or 1.0)


def iteration(
    x: np.ndarray,
    triples: Triples,
    dtype: str,
    *,
    normalize: str = "frobenius",
    eps: float | None = None,
    eps_mode: str = "clamp",
    restarts: Collection[int] | Literal["standard"] = "standard",
) -> np.ndarray:
    """Return the bound of :func:`matrix_errors` of an iteration computed in a dtype.

    Parameters
    ----------
    x
        Matrices (..., m, n).
    triples
        The quintics, one a step.
    dtype
        The compute dtype.
    normalize
        The normalisation.
    eps
        The floor of its norm.
    eps_mode
        ``"clamp"`` or ``"add"``.
    restarts
        ``"standard"``, or those of the Gram iteration.

    Returns
    -------
    ndarray
        One bound a matrix, at least :data:`SAFETY` units of roundoff.
    """
    key = (x.tobytes(), x.shape, x.dtype, tuple(triples), dtype, normalize, eps, eps_mode, tuple(restarts))
    if key not in _BOUNDS:
        _BOUNDS[key] = _iteration(x, triples, dtype, normalize, eps, eps_mode, restarts)
    return _BOUNDS[key]


_BOUNDS: dict[Hashable, np.ndarray] = {}  # many checks ask for the same matrices


def _iteration(
    x: np.ndarray,
    triples: Triples,
    dtype: str,
    normalize: str,
    eps: float | None,
    eps_mode: str,
    restarts: Collection[int] | Literal["standard"],
) -> np.ndarray:
    start = normalized(x, normalize, eps, eps_mode)
    exact = orthogonalized(x, triples, normalize=normalize, eps=eps, eps_mode=eps_mode)
    unit = UNIT_ROUNDOFF[dtype]
    runs = [rounded_loop(start, triples, Rounding(unit, SUM_ROUNDOFF[dtype], seed), restarts) for seed in SEEDS]
    return SAFETY * np.maximum(np.max([matrix_errors(run, exact) for run in runs], axis=0), unit)


def norm(size: int, dtype: str) -> float:
    """Return the bound of :func:`matrix_errors` of a matrix of so many elements over its Frobenius norm."""
    # the roundings of a sum, at random signs, grow with the square root of its terms
    return SAFETY * (UNIT_ROUNDOFF[dtype] + SUM_ROUNDOFF[dtype] * float(np.sqrt(size)))


def product(a: np.ndarray, b: np.ndarray, c: np.ndarray | None, alpha: float, beta: float, dtype: str) -> np.ndarray:
    """Return the bound of each element of ``alpha a b + beta c`` computed in a dtype."""
    # A sum of k terms is wrong by k u |a| |b| at most (Higham, "Accuracy and Stability of Numerical Algorithms",
    # section 3.1), and a fused addend is one of them; the scalars and the last sum add roundings of the dtype.
    unit, terms = UNIT_ROUNDOFF[dtype], a.shape[-1] * SUM_ROUNDOFF[dtype]
    bound = (terms + 4 * unit) * abs(alpha) * (np.abs(a) @ np.abs(b))
    return bound if c is None else bound + (terms + 4 * unit) * abs(beta) * np.abs(c)


def elementwise(dtype: str) -> float:
    """Return the bound of :func:`tensor_error` of an element-wise formula."""
    return ELEMENTWISE_ROUNDINGS * UNIT_ROUNDOFF[dtype]


def gradient_response(run: Callable[[Sequence[Tensors]], Tensors], grads: Sequence[Tensors]) -> dict[str, float]:
    """Return the bound of :func:`tensor_error` of each parameter after a run of an optimizer.

    The run is repeated with every element of every gradient moved to a neighbour in its dtype, up or down at
    random: two correct implementations differ by about as much as those runs do.

    Parameters
    ----------
    run
        Gradients of each step to parameters after the last.
    grads
        The gradients.

    Returns
    -------
    dict of float
        One bound a parameter.
    """
    exact, worst = run(grads), dict[str, float]()
    roundings = float(np.sqrt(len(grads)))  # of each parameter, one a step, independent of one another
    for seed in SEEDS:
        random = np.random.default_rng(seed)
        moved = [{name: _neighbours(g, random) for name, g in step.items()} for step in grads]
        for name, value in run(moved).items():
            least = roundings * UNIT_ROUNDOFF[value.dtype.name]
            worst[name] = max(worst.get(name, least), tensor_error(value, exact[name]))
    return {name: SAFETY * error for name, error in worst.items()}


def _neighbours(x: np.ndarray, random: np.random.Generator) -> np.ndarray:
    towards = np.where(random.integers(0, 2, x.shape) == 1, np.inf, -np.inf).astype(x.dtype)
    return np.nextafter(x, towards)
