"""Weight decay in two stages, along a clock of the whole optimizer or of each parameter."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import optax
from jax import Array
from jax.tree_util import tree_leaves_with_path, tree_map_with_path

from zeropower import weight_decay_for_step
from zeropower.checks import errors_naming, require_choice
from zeropower.decay import DECOUPLED, Decay, decay_of, decayed_gradient
from zeropower.jax.missing import require_params
from zeropower.jax.options import number, require_static
from zeropower.jax.precision import widened
from zeropower.jax.routing import path_name
from zeropower.jax.state import no_updates

Scales: TypeAlias = Callable[[Any], Mapping[str, float]]
"""From a tree to the scale of the learning rate of each path."""
Clock: TypeAlias = Literal["global", "parameter"]
"""What counts the steps of a run: the calls of ``update``, or the updates that each parameter has seen."""
CLOCKS: tuple[Clock, ...] = ("global", "parameter")
STAGES = ("weight_decay_final", "second_stage_start", "total_steps", "clock")
"""The options besides ``weight_decay``."""


class TwoStages(NamedTuple):
    """A decay that is constant, then linear: :func:`zeropower.weight_decay_for_step`.

    Attributes
    ----------
    initial
        Decay of the first stage.
    final
        Decay of the last step.
    second_stage_start
        Where the second stage starts, as a share of the run.
    total_steps
        Steps of the run.
    clock
        What counts them.
    """

    initial: Any
    final: Any
    second_stage_start: float
    total_steps: int
    clock: Clock

    def at(self, step: Array | int) -> Any:
        """Return the decay at a 1-based step."""
        return weight_decay_for_step(self.initial, self.final, self.second_stage_start, self.total_steps, step, xp=jnp)


def staged(weight_decay: Any, *, weight_decay_final: Any, second_stage_start: Any, total_steps: Any, clock: Any) -> Any:
    """Return a weight decay as it is, or in two stages, checked.

    Parameters
    ----------
    weight_decay
        A number, a 0-d array (possibly traced), or a schedule.
    weight_decay_final
        Decay of the last step; ``None``: there is one stage, and what follows is not looked at.
    second_stage_start
        Where the second stage starts, as a share of the run.
    total_steps
        Steps of the run, at least 0.
    clock
        What counts them.

    Returns
    -------
    float, array, callable or TwoStages
        What :func:`zeropower.jax.updates.as_updates` takes.

    Raises
    ------
    ValueError
        If an option is out of range, or a schedule is to have two stages.
    """
    if weight_decay_final is None:
        return weight_decay
    if callable(weight_decay):
        raise ValueError(f"weight_decay={weight_decay!r} is a schedule; accepted with weight_decay_final: a number")
    initial, final = number("weight_decay", weight_decay), number("weight_decay_final", weight_decay_final)
    require_static("second_stage_start", second_stage_start)
    require_static("total_steps", total_steps)
    require_choice("clock", clock, CLOCKS)
    stages = TwoStages(initial, final, second_stage_start, total_steps, clock)
    stages._replace(initial=0.0, final=0.0).at(1)  # refuses the other numbers here and now
    return stages


def staged_part(argument: str, given: Mapping[str, Any], shared: Mapping[str, Any], weight_decay: Any) -> Any:
    """Return the weight decay of one part of a hybrid.

    Parameters
    ----------
    argument
        The user's name of the part's options.
    given
        The part's options; those of the decay precede the shared ones, ``None`` included.
    shared
        What holds for both parts: :data:`STAGES`.
    weight_decay
        The part's weight decay, whoever gave it.

    Returns
    -------
    float, array, callable or TwoStages
        As of :func:`staged`.
    """
    own = {name: given[name] for name in STAGES if name in given}
    named = [*own, *(["weight_decay"] if given.get("weight_decay") is not None else [])]
    with errors_naming({name: f"{argument}[{name!r}]" for name in named}):
        return staged(weight_decay, **{**shared, **own})


def decayed(
    directions: optax.GradientTransformation, stages: TwoStages, mask: Any = None
) -> optax.GradientTransformationExtraArgs:
    """Add to directions the decay of the update that they belong to.

    Parameters
    ----------
    directions
        Its state has ``count`` and ``counts``: updates so far, of all and of each leaf.
    stages
        The decay.
    mask
        Where to decay, as ``optax.add_decayed_weights`` takes it.

    Returns
    -------
    optax.GradientTransformationExtraArgs
        ``direction + decay param``, with the state of ``directions``.
    """
    supported = optax.with_extra_args_support(directions)

    def update(updates: Any, state: Any, params: Any = None, **extra_args: Any) -> tuple[Any, Any]:
        require_params(params)
        updates, state = supported.update(updates, state, params, **extra_args)
        add = optax.stateless(_adding(_decay_of_leaves(updates, state, stages)))
        add = add if mask is None else optax.masked(add, mask)
        updates, _ = add.update(updates, add.init(params), params)
        return updates, state

    return optax.GradientTransformationExtraArgs(supported.init, update)


def _decay_of_leaves(updates: Any, state: Any, stages: TwoStages) -> dict[Any, Array]:
    """Return the decay of this update by key path; the state has counted it already."""
    paths = [keys for keys, _ in tree_leaves_with_path(updates)]
    if stages.clock == "global":
        return dict.fromkeys(paths, stages.at(state.count))
    return {keys: stages.at(step) for keys, step in zip(paths, jnp.unstack(state.counts), strict=True)}


def _adding(decays: Mapping[Any, Array]) -> Any:
    def add(updates: Any, params: Any) -> Any:
        def add_to_leaf(keys: Any, update: Array, param: Array) -> Array:
            return update + jnp.astype(decays[keys], param.dtype) * param

        return tree_map_with_path(add_to_leaf, updates, params)

    return add


class RuledState(NamedTuple):
    """What a rule of decay needs besides the state of the directions."""

    inner: Any  # that of the directions
    count: Any  # int32, (): updates so far; one more with every update, saturating


def is_decoupled(rule: Decay) -> bool:
    """Tell whether a rule is optax's, every element by ``learning_rate * weight_decay`` before the step."""
    return (rule.decay, rule.decay_rate, rule.decay_mask) == (
        DECOUPLED.decay,
        DECOUPLED.decay_rate,
        DECOUPLED.decay_mask,
    )


