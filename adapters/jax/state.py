"""States that tell what kind of optimizer they belong to, and count its updates."""

from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import optax


class AdamWState(NamedTuple):
    """The state of :func:`zeropower.jax.adamw`."""

    count: Any  # int32, (): calls of update so far; one more with every call, saturating
    inner: Any  # moments, counts of each parameter, counts of schedules; changes with every call


class BitNetAdamWState(NamedTuple):
    """The state of :func:`zeropower.jax.bitnet_adamw`."""

    count: Any  # as in AdamWState
    inner: Any  # as in AdamWState


class MuonAdamWState(NamedTuple):
    """The state of :func:`zeropower.jax.muon_adamw`."""

    count: Any  # as in AdamWState
    inner: Any  # that of optax.partition, by "muon" and "adamw": as in AdamWState, and momentum


OptimizerState: TypeAlias = AdamWState | BitNetAdamWState | MuonAdamWState


def counting(
    kind: type[OptimizerState], inner: optax.GradientTransformationExtraArgs
) -> optax.GradientTransformationExtraArgs:
    """Count the updates of a transformation in a state of a kind.

    Parameters
    ----------
    kind
        The class of the state.
    inner
        The transformation.

    Returns
    -------
    optax.GradientTransformationExtraArgs
        The same updates.
    """

    def init(params: Any) -> OptimizerState:
        return kind(no_updates(), inner.init(params))

    def update(updates: Any, state: Any, params: Any = None, **extra_args: Any) -> tuple[Any, OptimizerState]:
        updates, inner_state = inner.update(updates, state.inner, params, **extra_args)
        return updates, kind(optax.safe_increment(state.count), inner_state)

    return optax.GradientTransformationExtraArgs(init, update)


def no_updates(*shape: int) -> jax.Array:
    """Return counts at the start: int32 zeros."""
    return jnp.zeros(shape, jnp.int32)
