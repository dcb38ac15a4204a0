"""Weight decay: the two-stage schedule of BitNet training, and how a decay acts on a parameter."""

import math
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from array_api_compat import array_namespace

from zeropower.checks import require_choice, require_count, require_number
from zeropower.kernels import Array
from zeropower.progress import steps_done


def weight_decay_for_step(
    initial: float,
    final: float,
    second_stage_start: float,
    total_steps: int,
    step: int | Array,
    *,
    xp: Any = None,
) -> float | Array:
    """Return the weight decay of a step: constant, then linear to its final value.

    With ``last = total_steps - 1`` and ``stage = round(last * second_stage_start)``, half away from zero, the step
    of index ``i = clamp(step - 1, 0, last)`` has ``initial`` for ``i <= stage`` and
    ``initial + (final - initial) (i - stage) / (last - stage)`` after. (burn_dragon's BitNet AdamW, after "BitNet
    b1.58" training, where the second stage drops the decay.)

    Parameters
    ----------
    initial
        Decay of the first stage, finite.
    final
        Decay of the last step, finite; above ``initial`` it grows.
    second_stage_start
        Where the second stage starts as a share of the run, clamped to [0, 1].
    total_steps
        Steps of the run, at least 0; with 0 or 1 the decay is ``initial``.
    step
        1-based step, an int or a 0-d integer array; 0 counts as 1, and steps beyond the run as the last.
    xp
        The namespace of ``step``; looked up where it is not given. Give it inside ``torch.compile``.

    Returns
    -------
    float or array
        A Python float for an int, else a 0-d array in float64, or float32 where the namespace lacks float64.

    Raises
    ------
    ValueError
        If ``initial``, ``final`` or ``second_stage_start`` is not finite or ``total_steps`` is negative.
    TypeError
        If ``total_steps`` or ``step`` is not an integer.

    Examples
    --------
    >>> [round(weight_decay_for_step(0.1, 0.0, 0.5, 10, step), 3) for step in (1, 6, 7, 10)]
    [0.1, 0.1, 0.075, 0.0]
    """
    require_number("initial", initial)
    require_number("final", final)
    require_number("second_stage_start", second_stage_start)
    require_count("total_steps", total_steps, least=0)
    last = max(total_steps, 1) - 1
    stage = math.floor(last * min(max(second_stage_start, 0.0), 1.0) + 0.5)
    done, arithmetic = steps_done(step, xp)
    return initial + (final - initial) * arithmetic.share(done, stage, last - stage)


DecayOrder: TypeAlias = Literal["before", "after", "gradient", "none"]
DECAY_ORDERS: tuple[DecayOrder, ...] = ("before", "after", "gradient", "none")
DecayRate: TypeAlias = Literal["lr", "scaled_lr", "lr_squared", "lr_times_scaled_lr", "independent"]
DECAY_RATES: tuple[DecayRate, ...] = ("lr", "scaled_lr", "lr_squared", "lr_times_scaled_lr", "independent")
DecayMask: TypeAlias = Literal["none", "aligned", "strictly_aligned", "same_sign_bit"]
DECAY_MASKS: tuple[DecayMask, ...] = ("none", "aligned", "strictly_aligned", "same_sign_bit")


@dataclass(frozen=True, kw_only=True)
class Decay:
    """How a weight decay ``w`` acts on a parameter ``p`` with the direction ``d``, which is moved by ``-lr d``.

    Attributes
    ----------
    decay
        ``"before"``: ``p <- p (1 - rate)``, then ``p <- p - lr d`` (Loshchilov and Hutter, arXiv:1711.05101, as PyTorch
        has it); ``"after"``: the other way round; ``"gradient"``: ``g + w p`` is what the optimizer sees, L2; and
        ``"none"``.
    decay_rate
        The rate: ``"lr"``, ``lr w``; ``"scaled_lr"``, ``lr scale w`` with the scale of the shape (muonium);
        ``"lr_squared"``, ``lr² w``; ``"lr_times_scaled_lr"``, ``lr² scale w`` (modded-nanogpt); ``"independent"``,
        ``w``.
    decay_mask
        Which elements decay: ``"none"``: no mask, all of them; ``"aligned"``: where ``p d >= 0``, cautious decay
        (arXiv:2510.12402); ``"strictly_aligned"``: where ``p d > 0``; ``"same_sign_bit"``: where ``p`` and ``d`` have
        the same sign bit.

    Raises
    ------
    ValueError
        If a field is unknown, or a rate or a mask is given to a decay that has none.
    """

    decay: DecayOrder = "before"
    decay_rate: DecayRate = "lr"
    decay_mask: DecayMask = "none"

    def __post_init__(self) -> None:
        require_choice("decay", self.decay, DECAY_ORDERS)
        require_choice("decay_rate", self.decay_rate, DECAY_RATES)
        require_choice("decay_mask", self.decay_mask, DECAY_MASKS)
        if self.decay == "gradient" and (self.decay_rate, self.decay_mask) != ("lr", "none"):
            raise ValueError(
                f"decay='gradient' with decay_rate={self.decay_rate!r}, decay_mask={self.decay_mask!r}; accepted with "
                "it: decay_rate='lr', decay_mask='none' (what is added to the gradient has neither)"
            )


