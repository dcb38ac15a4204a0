"""Clipping of each gradient alone, before it enters any state."""

from typing import Any

import jax.numpy as jnp
import optax
from jax.tree_util import tree_map_with_path

from zeropower.clipping import clip, require_clip
from zeropower.jax.options import scalar
from zeropower.jax.routing import path_name, require_real


def clipped(
    inner: optax.GradientTransformationExtraArgs, clip_norm: Any, clip_value: Any
) -> optax.GradientTransformationExtraArgs:
    """Show a transformation clipped gradients.

    Parameters
    ----------
    inner
        The transformation.
    clip_norm
        Greatest norm of the gradient of a parameter, positive; ``None`` for any.
    clip_value
        Greatest magnitude of an element, instead of ``clip_norm``.

    Returns
    -------
    optax.GradientTransformationExtraArgs
        With the same state; itself where nothing is given.
    """
    norm, value = scalar(clip_norm), scalar(clip_value)
    require_clip(norm, value)
    if norm is None and value is None:
        return inner

    def clip_leaf(keys: tuple[Any, ...], grad: Any) -> Any:
        require_real(path_name(keys), grad)
        return clip(jnp.asarray(grad), norm=norm, value=value, xp=jnp)

    def update(updates: Any, state: Any, params: Any = None, **extra_args: Any) -> tuple[Any, Any]:
        return inner.update(tree_map_with_path(clip_leaf, updates), state, params, **extra_args)

    return optax.GradientTransformationExtraArgs(inner.init, update)
