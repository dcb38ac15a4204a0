"""Momentum in its named forms. A buffer of one form is not a buffer of another: they differ by ``1 / (1 - beta)``."""

from typing import Any, Literal, TypeAlias

from array_api_compat import array_namespace

from zeropower.kernels import Array
from zeropower.moments import in_dtype, one_minus_power

MomentumForm: TypeAlias = Literal["ema", "heavy_ball", "ema_corrected", "ema_added"]
MOMENTUM_FORMS: tuple[MomentumForm, ...] = ("ema", "heavy_ball", "ema_corrected", "ema_added")


def momentum_update(grad: Array, buffer: Array | None, *, beta: float | Array, form: MomentumForm) -> Array:
    """Return the next momentum buffer.

    * ``"ema"``, ``"ema_corrected"``, ``"ema_added"``: ``m <- beta m + (1 - beta) g`` (Keller Jordan's Muon,
      ``torch.optim.Muon``, optax, HeavyBall);
    * ``"heavy_ball"``: ``m <- beta m + g`` (Polyak; ``torch.optim.SGD``, Moonlight, Dion, burn).

    Parameters
    ----------
    grad
        The gradient, any shape.
    buffer
        The momentum so far, like ``grad``; ``None`` at the first step, which is the same as zeros.
    beta
        Decay in [0, 1), a number or a 0-d array.
    form
        The name of the form.

    Returns
    -------
    array
        The new buffer, like ``grad``.
    """
    fresh = grad if form == "heavy_ball" else (1.0 - beta) * grad
    return fresh if buffer is None else beta * buffer + fresh


def momentum_direction(
    grad: Array,
    buffer: Array,
    *,
    beta: float | Array,
    form: MomentumForm,
    nesterov: bool,
    step: int | Array | None = None,
    xp: Any = None,
) -> Array:
    """Return what the momentum says to follow, from the buffer that already holds this gradient.

    Without Nesterov the buffer, with it one more application of the update: ``beta m + (1 - beta) g`` for ``"ema"``,
    ``beta m + g`` for ``"heavy_ball"``. ``"ema_corrected"`` divides by the bias: ``m / (1 - beta^t)``, and with
    Nesterov ``beta m / (1 - beta^(t+1)) + (1 - beta) g / (1 - beta^t)`` (Dozat's NAdam; optax). What ``"ema_added"``
    does in the place of Nesterov's step is ``g + m`` (HeavyBall; Lee et al., "Grokfast", arXiv:2405.20233).

    Parameters
    ----------
    grad
        The gradient, any shape.
    buffer
        The momentum after :func:`momentum_update`.
    beta
        The same decay.
    form
        The name of the form.
    nesterov
        Whether to look ahead.
    step
        1-based count of this update, an int or a 0-d integer array; ``"ema_corrected"`` alone needs it.
    xp
        The namespace of the arrays; looked up where it is not given. Give it inside ``torch.compile``.

    Returns
    -------
    array
        Like ``grad``.

    Raises
    ------
    ValueError
        If ``"ema_corrected"`` comes without a step.
    """
    if form == "ema_corrected":
        if step is None:
            raise ValueError("step=None; accepted with form='ema_corrected': the 1-based count of this update")
        xp = array_namespace(grad) if xp is None else xp
        here = in_dtype(one_minus_power(beta, step, xp=xp), buffer, xp)
        if not nesterov:
            return buffer / here
        ahead = in_dtype(one_minus_power(beta, step + 1, xp=xp), buffer, xp)
        return (beta / ahead) * buffer + ((1.0 - beta) / here) * grad
    if not nesterov:
        return buffer
    if form == "ema_added":
        return buffer + grad
    return beta * buffer + (grad if form == "heavy_ball" else (1.0 - beta) * grad)


def convert_momentum(buffer: Array, source: MomentumForm, target: MomentumForm, *, beta: float) -> Array:
    """Return a momentum buffer of one form as one of another.

    With a constant decay, both seen from zeros, ``ema = (1 - beta) heavy_ball``; the other forms keep the buffer of
    ``"ema"``.

    Parameters
    ----------
    buffer
        A buffer of the form ``source``, any shape.
    source
        Its form.
    target
        The form that is wanted.
    beta
        Decay in [0, 1).

    Returns
    -------
    array
        Like ``buffer``; itself where nothing changes.
    """
    if (source == "heavy_ball") == (target == "heavy_ball"):
        return buffer
    return buffer / (1.0 - beta) if target == "heavy_ball" else buffer * (1.0 - beta)
