"""Arithmetic in float32 at least, and one rounding at the end."""

from typing import Any

import jax
import jax.numpy as jnp
import optax

from zeropower.normalize import accumulation_dtype


def widened(leaf: Any) -> jax.Array:
    """Return a leaf in float32 at least."""
    leaf = jnp.asarray(leaf)
    return jnp.astype(leaf, accumulation_dtype(leaf.dtype, jnp))


def rounded(inner: optax.GradientTransformation) -> optax.GradientTransformationExtraArgs:
    """Show a transformation the parameters in float32 at least, and round its updates to the parameters' own dtype.

    Parameters
    ----------
    inner
        Any transformation that takes gradients in their own dtype.

    Returns
    -------
    optax.GradientTransformationExtraArgs
        The same, with one rounding at its end: to the dtype of the gradients where no parameters are given.
    """
    supported = optax.with_extra_args_support(inner)

    def update(updates: Any, state: Any, params: Any = None, **extra_args: Any) -> tuple[Any, Any]:
        like = updates if params is None else params
        wide = None if params is None else jax.tree.map(widened, params)
        updates, state = supported.update(updates, state, wide, **extra_args)
        return jax.tree.map(_like, updates, like), state

    return optax.GradientTransformationExtraArgs(supported.init, update)


def _like(update: jax.Array, leaf: Any) -> jax.Array:
    return jnp.astype(update, jnp.result_type(leaf))