DECOUPLED = Decay()
"""The decay that nearly all have."""


def decayed_gradient(grad: Array, param: Array, rule: Decay, weight_decay: float | Array) -> Array:
    """Return the gradient that the optimizer sees: ``g + w p`` where the decay joins it, else itself."""
    return grad + weight_decay * param if rule.decay == "gradient" else grad


def _rate(rule: Decay, *, lr: float | Array, weight_decay: float | Array, scale: float = 1.0) -> float | Array:
    """Return the share of a parameter that decays in a step.

    Parameters
    ----------
    rule
        Which rate.
    lr
        The learning rate of the step.
    weight_decay
        The weight decay of the step.
    scale
        The factor of the shape on the learning rate.

    Returns
    -------
    float or array
        0 where nothing decays.
    """
    if rule.decay in {"gradient", "none"}:
        return 0.0
    if rule.decay_rate == "independent":
        return weight_decay
    rate = lr * weight_decay
    if rule.decay_rate in {"lr_squared", "lr_times_scaled_lr"}:
        rate = lr * rate
    return scale * rate if rule.decay_rate in {"scaled_lr", "lr_times_scaled_lr"} else rate


def _decaying(param: Array, direction: Array, mask: DecayMask, *, xp: Any) -> Array | None:
    """Return where a parameter decays, as a truth array; ``None`` for everywhere.

    Parameters
    ----------
    param
        The parameter before the step.
    direction
        What is subtracted of it, like ``param``.
    mask
        The name of the mask.
    xp
        The namespace of the arrays.

    Returns
    -------
    array or None
        Signs are compared, not products, which may underflow.
    """
    if mask == "none":
        return None
    if mask == "same_sign_bit":
        return xp.signbit(param) == xp.signbit(direction)
    if mask == "aligned":
        return ((param >= 0) & (direction >= 0)) | ((param <= 0) & (direction <= 0))
    return ((param > 0) & (direction > 0)) | ((param < 0) & (direction < 0))


def apply_direction(
    param: Array,
    direction: Array,
    *,
    lr: float | Array,
    weight_decay: float | Array,
    rule: Decay = DECOUPLED,
    scale: float = 1.0,
    xp: Any = None,
) -> Array:
    """Return the parameter after a decay and a step; decoupled, ``param (1 - lr weight_decay) - lr direction``.

    Parameters
    ----------
    param
        The parameter, any shape. Never written.
    direction
        What is subtracted per unit of learning rate, like ``param``, float32 at least.
    lr
        Learning rate of this step.
    weight_decay
        Weight decay of this step.
    rule
        How it decays. What joins the gradient has done so before.
    scale
        The factor of the shape that ``direction`` holds, for the rates that depend on it.
    xp
        The namespace of ``param``; looked up where it is not given.

    Returns
    -------
    array
        Like ``param``; computed in the dtype of ``direction`` and rounded once.
    """
    xp = array_namespace(param) if xp is None else xp
    wide = xp.astype(param, direction.dtype)
    if rule.decay in {"gradient", "none"}:
        return xp.astype(wide - lr * direction, param.dtype)
    kept = 1.0 - _rate(rule, lr=lr, weight_decay=weight_decay, scale=scale)
    where = _decaying(wide, direction, rule.decay_mask, xp=xp)
    if where is not None:
        one = xp.ones_like(wide)
        kept = xp.where(where, kept * one, one)
    moved = wide * kept - lr * direction if rule.decay == "before" else (wide - lr * direction) * kept
    return xp.astype(moved, param.dtype)


def decay_of(
    param: Array,
    direction: Array,
    *,
    lr: float | Array,
    weight_decay: float | Array,
    rule: Decay = DECOUPLED,
    scale: float = 1.0,
    xp: Any = None,
) -> Array | None:
    """Return what :func:`apply_direction` takes off the parameter besides ``lr direction``, or ``None`` for nothing.

    An optimizer that returns updates needs it: ``param + (new - param)`` is not ``new``.

    Parameters
    ----------
    param
        As for :func:`apply_direction`, in the dtype of ``direction``.
    direction
        As for :func:`apply_direction`.
    lr
        As for :func:`apply_direction`.
    weight_decay
        As for :func:`apply_direction`.
    rule
        As for :func:`apply_direction`.
    scale
        As for :func:`apply_direction`.
    xp
        As for :func:`apply_direction`.

    Returns
    -------
    array or None
        Like ``param``.
    """
    if rule.decay in {"gradient", "none"}:
        return None
    xp = array_namespace(param) if xp is None else xp
    base = param if rule.decay == "before" else param - lr * direction
    lost = _rate(rule, lr=lr, weight_decay=weight_decay, scale=scale) * base
    where = _decaying(param, direction, rule.decay_mask, xp=xp)
    return lost if where is None else xp.where(where, lost, xp.zeros_like(lost))
