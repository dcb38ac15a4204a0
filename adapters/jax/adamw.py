"""AdamW with moments that keep their precision."""

from typing import Any

import optax
from jax.typing import ArrayLike

from zeropower.jax.directions import adamw_directions
from zeropower.jax.options import adamw_recipe, rate
from zeropower.jax.state import AdamWState
from zeropower.jax.updates import as_updates, assembled


def adamw(
    learning_rate: optax.ScalarOrSchedule,
    b1: ArrayLike = 0.9,
    b2: ArrayLike = 0.999,
    eps: ArrayLike = 1e-8,
    weight_decay: optax.ScalarOrSchedule = 1e-4,
    *,
    mask: Any = None,
    clip_norm: ArrayLike | None = None,
    clip_value: ArrayLike | None = None,
) -> optax.GradientTransformationExtraArgs:
    """Return AdamW: ``optax.adamw`` with the same defaults, but moments in float32 at least, clipping and records.

    ``p (1 - learning_rate weight_decay) - learning_rate m̂ / (sqrt(v̂) + eps)`` with bias-corrected moments
    (Loshchilov and Hutter, arXiv:1711.05101). Where the gradient of a parameter is ``None``, its update is zero, and
    its moments and its count stay as they are.

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
        Decoupled decay, multiplied by the learning rate; a number or a schedule.
    mask
        Where to decay, as ``optax.add_decayed_weights`` takes it.
    clip_norm
        Greatest norm of a parameter's gradient, each clipped alone before it enters the moments; ``None`` for any.
    clip_value
        Greatest magnitude of an element of a gradient, instead of ``clip_norm``.

    Returns
    -------
    optax.GradientTransformationExtraArgs
        State: :class:`zeropower.jax.state.AdamWState`. Its updates have the dtype of the parameters.

    Raises
    ------
    ValueError
        If a number is out of range, or both clips are given.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> params = {"w": jnp.ones(2), "unused": jnp.ones(2)}
    >>> optimizer = adamw(0.1, weight_decay=0.0)
    >>> updates, state = optimizer.update({"w": jnp.ones(2), "unused": None}, optimizer.init(params), params)
    >>> print(updates["w"], updates["unused"])
    [-0.1 -0.1] [0. 0.]
    """
    updates = as_updates(
        adamw_directions(adamw_recipe(b1, b2, eps)),
        learning_rate=rate("learning_rate", learning_rate),
        weight_decay=rate("weight_decay", weight_decay),
        mask=mask,
    )
    return assembled(AdamWState, updates, clip_norm=clip_norm, clip_value=clip_value)
