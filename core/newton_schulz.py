"""Orthogonalisation by odd polynomials: every singular value of a matrix moves towards one, its vectors stay."""

from collections.abc import Collection
from itertools import pairwise
from typing import Any, Literal, NamedTuple, TypeAlias

from array_api_compat import array_namespace

from zeropower.checks import require_choice, require_matrices, require_number
from zeropower.coefficients import Coefficients, Triple, after_division, schedule
from zeropower.iterations import gram_loop, standard_loop
from zeropower.kernels import GENERIC, Array, Kernels
from zeropower.normalize import (
    CAST_ORDERS,
    EPS_MODES,
    NORMALIZATIONS,
    CastOrder,
    EpsMode,
    Norm,
    Normalization,
    normalized,
)
from zeropower.restarts import restarts as find_restarts

Method: TypeAlias = Literal["auto", "standard", "gram"]
METHODS: tuple[Method, ...] = ("auto", "standard", "gram")
Restarts: TypeAlias = Literal["auto"] | Collection[int]


class Plan(NamedTuple):
    """How a shape is iterated; a static fact, decided once."""

    method: Literal["standard", "gram"]
    restarts: tuple[int, ...]
    flops: int


def ns_iterate(
    x: Array,
    *,
    coefficients: Coefficients = "keller",
    steps: int = 5,
    normalize: Normalization = "frobenius",
    eps: float | None = None,
    eps_mode: EpsMode = "clamp",
    safety: float = 1.0,
    cast: CastOrder = "after_norm",
    compute_dtype: Array | str | None = None,
    kernels: Kernels = GENERIC,
    xp: Any = None,
) -> Array:
    """Push the singular values of each matrix towards one with the standard iteration.

    ``x <- a x + (b R + c R²) x`` with ``R = x xᵀ``, after normalising; singular values follow the scalar map
    ``s -> a s + b s³ + c s⁵``. With Keller's coefficients and five steps, ratios ``s / ‖x‖_F`` in [0.003, 1] end in
    [0.68, 1.21]. (K. Jordan et al., "Muon", 2024; Bernstein and Newhouse, arXiv:2409.20325.)

    Parameters
    ----------
    x
        Real floating array (..., m, n); leading axes are independent matrices. Never written.
    coefficients
        A name of :data:`zeropower.TABLES`, one triple ``(a, b, c)``, or a sequence of triples.
    steps
        Number of steps, at least 0; beyond the table its last triple repeats. 0 returns the normalised ``x``.
    normalize
        ``"frobenius"``, ``"schatten4"``, ``"spectral_bound"`` or ``"aol"``, per matrix.
    eps
        ``None`` guards an exact zero alone, and the result does not depend on the scale of ``x``. A number, in
        units of ``x``, clamps the norm from below or is added to it.
    eps_mode
        ``"clamp"`` or ``"add"``.
    safety
        The norm is multiplied by it, at least 1: headroom for coefficients that blow up just above one.
    cast
        ``"after_norm"``: ``x`` is normalised in float32 at least, then rounded to the compute dtype;
        ``"before_norm"``: it is rounded first, and normalised in the compute dtype.
    compute_dtype
        A dtype of the namespace or its name (``"bfloat16"``) for the iteration; ``None`` keeps the dtype of ``x``.
    kernels
        The matrix products.
    xp
        The namespace of ``x``; looked up where it is not given. Give it inside ``torch.compile``.

    Returns
    -------
    array
        The shape, dtype and device of ``x``. A zero matrix gives zero, a matrix with a NaN gives NaN.

    Raises
    ------
    ValueError
        If ``x`` has fewer than two axes, or an option is not among the accepted.
    TypeError
        If ``x`` is not real floating, or a number is not a number.

    Examples
    --------
    >>> import numpy as np
    >>> ns_iterate(np.diag([4.0, 1.0, 0.01])).round(3)
    array([[0.737, 0.   , 0.   ],
           [0.   , 0.743, 0.   ],
           [0.   , 0.   , 0.986]])
    """
    xp = array_namespace(x) if xp is None else xp
    triples = schedule(coefficients, steps)
    how = _norm(normalize, eps, eps_mode, safety, cast)
    work = _prepare(x, how, compute_dtype, xp)
    return _finish(standard_loop(work, triples, how=how, kernels=kernels, xp=xp), x, xp)