def ruled(
    directions: optax.GradientTransformation,
    rule: Decay,
    learning_rate: Any,
    weight_decay: Any,
    *,
    mask: Any = None,
    scales: Scales | None = None,
) -> optax.GradientTransformationExtraArgs:
    """Return the updates of directions and a decay that is not simply added to them.

    Parameters
    ----------
    directions
        They turn gradients into directions, in float32 at least.
    rule
        How the decay acts.
    learning_rate
        A number, a 0-d array, or a schedule of the count of updates so far.
    weight_decay
        Likewise, or :class:`TwoStages`.
    mask
        Where to decay: a tree of truth values, a prefix of one, or a function from the parameters to it.
    scales
        From a tree to the scale of each path; ``None``: one.

    Returns
    -------
    optax.GradientTransformationExtraArgs
        State: :class:`RuledState`.
    """
    supported = optax.with_extra_args_support(directions)

    def init(params: Any) -> RuledState:
        return RuledState(supported.init(params), no_updates())

    def update(updates: Any, state: Any, params: Any = None, **extra_args: Any) -> tuple[Any, RuledState]:
        require_params(params)
        lr: Any = learning_rate(state.count) if callable(learning_rate) else learning_rate
        decays = _decays(updates, params, state, weight_decay, mask)

        def join(keys: Any, grad: Array, param: Array) -> Array:
            return decayed_gradient(widened(grad), param, rule, decays[keys])

        joined = tree_map_with_path(join, updates, params) if rule.decay == "gradient" else updates
        found, inner = supported.update(joined, state.inner, params, **extra_args)
        sizes: Mapping[str, float] = {} if scales is None else scales(updates)

        def move(keys: Any, direction: Array, param: Array) -> Array:
            scale = sizes.get(path_name(keys), 1.0)
            lost = decay_of(param, direction, lr=lr, weight_decay=decays[keys], rule=rule, scale=scale, xp=jnp)
            return -lr * direction if lost is None else -lr * direction - lost

        return tree_map_with_path(move, found, params), RuledState(inner, optax.safe_increment(state.count))

    return optax.GradientTransformationExtraArgs(init, update)


def _decays(updates: Any, params: Any, state: RuledState, weight_decay: Any, mask: Any) -> dict[Any, Any]:
    """Return the decay of this update by key path, 0 where the mask is off."""
    paths = [keys for keys, _ in tree_leaves_with_path(updates)]
    if isinstance(weight_decay, TwoStages):
        counted = jax.tree.leaves(state.inner, is_leaf=lambda node: hasattr(node, "counts"))[0]
        now: Sequence[Any] = (
            [counted.count] * len(paths) if weight_decay.clock == "global" else jnp.unstack(counted.counts)
        )
        steps: list[Any] = [optax.safe_increment(step) for step in now]
        found = {keys: weight_decay.at(step) for keys, step in zip(paths, steps, strict=True)}
    else:
        found = dict.fromkeys(paths, weight_decay(state.count) if callable(weight_decay) else weight_decay)
    if mask is None:
        return found

    def spread(here: Any, branch: Any) -> Any:
        return jax.tree.unflatten(jax.tree.structure(branch), [here] * len(jax.tree.leaves(branch)))

    wanted: Any = mask(params) if callable(mask) else mask
    on = jax.tree.map(spread, wanted, params)
    return {keys: found[keys] if here else 0.0 for keys, here in tree_leaves_with_path(on)}
