"""Scalings that bring every singular value of a matrix into [0, 1], per matrix of a stack, safe in 16-bit dtypes."""

from typing import Literal, NamedTuple, TypeAlias

from zeropower.kernels import Array

Normalization: TypeAlias = Literal["frobenius", "schatten4", "spectral_bound", "aol"]
EpsMode: TypeAlias = Literal["clamp", "add"]
CastOrder: TypeAlias = Literal["after_norm", "before_norm"]
NORMALIZATIONS: tuple[Normalization, ...] = ("frobenius", "schatten4", "spectral_bound", "aol")
EPS_MODES: tuple[EpsMode, ...] = ("clamp", "add")
CAST_ORDERS: tuple[CastOrder, ...] = ("after_norm", "before_norm")


class Norm(NamedTuple):
    """How matrices are scaled.

    Attributes
    ----------
    normalize
        The norm; what is tighter than Frobenius' is applied by :func:`precondition`.
    eps
        ``None`` guards an exact zero alone; a number acts as ``eps_mode`` says, in units of the matrix.
    eps_mode
        ``"clamp"`` or ``"add"``.
    safety
        What the norm is multiplied by, at least 1: headroom for rounding.
    cast
        ``"after_norm"``: normalised in float32 at least, then rounded to the compute dtype. ``"before_norm"``: all of
        it in the compute dtype, but for the sum of squares.
    """

    normalize: Normalization = "frobenius"
    eps: float | None = None
    eps_mode: EpsMode = "clamp"
    safety: float = 1.0
    cast: CastOrder = "after_norm"


def accumulation_dtype(dtype: Array, xp: Array) -> Array:
    """Return the dtype in which norms and moments of ``dtype`` are accumulated: float32 at least."""
    return xp.float32 if xp.finfo(dtype).bits < 32 else dtype


def normalized(x: Array, how: Norm, dtype: Array, *, xp: Array) -> Array:
    """Return each matrix over its Frobenius norm, which bounds its spectral norm, in the compute dtype.

    ``x / (safety ‖x‖_F)``, with ``x / max(safety ‖x‖_F, eps)`` for ``eps_mode="clamp"`` and
    ``x / (safety ‖x‖_F + eps)`` for ``"add"``. A tighter norm takes over the safety factor.

    With ``cast="after_norm"`` the squares are taken of ``x / max|x|``, so that neither the smallest nor the largest
    normal number of the dtype under- or overflows, and powers of two in the scale of ``x`` change no bit of the result.
    With ``"before_norm"`` what the compute dtype cannot hold is lost, as in the implementations that do so.

    Parameters
    ----------
    x
        Real floating array of shape (..., m, n).
    how
        The norm.
    dtype
        The compute dtype.
    xp
        The namespace of ``x``.

    Returns
    -------
    array
        Same shape, in ``dtype``. A zero matrix stays zero; a matrix that holds a NaN or an infinity becomes NaN,
        without touching its neighbours.
    """
    if x.shape[-1] == 0 or x.shape[-2] == 0:
        return xp.astype(x, dtype)
    safety = how.safety if how.normalize == "frobenius" else 1.0
    if how.cast == "before_norm" and xp.finfo(dtype).bits < 32:
        return _in_dtype(x, how, safety, dtype, xp)
    x = xp.astype(x, accumulation_dtype(x.dtype, xp))
    largest = _one_where_zero(xp.max(xp.abs(x), axis=(-2, -1), keepdims=True), xp)
    # XLA multiplies by the reciprocal, which is subnormal, and flushed, for the largest numbers that there are.
    unit = xp.where(largest > 1.0, largest / 16.0, largest)
    x = x / unit
    norm = _guarded(_times(_root_of_squares(x, xp), safety), how, xp, unit=unit)
    return xp.astype(x / norm, dtype)


def _in_dtype(x: Array, how: Norm, safety: float, dtype: Array, xp: Array) -> Array:
    def rounded(y: Array) -> Array:
        return xp.astype(xp.astype(y, dtype), wide)

    wide = accumulation_dtype(dtype, xp)
    x = rounded(x)
    norm = _guarded(rounded(_times(rounded(_root_of_squares(x, xp)), safety)), how, xp)
    return xp.astype(x / rounded(norm), dtype)


def _root_of_squares(x: Array, xp: Array) -> Array:
    return xp.sqrt(xp.sum(x * x, axis=(-2, -1), keepdims=True))


def _times(x: Array, factor: float) -> Array:
    return x if factor == 1.0 else factor * x


def _guarded(norm: Array, how: Norm, xp: Array, *, unit: Array | float = 1.0) -> Array:
    """Return the norm with its eps, in units of ``unit``; zeros become ones."""
    if how.eps is not None:
        relative_eps = how.eps / unit
        norm = xp.maximum(norm, relative_eps) if how.eps_mode == "clamp" else norm + relative_eps
    return _one_where_zero(norm, xp)


def precondition(x: Array, gram: Array, how: Norm, *, xp: Array) -> tuple[Array, Array]:
    """Tighten a Frobenius-normalised matrix with its first Gram matrix, which the iteration needs anyway.

    * ``"frobenius"``: nothing more.
    * ``"schatten4"``: ``x / ‖x‖_S4``, where ``‖x‖_S4⁴ = ‖x xᵀ‖_F²``; still a bound of the spectral norm.
    * ``"spectral_bound"``: ``x / sqrt(b)`` with the smaller of two bounds of the greatest eigenvalue of ``x xᵀ``, its
      Frobenius norm (as above) and its greatest absolute row sum.
    * ``"aol"``: ``D^-1/2 x`` with ``D = diag(Σ_j |x xᵀ|_ij)`` (Prach and Lampert, arXiv:2208.03160): tighter for
      nearly orthogonal rows, at the price of changed singular vectors.

    Parameters
    ----------
    x
        Array (..., m, n) with spectral norm at most one.
    gram
        ``x xᵀ``, (..., m, m).
    how
        The norm. What is tighter than Frobenius' multiplies its norm by the safety factor here.
    xp
        The namespace of ``x``.

    Returns
    -------
    tuple of array
        The tightened ``x`` and its Gram matrix, in the dtypes that came in.
    """
    if how.normalize == "frobenius":
        return x, gram
    wide = accumulation_dtype(gram.dtype, xp)
    entries = xp.astype(gram, wide)
    if how.normalize == "aol":
        row_sums = _one_where_zero(xp.sum(xp.abs(entries), axis=-1, keepdims=True), xp)
        left = xp.sqrt(1.0 / row_sums) / how.safety
        return _scale(x, left, xp), _scale(gram, left * left.mT, xp)
    bound = _root_of_squares(entries, xp)
    if how.normalize == "spectral_bound":
        row_sums = xp.sum(xp.abs(entries), axis=-1, keepdims=True)
        bound = xp.minimum(bound, xp.max(row_sums, axis=-2, keepdims=True))
    factor = 1.0 / (how.safety**2 * _one_where_zero(bound, xp))
    return _scale(x, xp.sqrt(factor), xp), _scale(gram, factor, xp)


def _scale(x: Array, factor: Array, xp: Array) -> Array:
    return xp.astype(xp.astype(x, factor.dtype) * factor, x.dtype)


def _one_where_zero(x: Array, xp: Array) -> Array:
    return xp.where(x == 0, xp.ones_like(x), x)
