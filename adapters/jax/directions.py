"""The core's directions as optax transformations: gradients go in, directions in float32 at least come out."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from zeropower import (
    AdamWRecipe,
    AdamWState,
    MatrixLayout,
    MuonRecipe,
    MuonState,
    adamw_direction,
    lr_scale,
    muon_direction,
)
from zeropower.jax.dispatch import Compute
from zeropower.jax.missing import Absent, advanced, presence, require_gradients
from zeropower.jax.precision import widened
from zeropower.jax.routing import Views, flatten_named
from zeropower.jax.state import no_updates
from zeropower.momentum import MomentumForm, momentum_direction, momentum_update
from zeropower.normalize import accumulation_dtype
from zeropower.recipes import computed_in


class ScaleByMuonState(NamedTuple):
    """What Muon keeps."""

    count: Any  # int32, (): updates so far; one more with every update, saturating
    mu: Any  # like the parameters, float32 at least or mu_dtype: momentum; changes with every gradient
    counts: Any  # int32, (leaves,), in the order of the leaves: gradients that each has seen; else as count


class EmaMuonState(ScaleByMuonState):
    """What Muon keeps where its momentum is the plain average; optax's, of the base class, is to be corrected."""

    __slots__ = ()


class HeavyBallMuonState(ScaleByMuonState):
    """What Muon keeps where its momentum is a sum."""

    __slots__ = ()


MUON_STATES: Mapping[MomentumForm, type[ScaleByMuonState]] = MappingProxyType({
    "ema": EmaMuonState,
    "ema_corrected": ScaleByMuonState,
    "heavy_ball": HeavyBallMuonState,
})
"""By the form of the momentum: buffers of two forms look the same, so that their classes must tell them apart."""


class ScaleByAdamWState(NamedTuple):
    """What AdamW keeps."""

    count: Any  # int32, (): updates so far; one more with every update, saturating
    mu: Any  # like the parameters, float32 at least or mu_dtype: first moment; changes with every gradient
    nu: Any  # like the parameters, float32 at least: second moment; changes with every gradient
    counts: Any  # int32, (leaves,), in the order of the leaves: gradients that each has seen; else as count


def muon_directions(
    recipe: MuonRecipe, views: Views, *, compute: Compute, mu_dtype: Any = None, adaptive: bool = False
) -> optax.GradientTransformationExtraArgs:
    """Return the transformation of gradients into Muon's directions.

    Parameters
    ----------
    recipe
        How a direction comes about.
    views
        The matrix view of each leaf; every leaf must have one.
    compute
        The dtype and the products of the iteration.
    mu_dtype
        The dtype that the momentum is kept in; ``None`` is that of the leaf, float32 at least.
    adaptive
        Whether to multiply a direction by its inner product with the momentum that it was made of.

    Returns
    -------
    optax.GradientTransformationExtraArgs
        Directions, not rounded to the dtype of the leaves.
    """
    kept_as = MUON_STATES[recipe.momentum_form]

    def init(params: Any) -> ScaleByMuonState:
        leaves, structure = flatten_named(params)
        found = views(params)
        for path, leaf in leaves:
            _require_matrices(path, leaf, found[path])
        mu = structure.unflatten([_zeros(leaf, mu_dtype) for _, leaf in leaves])
        return kept_as(no_updates(), mu, no_updates(len(leaves)))

    def update(
        updates: Any, state: Any, params: Any = None, *, absent: Absent = frozenset(), **extra_args: Any
    ) -> tuple[Any, Any]:
        if params is None:
            require_gradients(updates, state.mu)
        leaves, structure = flatten_named(updates)
        found, present = views(updates), presence(updates, absent)
        counts = advanced(state.counts, present)
        directions, buffers = [], []
        for (path, grad), buffer, step, here in zip(
            leaves, structure.flatten_up_to(state.mu), jnp.unstack(counts), present, strict=True
        ):
            layout = _require_matrices(path, grad, found[path])
            direction, buffer = (
                _muon_leaf(grad, buffer, step, recipe, layout, compute, adaptive) if here else (_zeros(grad), buffer)
            )
            directions.append(direction)
            buffers.append(buffer)
        count = optax.safe_increment(state.count)
        return structure.unflatten(directions), kept_as(count, structure.unflatten(buffers), counts)

    return optax.GradientTransformationExtraArgs(init, update)


def _muon_leaf(
    grad: jax.Array,
    buffer: jax.Array,
    step: jax.Array,
    recipe: MuonRecipe,
    layout: MatrixLayout,
    compute: Compute,
    adaptive: bool,
) -> tuple[jax.Array, jax.Array]:
    choice = compute(grad.dtype)
    direction, state = muon_direction(
        grad,
        MuonState(widened(buffer)),
        computed_in(replace(recipe, scale="none") if adaptive else recipe, choice.compute_dtype),
        step=step,
        layout=layout,
        compute_dtype=jnp.dtype(choice.compute_dtype),
        kernels=choice.kernels,
        xp=jnp,
    )
    if adaptive:
        followed = momentum_direction(
            widened(grad),
            state.momentum,
            beta=recipe.momentum,
            form=recipe.momentum_form,
            nesterov=recipe.nesterov,
            step=step,
            xp=jnp,
        )
        scale = lr_scale(recipe.scale, *layout.fans(grad.shape))
        direction = scale * jnp.sum(followed * direction) * direction  # over the whole leaf, as optax has it
    return direction, jnp.astype(state.momentum, buffer.dtype)


