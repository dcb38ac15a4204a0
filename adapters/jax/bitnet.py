"""AdamW with the two-stage weight decay of BitNet training."""

from typing import Any

import optax
from jax.typing import ArrayLike

from zeropower.jax.decay import Clock, staged
from zeropower.jax.directions import adamw_directions
from zeropower.jax.options import adamw_recipe, number, rate
from zeropower.jax.state import BitNetAdamWState
from zeropower.jax.updates import as_updates, assembled


def bitnet_adamw(
    learning_rate: optax.ScalarOrSchedule,
    b1: ArrayLike = 0.9,
    b2: ArrayLike = 0.95,
    eps: ArrayLike = 1e-8,
    weight_decay: ArrayLike = 0.1,
    *,
    weight_decay_final: ArrayLike = 0.0,
    second_stage_start: float = 0.5,
    total_steps: int,
    clock: Clock = "global",
    mask: Any = None,
    clip_norm: ArrayLike | None = None,
    clip_value: ArrayLike | None = None,
) -> optax.GradientTransformationExtraArgs:
    """Return AdamW whose weight decay is constant, then falls linearly to its final value.

    Moments, then ``p (1 - learning_rate decay) - learning_rate direction`` with the decay of
    :func:`zeropower.weight_decay_for_step` at the 1-based count of the update. Where the gradient of a parameter is
    ``None``, its update is zero, and its moments and its count stay as they are.

    Parameters
    ----------
    learning_rate
        A number, a 0-d array (possibly traced), or a schedule of the count of updates so far.
    b1
        Decay of the first moment, in [0, 1).
    b2
        Decay of the second moment, in [0, 1).
    eps
        Added to the root of the second moment.
    weight_decay
        Decay of the first stage, decoupled, multiplied by the learning rate.
    weight_decay_final
        Decay of the last step.
    second_stage_start
        Where the second stage starts as a share of the run, clamped to [0, 1].
    total_steps
        Steps of the run; later ones decay as the last.
    clock
        What counts the steps: ``"global"``, the calls of ``update``, or ``"parameter"``, the updates that each
        parameter has seen.
    mask
        Where to decay, as ``optax.add_decayed_weights`` takes it.
    clip_norm
        As for :func:`adamw`.
    clip_value
        As for :func:`adamw`.

    Returns
    -------
    optax.GradientTransformationExtraArgs
        State: :class:`zeropower.jax.state.BitNetAdamWState`. Its updates have the dtype of the parameters; moments
        are kept in float32 at least.

    Raises
    ------
    ValueError
        If a number is out of range, or both clips are given.
    TypeError
        If ``second_stage_start`` or ``total_steps`` is an array.
    """
    decay = staged(
        number("weight_decay", weight_decay),
        weight_decay_final=number("weight_decay_final", weight_decay_final),
        second_stage_start=second_stage_start,
        total_steps=total_steps,
        clock=clock,
    )
    updates = as_updates(
        adamw_directions(adamw_recipe(b1, b2, eps)),
        learning_rate=rate("learning_rate", learning_rate),
        weight_decay=decay,
        mask=mask,
    )
    return assembled(BitNetAdamWState, updates, clip_norm=clip_norm, clip_value=clip_value)
