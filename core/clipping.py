"""Gradient clipping: by the norm or the values of one tensor, or by the norm of all together."""

from collections.abc import Sequence
from functools import reduce
from operator import add
from typing import Any

from array_api_compat import array_namespace

from zeropower.checks import require_number
from zeropower.kernels import Array
from zeropower.moments import in_dtype
from zeropower.normalize import accumulation_dtype

_ADDEND = 1e-6  # of the norm, in units of the gradient; burn 0.21


def norm_factor(grad: Array, max_norm: float | Array, *, xp: Any = None) -> Array:
    """Return what clipping by the norm multiplies a gradient with.

    ``min(max_norm / (‖grad‖_2 + 1e-6), 1)`` (burn 0.21, as ``torch.nn.utils.clip_grad_norm_``): a gradient whose
    norm is ``max_norm`` exactly is still scaled, by ``1 - 1e-6 / max_norm`` about. The squares are taken of
    elements in units of the largest, so that they stay within the dtype wherever the elements do.

    Parameters
    ----------
    grad
        The gradient, any shape, real floating; the norm is that of all its elements. Never written.
    max_norm
        Bound of the norm, positive: a number or a 0-d array.
    xp
        The namespace of ``grad``; looked up where it is not given. Give it inside ``torch.compile``.

    Returns
    -------
    array
        0-d in [0, 1], float32 at least. 1 for a gradient of zeros or without elements if ``max_norm >= 1e-6``; NaN
        for one with a NaN or an infinity. In float32 it falls below the normal numbers, which devices may take for
        zero, where the norm is 8e37 times ``max_norm``; :func:`clip_by_norm` does without it.

    Raises
    ------
    ValueError
        If ``max_norm`` is a number that is not finite and positive.
    TypeError
        If ``max_norm`` is no number, or ``grad`` not real floating.

    Examples
    --------
    >>> import numpy as np
    >>> round(float(norm_factor(np.asarray([3.0, 4.0]), 1.0)), 9)
    0.19999996
    """
    _require_positive("max_norm", max_norm)
    xp = array_namespace(grad) if xp is None else xp
    numerator, denominator = _ratio([_widened("grad", grad, xp)], max_norm, xp)
    return numerator / xp.maximum(numerator, denominator)


def clip_by_norm(grad: Array, max_norm: float | Array, *, xp: Any = None) -> Array:
    """Return a gradient times its :func:`norm_factor`: its norm is ``max_norm`` at most, up to rounding.

    Parameters
    ----------
    grad
        The gradient, any shape, real floating; the norm is that of all its elements. Never written.
    max_norm
        Bound of the norm, positive: a number or a 0-d array.
    xp
        The namespace of ``grad``; looked up where it is not given. Give it inside ``torch.compile``.

    Returns
    -------
    array
        Like ``grad``, computed in float32 at least and rounded once. Unchanged to the bit where the factor is 1; NaN
        everywhere if ``grad`` holds a NaN or an infinity.

    Raises
    ------
    ValueError
        If ``max_norm`` is a number that is not finite and positive.
    TypeError
        If ``max_norm`` is no number, or ``grad`` not real floating.

    Examples
    --------
    >>> import numpy as np
    >>> np.round(clip_by_norm(np.asarray([3.0, 4.0]), 1.0), 9).tolist()
    [0.59999988, 0.79999984]
    """
    _require_positive("max_norm", max_norm)
    xp = array_namespace(grad) if xp is None else xp
    wide = _widened("grad", grad, xp)
    return xp.astype(_scaled(wide, *_ratio([wide], max_norm, xp), xp), grad.dtype)


def clip_by_global_norm(grads: Sequence[Array], max_norm: float | Array, *, xp: Any = None) -> list[Array]:
    """Return gradients times one factor, so that the norm of all together is ``max_norm`` at most.

    The factor of :func:`norm_factor`, of the gradients laid end to end (Pascanu, Mikolov and Bengio,
    arXiv:1211.5063, algorithm 1, for all parameters at once).

    Parameters
    ----------
    grads
        The gradients, real floating, of any shapes and dtypes, in one namespace. Never written.
    max_norm
        Bound of the norm, positive: a number or a 0-d array.
    xp
        The namespace of the gradients; looked up where it is not given. Give it inside ``torch.compile``.

    Returns
    -------
    list of array
        Each like its gradient, computed in the widest of their dtypes, float32 at least, and rounded once; no
        gradients give none. Unchanged to the bit where the factor is 1; NaN everywhere if any holds a NaN or an
        infinity.

    Raises
    ------
    ValueError
        If ``max_norm`` is a number that is not finite and positive.
    TypeError
        If ``max_norm`` is no number, ``grads`` one array, or a gradient not real floating.

    Examples
    --------
    >>> import numpy as np
    >>> [np.round(g, 9).tolist() for g in clip_by_global_norm([np.asarray([3.0]), np.asarray(4.0)], 1.0)]
    [[0.59999988], 0.79999984]
    """
    _require_positive("max_norm", max_norm)
    shape = getattr(grads, "shape", None)
    if shape is not None:  # its rows would pass as gradients
        raise TypeError(f"grads is one array of shape {tuple(shape)}; accepted: a sequence of arrays")
    if not grads:
        return []
    xp = array_namespace(*grads) if xp is None else xp
    wide = [_widened(f"grads[{i}]", grad, xp) for i, grad in enumerate(grads)]
    widest = xp.result_type(*[x.dtype for x in wide])
    wide = [xp.astype(x, widest) for x in wide]
    numerator, denominator = _ratio(wide, max_norm, xp)
    return [xp.astype(_scaled(x, numerator, denominator, xp), grad.dtype) for x, grad in zip(wide, grads, strict=True)]