def adamw_directions(
    recipe: AdamWRecipe, *, mu_dtype: Any = None, nesterov: bool = False, eps_root: Any = 0.0
) -> optax.GradientTransformationExtraArgs:
    """Return the transformation of gradients into AdamW's directions.

    Parameters
    ----------
    recipe
        How a direction comes about.
    mu_dtype
        The dtype that the first moment is kept in; ``None`` is that of the leaf, float32 at least.
    nesterov
        Whether the first moment looks one update ahead (Dozat's NAdam, as optax has it).
    eps_root
        Added to the second moment under the root.

    Returns
    -------
    optax.GradientTransformationExtraArgs
        Directions, not rounded to the dtype of the leaves.
    """
    plain = not nesterov and isinstance(eps_root, float) and eps_root == 0.0
    direct = adamw_direction if plain else partial(_nadam_direction, nesterov=nesterov, eps_root=eps_root)

    def init(params: Any) -> ScaleByAdamWState:
        leaves, structure = flatten_named(params)
        mu = structure.unflatten([_zeros(leaf, mu_dtype) for _, leaf in leaves])
        nu = structure.unflatten([_zeros(leaf) for _, leaf in leaves])
        return ScaleByAdamWState(no_updates(), mu, nu, no_updates(len(leaves)))

    def update(
        updates: Any, state: Any, params: Any = None, *, absent: Absent = frozenset(), **extra_args: Any
    ) -> tuple[Any, Any]:
        if params is None:
            require_gradients(updates, state.mu)
        leaves, structure = flatten_named(updates)
        present = presence(updates, absent)
        counts = advanced(state.counts, present)
        directions, mus, nus = [], [], []
        for (_, grad), mu, nu, step, here in zip(
            leaves, *map(structure.flatten_up_to, (state.mu, state.nu)), jnp.unstack(counts), present, strict=True
        ):
            direction = _zeros(grad)
            if here:
                direction, moments = direct(widened(grad), AdamWState(widened(mu), nu), recipe, step, xp=jnp)
                mu, nu = jnp.astype(moments.moment_1, mu.dtype), jnp.astype(moments.moment_2, nu.dtype)
            directions.append(direction)
            mus.append(mu)
            nus.append(nu)
        count = optax.safe_increment(state.count)
        kept = ScaleByAdamWState(count, structure.unflatten(mus), structure.unflatten(nus), counts)
        return structure.unflatten(directions), kept

    return optax.GradientTransformationExtraArgs(init, update)


def _nadam_direction(
    grad: jax.Array,
    state: AdamWState,
    recipe: AdamWRecipe,
    step: jax.Array,
    *,
    nesterov: bool,
    eps_root: Any,
    xp: Any,
) -> tuple[jax.Array, AdamWState]:
    """Return ``m / (sqrt(v + eps_root) + eps)``, where m and v are the core's bias-corrected averages of g and g²."""

    def average(x: jax.Array, buffer: jax.Array, beta: Any, *, nesterov: bool) -> tuple[jax.Array, jax.Array]:
        buffer = momentum_update(x, buffer, beta=beta, form="ema_corrected")
        return buffer, momentum_direction(
            x, buffer, beta=beta, form="ema_corrected", nesterov=nesterov, step=step, xp=xp
        )

    moment_1, first = average(grad, state.moment_1, recipe.beta_1, nesterov=nesterov)
    moment_2, second = average(grad * grad, state.moment_2, recipe.beta_2, nesterov=False)
    return first / (xp.sqrt(second + eps_root) + recipe.eps), AdamWState(moment_1, moment_2)


def _require_matrices(path: str, leaf: Any, layout: MatrixLayout | None) -> MatrixLayout:
    """Return the view of a leaf that Muon takes, or say why it cannot."""
    shape = jnp.shape(leaf)
    if len(shape) < 2:
        raise ValueError(f"{path!r} has shape {shape}; accepted by Muon: at least two axes (muon_adamw routes)")
    if layout is None:
        raise ValueError(f"{path!r} has shape {shape} and no view of its matrices; accepted: weight_dimension_numbers")
    layout.fans(shape)
    return layout


def _zeros(leaf: Any, dtype: Any = None) -> jax.Array:
    own = accumulation_dtype(jnp.result_type(leaf), jnp)
    return jnp.zeros_like(leaf, dtype=own if dtype is None else dtype)