def gram_ns(
    x: Array,
    *,
    coefficients: Coefficients = "keller",
    steps: int = 5,
    restarts: Restarts = "auto",
    normalize: Normalization = "frobenius",
    eps: float | None = None,
    eps_mode: EpsMode = "clamp",
    safety: float = 1.0,
    cast: CastOrder = "after_norm",
    compute_dtype: Array | str | None = None,
    kernels: Kernels = GENERIC,
    xp: Any = None,
) -> Array:
    """Compute what :func:`ns_iterate` computes on the Gram matrix, at the cost of the smaller side.

    ``x <- Q x`` with ``Q`` the product of the factors ``a I + b R + c R²``, where ``R <- P R P`` follows without
    ``x`` (Dao-AILab, "Gram Newton-Schulz", 2025). Cheaper than the standard iteration where m and n differ;
    square matrices take the standard one.

    Parameters
    ----------
    x
        Real floating array (..., m, n); leading axes are independent matrices. Never written.
    coefficients
        As for :func:`ns_iterate`.
    steps
        As for :func:`ns_iterate`.
    restarts
        0-based steps before which the Gram matrix is computed afresh from ``x`` (0 and steps beyond the last are
        without effect), or ``"auto"``: the fewest that keep the accuracy of the standard iteration with these
        coefficients in this compute dtype.
    normalize
        As for :func:`ns_iterate`.
    eps
        As for :func:`ns_iterate`.
    eps_mode
        As for :func:`ns_iterate`.
    safety
        As for :func:`ns_iterate`.
    cast
        As for :func:`ns_iterate`.
    compute_dtype
        As for :func:`ns_iterate`.
    kernels
        The matrix products.
    xp
        The namespace of ``x``; looked up where it is not given. Give it inside ``torch.compile``.

    Returns
    -------
    array
        The shape, dtype and device of ``x``.

    Raises
    ------
    ValueError
        If ``x`` has fewer than two axes, or an option is not among the accepted.
    TypeError
        If ``x`` is not real floating, or a number is not a number.
    """
    xp = array_namespace(x) if xp is None else xp
    triples = schedule(coefficients, steps)
    how = _norm(normalize, eps, eps_mode, safety, cast)
    work = _prepare(x, how, compute_dtype, xp)
    chosen = _resolve_restarts(restarts, after_division(triples, safety), dtype_name(work.dtype))
    return _finish(_gram_form(work, triples, chosen, how, kernels, xp), x, xp)


def orthogonalize(
    x: Array,
    *,
    method: Method = "auto",
    coefficients: Coefficients = "keller",
    steps: int = 5,
    restarts: Restarts = "auto",
    normalize: Normalization = "frobenius",
    eps: float | None = None,
    eps_mode: EpsMode = "clamp",
    safety: float = 1.0,
    cast: CastOrder = "after_norm",
    compute_dtype: Array | str | None = None,
    kernels: Kernels = GENERIC,
    xp: Any = None,
) -> Array:
    """Push the singular values of each matrix towards one by the cheaper of the two iterations.

    Parameters
    ----------
    x
        Real floating array (..., m, n).
    method
        ``"standard"``, ``"gram"``, or ``"auto"``: by :func:`plan`.
    coefficients
        As for :func:`ns_iterate`.
    steps
        As for :func:`ns_iterate`.
    restarts
        As for :func:`gram_ns`.
    normalize
        As for :func:`ns_iterate`.
    eps
        As for :func:`ns_iterate`.
    eps_mode
        As for :func:`ns_iterate`.
    safety
        As for :func:`ns_iterate`.
    cast
        As for :func:`ns_iterate`.
    compute_dtype
        As for :func:`ns_iterate`.
    kernels
        The matrix products.
    xp
        The namespace of ``x``; looked up where it is not given. Give it inside ``torch.compile``.

    Returns
    -------
    array
        The shape, dtype and device of ``x``.

    Raises
    ------
    ValueError
        If ``x`` has fewer than two axes, or an option is not among the accepted.
    TypeError
        If ``x`` is not real floating, or a number is not a number.
    """
    xp = array_namespace(x) if xp is None else xp
    require_choice("method", method, METHODS)
    require_matrices("x", x, xp)
    how = _norm(normalize, eps, eps_mode, safety, cast)
    triples = schedule(coefficients, steps)
    mapped = after_division(triples, safety)
    if method == "auto":
        dtype = dtype_name(resolve_dtype(compute_dtype, x.dtype, xp))
        method, restarts, _ = plan(
            x.shape, coefficients=mapped or coefficients, steps=steps, restarts=restarts, dtype=dtype
        )
    work = _prepare(x, how, compute_dtype, xp)
    if method == "standard":
        result = standard_loop(work, triples, how=how, kernels=kernels, xp=xp)
    else:
        chosen = _resolve_restarts(restarts, mapped, dtype_name(work.dtype))
        result = _gram_form(work, triples, chosen, how, kernels, xp)
    return _finish(result, x, xp)


