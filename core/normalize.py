"""Scalings that bring every singular value of a matrix into [0, 1], per matrix of a stack, safe in 16-bit dtypes."""

from typing import Literal, TypeAlias

from zeropower.kernels import Array

Normalization: TypeAlias = Literal["frobenius", "schatten4", "aol"]
EpsMode: TypeAlias = Literal["clamp", "add"]
NORMALIZATIONS: tuple[Normalization, ...] = ("frobenius", "schatten4", "aol")
EPS_MODES: tuple[EpsMode, ...] = ("clamp", "add")


def accumulation_dtype(dtype: Array, xp: Array) -> Array:
    """Return the dtype in which norms and moments of ``dtype`` are accumulated: float32 at least."""
    return xp.float32 if xp.finfo(dtype).bits < 32 else dtype


def frobenius(x: Array, *, eps: float | None, eps_mode: EpsMode, xp: Array) -> Array:
    """Divide each matrix by its Frobenius norm, which bounds its spectral norm.

    ``x / ‖x‖_F``, with ``x / max(‖x‖_F, eps)`` for ``eps_mode="clamp"`` and ``x / (‖x‖_F + eps)`` for ``"add"``.
    The squares are taken of ``x / max|x|``, so that neither the smallest nor the largest normal number of the
    dtype under- or overflows, and powers of two in the scale of ``x`` change no bit of the result.

    Parameters
    ----------
    x
        Real floating array of shape (..., m, n).
    eps
        ``None`` guards an exact zero alone; a number acts as ``eps_mode`` says, in units of ``x``.
    eps_mode
        ``"clamp"`` or ``"add"``.
    xp
        The namespace of ``x``.

    Returns
    -------
    array
        Same shape, in the accumulation dtype (float32 for 16-bit ``x``). A zero matrix stays zero; a matrix that
        holds a NaN or an infinity becomes NaN, without touching its neighbours.
    """
    if x.shape[-1] == 0 or x.shape[-2] == 0:
        return xp.astype(x, accumulation_dtype(x.dtype, xp))
    x = xp.astype(x, accumulation_dtype(x.dtype, xp))
    largest = _one_where_zero(xp.max(xp.abs(x), axis=(-2, -1), keepdims=True), xp)
    # XLA multiplies by the reciprocal, which is subnormal, and flushed, for the largest numbers that there are.
    unit = xp.where(largest > 1.0, largest / 16.0, largest)
    x = x / unit
    norm = xp.sqrt(xp.sum(x * x, axis=(-2, -1), keepdims=True))
    if eps is not None:
        relative_eps = eps / unit
        norm = xp.maximum(norm, relative_eps) if eps_mode == "clamp" else norm + relative_eps
    return x / _one_where_zero(norm, xp)


def precondition(x: Array, gram: Array, how: Normalization, *, xp: Array) -> tuple[Array, Array]:
    """Tighten a Frobenius-normalised matrix with its first Gram matrix, which the iteration needs anyway.

    * ``"frobenius"``: nothing more.
    * ``"schatten4"``: ``x / ‖x‖_S4``, where ``‖x‖_S4⁴ = ‖x xᵀ‖_F²``; still a bound of the spectral norm.
    * ``"aol"``: ``D^-1/2 x`` with ``D = diag(Σ_j |x xᵀ|_ij)`` (Prach and Lampert, arXiv:2208.03160): tighter for
      nearly orthogonal rows, at the price of changed singular vectors.

    Parameters
    ----------
    x
        Array (..., m, n) with spectral norm at most one.
    gram
        ``x xᵀ``, (..., m, m).
    how
        The name of the normalisation.
    xp
        The namespace of ``x``.

    Returns
    -------
    tuple of array
        The tightened ``x`` and its Gram matrix, in the dtypes that came in.
    """
    if how == "frobenius":
        return x, gram
    wide = accumulation_dtype(gram.dtype, xp)
    magnitude = xp.astype(gram, wide)
    if how == "schatten4":
        squared = _one_where_zero(xp.sqrt(xp.sum(magnitude * magnitude, axis=(-2, -1), keepdims=True)), xp)
        left = xp.sqrt(1.0 / squared)
        return _scale(x, left, xp), _scale(gram, 1.0 / squared, xp)
    row_sums = _one_where_zero(xp.sum(xp.abs(magnitude), axis=-1, keepdims=True), xp)
    left = xp.sqrt(1.0 / row_sums)
    return _scale(x, left, xp), _scale(gram, left * left.mT, xp)


def _scale(x: Array, factor: Array, xp: Array) -> Array:
    return xp.astype(xp.astype(x, factor.dtype) * factor, x.dtype)


def _one_where_zero(x: Array, xp: Array) -> Array:
    return xp.where(x == 0, xp.ones_like(x), x)
