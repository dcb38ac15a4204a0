"""The two loops that apply a schedule of odd quintics to the singular values of a matrix.

Both compute the same polynomial. With ``R = x xᵀ`` and ``Z = b R + c R²``, one step is ``x <- a x + Z x``. The
standard loop does just that. The Gram loop (Dao-AILab, "Gram Newton-Schulz", 2025) keeps the factors apart: it
iterates on the small square matrices ``R`` and ``Q``, and multiplies ``x`` by ``Q`` only at restarts and at the
end. A tall ``x`` is multiplied from the right, with ``R = xᵀ x``: the smaller side is iterated, and no transposed
copy is made.
"""

from collections.abc import Collection, Sequence
from itertools import pairwise

from zeropower.coefficients import Triple
from zeropower.kernels import Array, Kernels
from zeropower.normalize import Norm, precondition


def standard_loop(x: Array, triples: Sequence[Triple], *, how: Norm, kernels: Kernels, xp: Array) -> Array:
    """Apply the quintics to ``x`` step by step.

    Parameters
    ----------
    x
        Frobenius-normalised matrices (..., m, n) in the compute dtype.
    triples
        One ``(a, b, c)`` a step.
    how
        The tightening that follows the Frobenius norm.
    kernels
        The matrix products.
    xp
        The namespace of ``x``.

    Returns
    -------
    array
        Like ``x``.
    """
    if not triples:
        return _precondition_alone(x, how, kernels, xp)
    for step, (a, b, c) in enumerate(triples):
        gram = _gram(x, kernels)
        if step == 0:
            x, gram = _precondition(x, gram, how, xp)
        z = _factor(gram, b, c, kernels)
        x = _multiply(z, x, x, a, kernels)
    return x


def gram_loop(
    x: Array,
    triples: Sequence[Triple],
    restarts: Collection[int],
    *,
    how: Norm,
    kernels: Kernels,
    xp: Array,
) -> Array:
    """Apply the quintics to ``x`` through its Gram matrix.

    Parameters
    ----------
    x
        Frobenius-normalised matrices (..., m, n) in the compute dtype.
    triples
        One ``(a, b, c)`` a step.
    restarts
        Steps (0-based) before which ``x`` is brought up to date and its Gram matrix computed afresh. Rounding
        makes small eigenvalues of the iterated ``R`` negative, and the polynomial blows those up; a restart
        starts again from a true Gram matrix.
    how
        The tightening that follows the Frobenius norm.
    kernels
        The matrix products.
    xp
        The namespace of ``x``.

    Returns
    -------
    array
        Like ``x``.
    """
    if not triples:
        return _precondition_alone(x, how, kernels, xp)
    bounds = [0, *sorted(restarts), len(triples)]
    for start, stop in pairwise(bounds):
        gram = _gram(x, kernels)
        if start == 0:
            x, gram = _precondition(x, gram, how, xp)
        x = _segment(x, gram, triples[start:stop], kernels, xp)
    return x


def _segment(x: Array, gram: Array, triples: Sequence[Triple], kernels: Kernels, xp: Array) -> Array:
    """Apply some steps with one product with ``x``, given its Gram matrix."""
    q = None
    for step, (a, b, c) in enumerate(triples):
        z = _factor(gram, b, c, kernels)
        last = step == len(triples) - 1
        if last and q is None:
            return _multiply(z, x, x, a, kernels)
        q = _plus_identity(z, a, xp) if q is None else kernels.symmul(q, z, q, beta=a)
        if not last:  # R <- (aI + Z) R (aI + Z); all are polynomials of R, so the products stay symmetric
            half = kernels.symmul(gram, z, gram, beta=a)
            gram = kernels.symmul(z, half, half, beta=a)
    return _multiply(q, x, None, 1.0, kernels)


def _factor(gram: Array, b: float, c: float, kernels: Kernels) -> Array:
    """Return ``b R + c R²``, without the product where ``c`` is zero: PyTorch's fused one is wrong with alpha=0."""
    return b * gram if c == 0.0 else kernels.symmul(gram, gram, gram, alpha=c, beta=b)


def _is_wide(x: Array) -> bool:
    return x.shape[-2] <= x.shape[-1]


def _gram(x: Array, kernels: Kernels) -> Array:
    return kernels.gram(x if _is_wide(x) else x.mT)


def _multiply(square: Array, x: Array, addend: Array | None, beta: float, kernels: Kernels) -> Array:
    """Return ``square @ x + beta * addend``, with the square matrix on the side on which it fits."""
    if _is_wide(x):
        return kernels.muladd(square, x, addend, beta=beta)
    return kernels.muladd(x, square, addend, beta=beta)


def _precondition(x: Array, gram: Array, how: Norm, xp: Array) -> tuple[Array, Array]:
    if _is_wide(x):
        return precondition(x, gram, how, xp=xp)
    transposed, gram = precondition(x.mT, gram, how, xp=xp)
    return transposed.mT, gram


def _precondition_alone(x: Array, how: Norm, kernels: Kernels, xp: Array) -> Array:
    return x if how.normalize == "frobenius" else _precondition(x, _gram(x, kernels), how, xp)[0]


def _plus_identity(z: Array, a: float, xp: Array) -> Array:
    device = getattr(z, "device", None)  # JAX's traced arrays have none, and need none
    identity = xp.eye(z.shape[-1], dtype=z.dtype, device=device)
    return z + a * xp.reshape(identity, (1,) * (z.ndim - 2) + identity.shape)