def plan(
    shape: tuple[int, ...], *, coefficients: Coefficients, steps: int, restarts: Restarts = "auto", dtype: str
) -> Plan:
    """Choose the iteration for a shape by counted multiplications, symmetric products counting half.

    Parameters
    ----------
    shape
        The shape (..., m, n); leading axes do not matter.
    coefficients
        As for :func:`ns_iterate`.
    steps
        As for :func:`ns_iterate`.
    restarts
        As for :func:`gram_ns`.
    dtype
        The name of the compute dtype.

    Returns
    -------
    Plan
        Square matrices always take the standard iteration. ``flops`` counts a multiplication and an addition as two.
    """
    small, large = sorted(shape[-2:])
    square, product = small**3, small * small * large
    standard = steps * (product + square + 2 * product)
    if small == large or steps == 0:
        return Plan("standard", (), standard)
    chosen = _resolve_restarts(restarts, schedule(coefficients, steps), dtype)
    bounds = (0, *chosen, steps)
    gram = sum(
        3 * product + square * (length + 3 * (length - 1))
        for length in (stop - start for start, stop in pairwise(bounds))
    )
    return Plan("gram", chosen, gram) if gram < standard else Plan("standard", (), standard)


def resolve_dtype(wanted: Array | str | None, own: Array, xp: Array) -> Array:
    """Return the compute dtype that an option asks for."""
    if wanted is None:
        return own
    if isinstance(wanted, str):
        require_choice("compute_dtype", wanted, ("float64", "float32", "float16", "bfloat16"))
        found = getattr(xp, wanted, None)
        if found is None or (wanted == "float64" and not _has_float64(xp)):
            raise ValueError(f"compute_dtype={wanted!r} does not exist in {xp.__name__}")
        return found
    if not xp.isdtype(wanted, "real floating"):
        raise ValueError(f"compute_dtype={wanted!r} is not accepted; accepted: a real floating dtype or its name")
    return wanted


def _has_float64(xp: Array) -> bool:
    """Tell whether the namespace computes in float64; without ``jax_enable_x64`` JAX has the name alone."""
    return "float64" in xp.__array_namespace_info__().dtypes(kind="real floating")


def dtype_name(dtype: Array) -> str:
    """Return the plain name of a dtype: ``"float32"`` for ``torch.float32``, ``numpy.float32`` and so on."""
    name = getattr(dtype, "name", None) or getattr(dtype, "__name__", None) or str(dtype)
    return name.rpartition(".")[-1]


def _resolve_restarts(restarts: Restarts, triples: tuple[Triple, ...], dtype: str) -> tuple[int, ...]:
    if restarts == "auto":
        return find_restarts(triples, dtype)
    if isinstance(restarts, str) or min(restarts, default=0) < 0:
        raise ValueError(f"restarts={restarts!r} is not accepted; accepted: 'auto' or 0-based steps")
    return tuple(sorted({r for r in restarts if 0 < r < len(triples)}))


def _gram_form(
    work: Array, triples: tuple[Triple, ...], restarts: tuple[int, ...], how: Norm, kernels: Kernels, xp: Array
) -> Array:
    """Run the Gram iteration, or the standard one on square matrices, where Gram costs more."""
    if work.shape[-2] == work.shape[-1]:
        return standard_loop(work, triples, how=how, kernels=kernels, xp=xp)
    return gram_loop(work, triples, restarts, how=how, kernels=kernels, xp=xp)


def _norm(normalize: Normalization, eps: float | None, eps_mode: EpsMode, safety: float, cast: CastOrder) -> Norm:
    require_choice("normalize", normalize, NORMALIZATIONS)
    require_choice("eps_mode", eps_mode, EPS_MODES)
    require_choice("cast", cast, CAST_ORDERS)
    if eps is not None:
        require_number("eps", eps, low=0.0)
    require_number("safety", safety, low=1.0)
    return Norm(normalize, eps, eps_mode, safety, cast)


def _prepare(x: Array, how: Norm, compute_dtype: Array | str | None, xp: Array) -> Array:
    """Check the matrices and return them normalised, in the compute dtype."""
    require_matrices("x", x, xp)
    return normalized(x, how, resolve_dtype(compute_dtype, x.dtype, xp), xp=xp)


def _finish(result: Array, x: Array, xp: Array) -> Array:
    return xp.astype(result, x.dtype)
