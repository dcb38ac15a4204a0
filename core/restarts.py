"""Where the Gram iteration must restart: found by running both loops, rounded as the compute dtype rounds.

Two facts make a closed formula useless here. Rounding perturbs ``R = x xᵀ`` in proportion to its entries, and the
momenta of real training are nearly of rank one, so the perturbation of their small singular values is far from
what a random matrix shows. The model is therefore the iteration itself: on a few fixed matrices with spectra like
those of momenta, with every product rounded to the compute dtype, the plan with the fewest restarts is chosen whose
error stays near that of the standard loop in the same arithmetic.
"""

import math
from collections.abc import Iterator
from functools import lru_cache
from itertools import combinations
from typing import NamedTuple

import numpy as np

from zeropower.coefficients import Triple, apply, schedule
from zeropower.iterations import gram_loop, standard_loop
from zeropower.kernels import Array, Kernels
from zeropower.normalize import Norm

MAX_SINGULAR_VALUE_ERROR = 1.25
"""The greatest error of a singular value over all matrices may exceed the standard loop's by this factor."""
MAX_GREATEST = 1.25
"""The greatest singular value of many small matrices may exceed the standard loop's by this factor."""
MAX_MATRIX_ERROR = 2.0
"""The relative Frobenius error of each matrix may exceed the standard loop's by this factor."""

BLOWN_UP = 1.0
"""The error of a singular value, of outputs that are about one, from which on a plan is no plan."""

_GUARD_BITS = 2  # a plan must hold with that much less precision, too
_EXHAUSTIVE_STEPS = 10  # beyond, only evenly spaced plans are tried: the subsets double with every step
_SHAPES = ((64, 128), (96, 112))
_CROWD = (400, 8, 16)
_SIGNIFICAND_BITS = {
    "bfloat16": 8,
    "float16": 11,
    "float32": 24,
    "float64": 24,  # errors are in proportion to the roundoff once it is small, so float32's plan is float64's
}


class _Sample(NamedTuple):
    matrix: np.ndarray  # (rows, columns), float64, Frobenius norm one
    left: np.ndarray  # (rows, rows), its singular vectors and values
    values: np.ndarray
    right: np.ndarray


class _Arithmetic(NamedTuple):
    """The iteration's inputs and products in one precision, and what the standard loop makes of them there."""

    kernels: Kernels
    inputs: list[np.ndarray]
    matrix_errors: np.ndarray
    value_error: float
    crowd: np.ndarray
    greatest: float


def restarts(triples: tuple[Triple, ...], dtype: str) -> tuple[int, ...]:
    """Return the steps before which the Gram iteration restarts.

    A plan is accepted where it is accurate in the precision of ``dtype`` and still is with one and two bits less:
    what blows up grows with a high power of the roundoff, so those bits are the distance to the edge. (They also
    cover larger matrices, whose Gram matrices are perturbed more, in proportion to the root of their size.)

    Parameters
    ----------
    triples
        The quintic of each step.
    dtype
        The compute dtype: ``"float64"``, ``"float32"``, ``"float16"`` or ``"bfloat16"``.

    Returns
    -------
    tuple of int
        0-based steps in increasing order. All of ``1 .. steps - 1`` (the standard loop, in effect) where no plan
        with fewer is as accurate.
    """
    return _search(triples, dtype)  # a plain function around the cache: compilers trace caches, with a warning


SOUND: frozenset[tuple[tuple[Triple, ...], tuple[int, ...], str]] = frozenset({
    (schedule("keller", 5), (2,), "float16"),
    (schedule("polar_express_dao", 5), (2,), "float16"),
})
"""Plans of the dialects, which an import need not try out: a test does."""


def blow_up(triples: tuple[Triple, ...], plan: tuple[int, ...], dtype: str) -> bool:
    """Tell whether a plan loses the iteration in a dtype: some singular value is wrong by more than :data:`BLOWN_UP`.

    Parameters
    ----------
    triples
        The quintic of each step.
    plan
        The steps before which the Gram iteration restarts.
    dtype
        The compute dtype.

    Returns
    -------
    bool
        What happens on matrices with spectra like those of momenta.
    """
    return (triples, plan, dtype) not in SOUND and tried_to_blow_up(triples, plan, dtype)


