"""Weight decay in two stages, along a clock of the whole optimizer or of each parameter."""

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, TypeAlias

import jax.numpy as jnp
import optax
from jax import Array
from jax.tree_util import tree_leaves_with_path, tree_map_with_path

from zeropower import weight_decay_for_step
from zeropower.checks import errors_naming, require_choice
from zeropower.jax.missing import require_params
from zeropower.jax.options import number, require_static

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
