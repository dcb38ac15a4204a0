"""Momentum in its named forms. A buffer of one form is not a buffer of another: they differ by ``1 / (1 - beta)``."""

from typing import Any, Literal, TypeAlias

from array_api_compat import array_namespace

from zeropower.checks import require_count, require_number
from zeropower.kernels import Array
from zeropower.moments import in_dtype, one_minus_power
from zeropower.progress import steps_done

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


def momentum_for_step(
    total_steps: int,
    step: int | Array,
    *,
    low: float = 0.85,
    high: float = 0.95,
    warmup_steps: int = 300,
    cooldown_steps: int = 50,
    xp: Any = None,
) -> float | Array:
    """Return the decay of the momentum in a step: up from ``low`` to ``high``, and down again at the end.

    With ``i = step - 1``: ``low + (high - low) min(i / warmup_steps, (total_steps - i) / cooldown_steps, 1)``.
    (modded-nanogpt, f411b3d, with its numbers as defaults.)

    Parameters
    ----------
    total_steps
        Steps of the run, at least 0.
    step
        1-based step, an int or a 0-d integer array; 0 counts as 1.
    low
        Decay of the first step, in [0, 1).
    high
        Decay between the two phases, in [0, 1).
    warmup_steps
        Steps from ``low`` to ``high``, at least 0.
    cooldown_steps
        Steps from ``high`` to ``low``, at least 0.
    xp
        The namespace of ``step``; looked up where it is not given. Give it inside ``torch.compile``.

    Returns
    -------
    float or array
        A Python float for an int, else a 0-d array in float64, or float32 where the namespace lacks float64.

    Raises
    ------
    ValueError
        If a number is out of range.
    TypeError
        If a count is not an integer.

    Examples
    --------
    >>> [round(momentum_for_step(1000, step), 3) for step in (1, 151, 301, 951, 976, 1001)]
    [0.85, 0.9, 0.95, 0.95, 0.9, 0.85]
    """
    for name, decay in (("low", low), ("high", high)):
        require_number(name, decay, low=0.0, high=1.0, high_open=True)
    counts = {"total_steps": total_steps, "warmup_steps": warmup_steps, "cooldown_steps": cooldown_steps}
    for name, count in counts.items():
        require_count(name, count, least=0)
    done, arithmetic = steps_done(step, xp)
    risen = arithmetic.share(done, 0, warmup_steps) if warmup_steps else 1.0
    fallen = arithmetic.share(done, max(total_steps - cooldown_steps, 0), cooldown_steps)
    return low + (high - low) * arithmetic.minimum(risen, 1.0 - fallen)
