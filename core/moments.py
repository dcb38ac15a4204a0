"""Adaptive moments: the direction of Adam."""

import math
from typing import Any, Literal, TypeAlias

from array_api_compat import array_namespace

from zeropower.checks import require_choice
from zeropower.kernels import Array

AdamEpsMode: TypeAlias = Literal["corrected", "uncorrected", "clamp"]
ADAM_EPS_MODES: tuple[AdamEpsMode, ...] = ("corrected", "uncorrected", "clamp")


def one_minus_power(beta: float | Array, step: int | Array, *, xp: Any = None) -> Any:
    """Return ``1 - beta^step``, accurate where it is small.

    ``-expm1(step log(beta))`` with the logarithm in float64: the plain form in float32 is wrong by 2e-5 at
    ``beta = 0.999`` in the first step.

    Parameters
    ----------
    beta
        Decay in [0, 1), a number or a 0-d array.
    step
        1-based count, an int or a 0-d integer array.
    xp
        The namespace of the arrays; looked up where it is not given. Give it inside ``torch.compile``.

    Returns
    -------
    float or array
        A Python float for Python numbers, else a 0-d real floating array.
    """
    if isinstance(beta, int | float) and beta == 0:
        return 1.0
    if isinstance(beta, int | float) and isinstance(step, int | float):
        return -math.expm1(step * math.log(beta))
    if isinstance(beta, int | float):
        xp = array_namespace(step) if xp is None else xp
        return -xp.expm1(xp.astype(step, real_dtype(xp)) * math.log(beta))
    xp = array_namespace(beta) if xp is None else xp
    exponent = step if isinstance(step, int | float) else xp.astype(step, beta.dtype)
    return -xp.expm1(exponent * xp.log(beta))


def adaptive_moment(
    grad: Array,
    moment_1: Array | None,
    moment_2: Array | None,
    step: int | Array,
    *,
    beta_1: float | Array = 0.9,
    beta_2: float | Array = 0.95,
    eps: float | Array = 1e-8,
    eps_mode: AdamEpsMode = "corrected",
    eps_root: float | Array = 0.0,
    bias_correction: bool = True,
    nesterov: bool = False,
    xp: Any = None,
) -> tuple[Array, Array, Array]:
    """Return the direction of Adam and both moments.

    ``m <- beta_1 m + (1 - beta_1) g``, ``v <- beta_2 v + (1 - beta_2) g²``, direction
    ``m̂ / (sqrt(v̂ + eps_root) + eps)`` with ``m̂ = m / (1 - beta_1^t)`` and ``v̂ = v / (1 - beta_2^t)``: eps outside
    the root, after the correction (Kingma and Ba, arXiv:1412.6980, algorithm 1). Variants:

    * ``eps_mode="uncorrected"``: eps is added before the correction, ``m̂ sqrt(1 - beta_2^t) / (sqrt(v + eps_root) +
      eps)``, as in the last lines of the paper's section 2 (Keras, Moonlight);
    * ``eps_mode="clamp"``: eps bounds the divisor from below, ``m̂ / max(sqrt(v̂ + eps_root), eps)`` (HeavyBall);
    * ``nesterov``: ``m̂ = beta_1 m / (1 - beta_1^(t+1)) + (1 - beta_1) g / (1 - beta_1^t)`` (Dozat's NAdam, as optax
      has it);
    * ``bias_correction=False``: every ``1 - beta^t`` is one.

    Parameters
    ----------
    grad
        The gradient, any shape, real floating. Use float32 at least: a bf16 second moment cannot decay.
    moment_1
        The first moment, like ``grad``; ``None`` at the first step.
    moment_2
        The second moment, like ``grad``; ``None`` at the first step.
    step
        1-based count of this update, an int or a 0-d integer array.
    beta_1
        Decay of the first moment, in [0, 1).
    beta_2
        Decay of the second moment, in [0, 1).
    eps
        Added to the root, in units of the gradient.
    eps_mode
        ``"corrected"``: added to the root of ``v̂``; ``"uncorrected"``: of ``v``; ``"clamp"``: its least value.
    eps_root
        Added below the root, in units of its square.
    bias_correction
        Whether moments that started from zero are scaled up.
    nesterov
        Whether the first moment looks one update ahead.
    xp
        The namespace of the arrays; looked up where it is not given. Give it inside ``torch.compile``.

    Returns
    -------
    tuple of array
        Direction, first and second moment, each like ``grad``.

    Raises
    ------
    ValueError
        If one moment is given without the other, a Python ``step`` is below 1, or ``eps_mode`` is unknown.
    """
    if (moment_1 is None) != (moment_2 is None):
        raise ValueError("moment_1 and moment_2: one is None; accepted: both None (the first step) or both arrays")
    if isinstance(step, int) and step < 1:
        raise ValueError(f"step={step} is out of range; accepted: the 1-based count of this update")
    require_choice("eps_mode", eps_mode, ADAM_EPS_MODES)
    xp = array_namespace(grad) if xp is None else xp
    first, second = (1.0 - beta_1) * grad, (1.0 - beta_2) * (grad * grad)
    fresh = first
    if moment_1 is not None and moment_2 is not None:
        first, second = beta_1 * moment_1 + first, beta_2 * moment_2 + second

    def share(beta: float | Array, of_step: int | Array) -> float | Array:
        return in_dtype(one_minus_power(beta, of_step, xp=xp), grad, xp) if bias_correction else 1.0

    mean = first / share(beta_1, step)
    if nesterov:
        mean = (beta_1 / share(beta_1, step + 1)) * first + fresh / share(beta_1, step)
    if eps_mode == "uncorrected":
        return mean * share(beta_2, step) ** 0.5 / (_root(second, eps_root) + eps), first, second
    root = _root(second / share(beta_2, step), eps_root)
    return mean / (xp.maximum(root, eps) if eps_mode == "clamp" else root + eps), first, second


def _root(x: Array, eps: float | Array) -> Array:
    return x**0.5 if isinstance(eps, int | float) and eps == 0 else (x + eps) ** 0.5


def in_dtype(scalar: float | Array, x: Array, xp: Any) -> float | Array:
    """Return a scalar that leaves ``x`` its dtype: in NumPy a float64 that is no Python number widens float32."""
    return xp.asarray(scalar, dtype=x.dtype) if hasattr(scalar, "dtype") else scalar


def real_dtype(xp: Any) -> Any:
    """Return float64 where the namespace has it, else float32."""
    available = xp.__array_namespace_info__().dtypes(kind="real floating")
    return available.get("float64", xp.float32)
