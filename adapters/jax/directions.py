"""The core's directions as optax transformations: gradients go in, directions in float32 at least come out."""

from collections.abc import Callable, Mapping
from dataclasses import replace
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
    SecondMoment,
    adamw_direction,
    muon_direction,
)
from zeropower.jax.dispatch import Compute
from zeropower.jax.missing import Absent, advanced, presence, require_gradients
from zeropower.jax.precision import widened
from zeropower.jax.routing import Views, flatten_named
from zeropower.jax.state import no_updates
from zeropower.momentum import MomentumForm, momentum_direction
from zeropower.normalize import accumulation_dtype
from zeropower.recipes import computed_in


class ScaleByMuonState(NamedTuple):
    """What Muon keeps."""

    count: Any  # int32, (): updates so far; one more with every update, saturating
    mu: Any  # like the parameters, float32 at least or mu_dtype: momentum; changes with every gradient
    counts: Any  # int32, (leaves,), in the order of the leaves: gradients that each has seen; else as count
    nu: Any = None  # SecondMoment.shape, float32 at least: second moment of the direction; None where there is none


class EmaMuonState(ScaleByMuonState):
    """What Muon keeps where its momentum is the plain average; optax's, of the base class, is to be corrected."""

    __slots__ = ()


class HeavyBallMuonState(ScaleByMuonState):
    """What Muon keeps where its momentum is a sum."""

    __slots__ = ()


MUON_STATES: Mapping[MomentumForm, type[ScaleByMuonState]] = MappingProxyType({
    "ema": EmaMuonState,
    "ema_corrected": ScaleByMuonState,
    "ema_added": EmaMuonState,
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
    recipe: MuonRecipe,
    views: Views,
    *,
    compute: Compute,
    mu_dtype: Any = None,
    adaptive: bool = False,
    momentum: Callable[[Any], Any] | None = None,
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
    momentum
        The decay of the momentum as a schedule of the count of updates so far; ``None`` takes the recipe's.

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
        nu, second = None, recipe.second_moment
        if second is not None:
            zeros = [_second_moment(leaf, second, found[path]) for path, leaf in leaves]
            nu = structure.unflatten(zeros)
        return kept_as(no_updates(), mu, no_updates(len(leaves)), nu)

    def update(
        updates: Any, state: Any, params: Any = None, *, absent: Absent = frozenset(), **extra_args: Any
    ) -> tuple[Any, Any]:
        if params is None:
            require_gradients(updates, state.mu)
        leaves, structure = flatten_named(updates)
        found, present = views(updates), presence(updates, absent)
        counts = advanced(state.counts, present)
        decay = None if momentum is None else momentum(state.count)
        mus = structure.flatten_up_to(state.mu)
        nus = [None] * len(mus) if state.nu is None else structure.flatten_up_to(state.nu)
        directions, kept = [], list[MuonState]()
        for (path, grad), mu, nu, step, here in zip(leaves, mus, nus, jnp.unstack(counts), present, strict=True):
            layout = _require_matrices(path, grad, found[path])
            known = MuonState(mu, nu)
            direction, known = (
                _muon_leaf(grad, known, step, recipe, layout, compute, adaptive, decay)
                if here
                else (_zeros(grad), known)
            )
            directions.append(direction)
            kept.append(known)
        count = optax.safe_increment(state.count)
        mu = structure.unflatten([each.momentum for each in kept])
        nu = None if state.nu is None else structure.unflatten([each.moment_2 for each in kept])
        return structure.unflatten(directions), kept_as(count, mu, counts, nu)

    return optax.GradientTransformationExtraArgs(init, update)


def _muon_leaf(
    grad: jax.Array,
    known: MuonState,
    step: jax.Array,
    recipe: MuonRecipe,
    layout: MatrixLayout,
    compute: Compute,
    adaptive: bool,
    momentum: Any,
) -> tuple[jax.Array, MuonState]:
    choice = compute(grad.dtype)
    direction, state = muon_direction(
        grad,
        known._replace(momentum=widened(known.momentum)),
        computed_in(replace(recipe, scale="none", scale_factor=1.0) if adaptive else recipe, choice.compute_dtype),
        step=step,
        momentum=momentum,
        layout=layout,
        compute_dtype=jnp.dtype(choice.compute_dtype),
        kernels=choice.kernels,
        xp=jnp,
    )
    if adaptive:
        followed = momentum_direction(
            widened(grad),
            state.momentum,
            beta=recipe.momentum if momentum is None else momentum,
            form=recipe.momentum_form,
            nesterov=recipe.nesterov,
            step=step,
            xp=jnp,
        )
        scale = recipe.lr_scale(*layout.fans(grad.shape))
        direction = scale * jnp.sum(followed * direction) * direction  # over the whole leaf, as optax has it
    return direction, state._replace(momentum=jnp.astype(state.momentum, known.momentum.dtype))


def adamw_directions(recipe: AdamWRecipe, *, mu_dtype: Any = None) -> optax.GradientTransformationExtraArgs:
    """Return the transformation of gradients into AdamW's directions.

    Parameters
    ----------
    recipe
        How a direction comes about.
    mu_dtype
        The dtype that the first moment is kept in; ``None`` is that of the leaf, float32 at least.

    Returns
    -------
    optax.GradientTransformationExtraArgs
        Directions, not rounded to the dtype of the leaves.
    """

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
                direction, moments = adamw_direction(widened(grad), AdamWState(widened(mu), nu), recipe, step, xp=jnp)
                mu, nu = jnp.astype(moments.moment_1, mu.dtype), jnp.astype(moments.moment_2, nu.dtype)
            directions.append(direction)
            mus.append(mu)
            nus.append(nu)
        count = optax.safe_increment(state.count)
        kept = ScaleByAdamWState(count, structure.unflatten(mus), structure.unflatten(nus), counts)
        return structure.unflatten(directions), kept

    return optax.GradientTransformationExtraArgs(init, update)


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


def _second_moment(leaf: Any, second: SecondMoment, layout: MatrixLayout | None) -> jax.Array | None:
    if layout is None:
        return None
    return jnp.zeros(second.shape(jnp.shape(leaf), layout), accumulation_dtype(jnp.result_type(leaf), jnp))