@lru_cache(maxsize=64)
def tried_to_blow_up(triples: tuple[Triple, ...], plan: tuple[int, ...], dtype: str) -> bool:
    """Return what :func:`blow_up` does, from a trial."""
    with np.errstate(all="ignore"):
        arithmetic = _arithmetic(triples, _samples(), _SIGNIFICAND_BITS[dtype])
        outputs = _gram_outputs(plan, triples, arithmetic)
        error = _value_error(outputs, _samples(), triples)
        excess = _greatest_of_crowd(plan, triples, arithmetic) - arithmetic.greatest
        return not (error <= max(BLOWN_UP, 2.0 * arithmetic.value_error) and excess <= BLOWN_UP)


@lru_cache(maxsize=64)
def _search(triples: tuple[Triple, ...], dtype: str) -> tuple[int, ...]:
    bits = _SIGNIFICAND_BITS[dtype]
    samples = _samples()
    with np.errstate(all="ignore"):  # plans that blow up are what this search is for
        arithmetics = [_arithmetic(triples, samples, b) for b in range(bits - _GUARD_BITS, bits + 1)]
        for plans in _candidates(len(triples)):
            for plan in plans:  # the earliest restarts first: the steepest steps are the first
                if _is_accurate(plan, triples, samples, arithmetics):
                    return plan
    return tuple(range(1, len(triples)))


def _candidates(steps: int) -> Iterator[list[tuple[int, ...]]]:
    """Yield plans in groups of equal cost, cheapest first."""
    if steps <= _EXHAUSTIVE_STEPS:
        for count in range(steps):
            yield list(combinations(range(1, steps), count))
    else:
        for spacing in range(5, 1, -1):
            yield [tuple(range(spacing, steps, spacing))]


def _is_accurate(
    plan: tuple[int, ...],
    triples: tuple[Triple, ...],
    samples: list[_Sample],
    arithmetics: list[_Arithmetic],
) -> bool:
    """Tell whether the errors of a plan stay near those of the standard loop in every precision."""
    for arithmetic in arithmetics:  # the coarsest first: it tells most plans off
        outputs = _gram_outputs(plan, triples, arithmetic)
        ratios = _matrix_errors(outputs, samples, triples) / arithmetic.matrix_errors / MAX_MATRIX_ERROR
        if not np.all(ratios <= 1.0):  # not finite, perhaps
            return False
        if not _value_error(outputs, samples, triples) <= MAX_SINGULAR_VALUE_ERROR * arithmetic.value_error:
            return False
        if not _greatest_of_crowd(plan, triples, arithmetic) <= MAX_GREATEST * arithmetic.greatest:
            return False
    return True


def _greatest_of_crowd(plan: tuple[int, ...], triples: tuple[Triple, ...], arithmetic: _Arithmetic) -> float:
    kernels = arithmetic.kernels
    return _greatest(gram_loop(arithmetic.crowd, triples, plan, how=Norm(), kernels=kernels, xp=np))


def _gram_outputs(plan: tuple[int, ...], triples: tuple[Triple, ...], arithmetic: _Arithmetic) -> list[np.ndarray]:
    kernels = arithmetic.kernels
    return [gram_loop(x, triples, plan, how=Norm(), kernels=kernels, xp=np) for x in arithmetic.inputs]


def _matrix_errors(outputs: list[np.ndarray], samples: list[_Sample], triples: tuple[Triple, ...]) -> np.ndarray:
    """Return the relative Frobenius error of each sample."""
    exact = [(sample.left * apply(triples, sample.values)) @ sample.right for sample in samples]
    errors = [np.linalg.norm(y - target) / np.linalg.norm(target) for y, target in zip(outputs, exact, strict=True)]
    return np.asarray(errors)