def clip_by_value(grad: Array, limit: float | Array, *, xp: Any = None) -> Array:
    """Return a gradient with each element moved into ``[-limit, limit]`` (burn 0.21, ``clip_grad_value_``).

    Parameters
    ----------
    grad
        The gradient, any shape, real floating. Never written.
    limit
        Bound of the magnitudes, positive: a number or a 0-d array.
    xp
        The namespace of ``grad``; looked up where it is not given. Give it inside ``torch.compile``.

    Returns
    -------
    array
        Like ``grad``, compared in float32 at least and rounded once. A NaN stays, an infinity becomes the limit.

    Raises
    ------
    ValueError
        If ``limit`` is a number that is not finite and positive.
    TypeError
        If ``limit`` is no number, or ``grad`` not real floating.

    Examples
    --------
    >>> import numpy as np
    >>> clip_by_value(np.asarray([-3.0, 0.5, np.inf]), 2.0).tolist()
    [-2.0, 0.5, 2.0]
    """
    _require_positive("limit", limit)
    xp = array_namespace(grad) if xp is None else xp
    wide = _widened("grad", grad, xp)
    limit = in_dtype(limit, wide, xp)
    wide = xp.where(wide > limit, limit, wide)
    return xp.astype(xp.where(wide < -limit, -limit, wide), grad.dtype)


def clip(
    grad: Array, *, norm: float | Array | None = None, value: float | Array | None = None, xp: Any = None
) -> Array:
    """Return the gradient of one tensor, clipped as an optimizer's ``clip_norm`` and ``clip_value`` say.

    Parameters
    ----------
    grad
        The gradient, any shape, real floating. Never written.
    norm
        ``clip_norm``, the ``max_norm`` of :func:`clip_by_norm`; ``None``: not clipped by it.
    value
        ``clip_value``, the ``limit`` of :func:`clip_by_value`; ``None``: not clipped by it.
    xp
        The namespace of ``grad``; looked up where it is not given. Give it inside ``torch.compile``.

    Returns
    -------
    array
        Like ``grad``; itself where both are ``None``.

    Raises
    ------
    ValueError
        If both are given, or one is a number that is not finite and positive.
    TypeError
        If one is no number, or ``grad`` not real floating.

    Examples
    --------
    >>> import numpy as np
    >>> clip(np.asarray([-3.0, 0.5]), value=1.0).tolist()
    [-1.0, 0.5]
    """
    require_clip(norm, value)
    if norm is not None:
        return clip_by_norm(grad, norm, xp=xp)
    return grad if value is None else clip_by_value(grad, value, xp=xp)


def require_clip(norm: object, value: object) -> None:
    """Refuse the options of clipping where :func:`clip` would: before anything is computed, and by their names.

    Parameters
    ----------
    norm
        ``clip_norm``: ``None``, a finite positive number, or a 0-d array, which passes unseen.
    value
        ``clip_value``, likewise.

    Raises
    ------
    ValueError
        If both are given, or one is a number that is not finite and positive.
    TypeError
        If one is no number.
    """
    if norm is not None:
        _require_positive("clip_norm", norm)
    if value is not None:
        _require_positive("clip_value", value)
    if norm is not None and value is not None:
        raise ValueError(f"clip_norm={norm!r} and clip_value={value!r} are mutually exclusive; accepted: one of them")


def _require_positive(name: str, value: object) -> None:
    require_number(name, value, low=0.0, low_open=True)


def _widened(name: str, grad: Array, xp: Any) -> Array:
    if not xp.isdtype(grad.dtype, "real floating"):
        raise TypeError(f"{name} has dtype {grad.dtype}; accepted: real floating dtypes")
    return xp.astype(grad, accumulation_dtype(grad.dtype, xp))


def _ratio(wide: Sequence[Array], max_norm: float | Array, xp: Any) -> tuple[Array, Array]:
    """Return ``max_norm / (‖wide‖ + 1e-6)`` as numerator and denominator.

    Norms of float32 arrays reach beyond float32, and the quotient below it: these two do not.

    Parameters
    ----------
    wide
        Arrays in one dtype, float32 at least.
    max_norm
        Bound of the norm.
    xp
        Their namespace.

    Returns
    -------
    tuple of array
        Both 0-d, in that dtype, the denominator at least 1e-6.
    """
    largest = reduce(xp.maximum, [_largest(x, xp) for x in wide])
    # A sixteenth, because 1 / largest may be subnormal, and XLA multiplies with it and takes it for zero; at least the
    # addend, because what underflows beside it does not count.
    scale = xp.where(largest > 16 * _ADDEND, largest / 16, _ADDEND)
    relative = xp.sqrt(reduce(add, [xp.sum((x / scale) ** 2) for x in wide]))
    return in_dtype(max_norm, scale, xp) / (relative + _ADDEND / scale), scale


def _largest(x: Array, xp: Any) -> Array:
    return xp.sum(x) if 0 in x.shape else xp.max(xp.abs(x))  # no elements have no largest, but a sum, on their device


def _scaled(wide: Array, numerator: Array, denominator: Array, xp: Any) -> Array:
    # written so that a NaN compares as clipped and reaches every element
    return xp.where(numerator >= denominator, wide, (wide / denominator) * numerator)
