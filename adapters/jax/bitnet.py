"""AdamW with the two-stage weight decay of BitNet training."""

from typing import Any

import optax
from jax import Array
from jax import numpy as jnp
from jax.typing import ArrayLike

from zeropower import AdamWRecipe, weight_decay_for_step
from zeropower.jax.directions import adamw_directions
from zeropower.jax.options import errors_naming, number, rate, require_static, scalar
from zeropower.jax.updates import as_updates


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
    mask: Any = None,
) -> optax.GradientTransformationExtraArgs:
    """Return AdamW whose weight decay is constant, then falls linearly to its final value.

    Moments, then ``p (1 - learning_rate decay) - learning_rate direction`` with the decay of
    :func:`zeropower.weight_decay_for_step` at the update's own 1-based count.

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
        Updates of the run; later ones decay as the last.
    mask
        Where to decay, as ``optax.add_decayed_weights`` takes it.

    Returns
    -------
    optax.GradientTransformationExtraArgs
        Its updates have the dtype of the parameters; moments are kept in float32 at least.

    Raises
    ------
    ValueError
        If a number is out of range.
    TypeError
        If ``second_stage_start`` or ``total_steps`` is an array.
    """
    learning_rate = rate("learning_rate", learning_rate)
    first, final = number("weight_decay", weight_decay), number("weight_decay_final", weight_decay_final)
    require_static("second_stage_start", second_stage_start)
    require_static("total_steps", total_steps)
    with errors_naming({"beta_1": "b1", "beta_2": "b2"}):
        recipe = AdamWRecipe(beta_1=scalar(b1), beta_2=scalar(b2), eps=scalar(eps))
    weight_decay_for_step(0.0, 0.0, second_stage_start, total_steps, 1)  # refuses bad numbers here and now

    def decay(count: Array) -> Any:
        step = optax.safe_increment(count)
        return weight_decay_for_step(first, final, second_stage_start, total_steps, step, xp=jnp)

    return as_updates(adamw_directions(recipe), learning_rate=learning_rate, weight_decay=decay, mask=mask)