def _value_error(outputs: list[np.ndarray], samples: list[_Sample], triples: tuple[Triple, ...]) -> float:
    """Return the greatest error of a singular value of any sample."""
    errors: list[float] = []
    for output, sample in zip(outputs, samples, strict=True):
        if not np.isfinite(output).all():
            return math.inf
        expected = np.sort(np.abs(apply(triples, sample.values)))[::-1]
        errors.append(float(np.max(np.abs(np.linalg.svd(output, compute_uv=False) - expected))))
    return max(errors)


@lru_cache(maxsize=1)
def _samples() -> list[_Sample]:
    """Return fixed matrices as nearly of rank one as momenta are: ‖x‖_F / ‖x‖_2 between 1 and 3."""
    random = np.random.default_rng(20250101)
    samples: list[_Sample] = []
    for rows, columns in _SHAPES:
        for largest, least in ((3e-1, 1e-3), (5e-2, 1e-7), (5e-1, 3e-2)):
            frame = random.standard_normal((rows, rows))
            frame[:, 0] *= np.geomspace(1.0, 1e-2, rows)  # a few neurons carry most of the leading direction
            left, _ = np.linalg.qr(frame)
            right, _ = np.linalg.qr(random.standard_normal((columns, rows)))
            values = np.concatenate([[1.0], np.geomspace(largest, least, rows - 1)])
            values /= np.linalg.norm(values)
            samples.append(_Sample((left * values) @ right.T, left, values, right.T))
    return samples


@lru_cache(maxsize=1)
def _crowd() -> np.ndarray:
    """Return many small matrices with one large singular value and others of any size, (matrices, rows, columns)."""
    # What blows up does so where some singular value meets a peak of the map and rounding adds to it: for some plans
    # on one matrix in fifty, which a few samples do not show.
    random = np.random.default_rng(20250102)
    count, rows, columns = _CROWD
    values = np.exp(random.uniform(np.log(1e-4), 0.0, (count, rows)))
    values[random.uniform(size=values.shape) < 0.6] *= 1e-2
    values[:, 0] = 1.0
    left, _ = np.linalg.qr(random.standard_normal((count, rows, rows)))
    right, _ = np.linalg.qr(random.standard_normal((count, columns, rows)))
    values /= np.linalg.norm(values, axis=-1, keepdims=True)
    return (left * values[:, None, :]) @ right.mT


def _greatest(outputs: np.ndarray) -> float:
    """Return the greatest singular value of all matrices."""
    if not np.isfinite(outputs).all():
        return math.inf
    return float(np.linalg.norm(outputs, ord=2, axis=(-2, -1)).max())


def _arithmetic(triples: tuple[Triple, ...], samples: list[_Sample], bits: int) -> _Arithmetic:
    """Return products that round each result once to a significand of some bits."""

    # accumulated in float64, so that the plan does not depend on the order in which a machine adds
    def rounding(x: np.ndarray) -> np.ndarray:  # Veltkamp's splitting: the high part, rounded to nearest
        shifted = x * float(2 ** (53 - bits) + 1)
        return shifted - (shifted - x)

    def gram(x: Array, /, *, out: Array | None = None) -> Array:
        return rounding(x @ x.mT)

    def muladd(
        a: Array,
        b: Array,
        c: Array | None = None,
        /,
        *,
        alpha: float = 1.0,
        beta: float = 1.0,
        out: Array | None = None,
    ) -> Array:
        product = alpha * (a @ b)
        return rounding(product if c is None else product + beta * c)

    kernels = Kernels(gram, muladd, muladd)
    inputs = [rounding(sample.matrix) for sample in samples]
    outputs = [standard_loop(x, triples, how=Norm(), kernels=kernels, xp=np) for x in inputs]
    matrix_errors = _matrix_errors(outputs, samples, triples)
    crowd = rounding(_crowd())
    greatest = _greatest(standard_loop(crowd, triples, how=Norm(), kernels=kernels, xp=np))
    return _Arithmetic(kernels, inputs, matrix_errors, _value_error(outputs, samples, triples), crowd, greatest)
