"""The hybrid: Muon for the matrices inside a network, AdamW for all else, by rules that can be read."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import jax.numpy as jnp
import optax
from jax.typing import ArrayLike

from zeropower import IN_OUT, AdamWRecipe, Dialect, MatrixLayout, MuonRecipe, Rule
from zeropower.dialects import get_dialect
from zeropower.jax.decay import STAGES, Clock, staged_part
from zeropower.jax.directions import adamw_directions, muon_directions
from zeropower.jax.dispatch import Compute, follow, follow_order
from zeropower.jax.options import Recipe, float_dtype, overruled, rate, require_keys
from zeropower.jax.routing import Views, named_leaves, planned_views
from zeropower.jax.state import MuonAdamWState
from zeropower.jax.updates import as_updates, assembled, partition
from zeropower.recipes import names_of_fields

MuonPart: TypeAlias = Callable[[Views], optax.GradientTransformation]
_MUON_FIELDS = {name: name for name in names_of_fields(MuonRecipe)}
_OPTAX_NAMES = {"beta_1": "b1", "beta_2": "b2"}
_ADAMW_FIELDS = {_OPTAX_NAMES.get(name, name): name for name in names_of_fields(AdamWRecipe)}


def muon_adamw(
    learning_rate: optax.ScalarOrSchedule,
    weight_decay: optax.ScalarOrSchedule | None = None,
    *,
    dialect: str | Dialect = "zeropower",
    rules: Sequence[Rule] | None = None,
    layouts: Mapping[str, MatrixLayout] | None = None,
    muon_args: Mapping[str, Any] | None = None,
    adamw_args: Mapping[str, Any] | None = None,
    weight_decay_final: ArrayLike | None = None,
    second_stage_start: float = 0.5,
    total_steps: int | None = None,
    clock: Clock = "global",
    clip_norm: ArrayLike | None = None,
    clip_value: ArrayLike | None = None,
) -> optax.GradientTransformationExtraArgs:
    """Return one transformation that gives each parameter to Muon or to AdamW.

    :func:`routing_plan` shows which takes what. Parameters of fewer than two axes never reach Muon. Where the gradient
    of a parameter is ``None``, its update is zero, and its state and its count stay as they are.

    Parameters
    ----------
    learning_rate
        A number, a 0-d array (possibly traced), or a schedule of the count of updates so far. A dialect with a
        learning rate of AdamW's own keeps their ratio.
    weight_decay
        Weight decay, decoupled and multiplied by the learning rate where the dialect does not say otherwise; a number
        or a schedule. ``None`` takes the dialect's.
    dialect
        A name of ``zeropower.DIALECTS``, or a dialect: both recipes, and the rules where ``rules`` is ``None``.
    rules
        As for :func:`routing_plan`.
    layouts
        As for :func:`routing_plan`.
    muon_args
        What Muon does otherwise than the dialect: fields of ``zeropower.MuonRecipe`` (``momentum`` may be a schedule),
        and ``mu_dtype``, the dtype that the momentum is kept in (float32 at least where it is not given).
        ``compute_dtype`` given here holds
        whatever the device. And ``weight_decay_final``, ``second_stage_start``, ``total_steps``, ``clock`` for Muon
        alone: with ``weight_decay_final=None`` its decay stays constant.
    adamw_args
        What AdamW does otherwise than the dialect and Muon: ``b1``, ``b2``, the other fields of
        ``zeropower.AdamWRecipe``, ``learning_rate``, ``weight_decay`` (``None`` for Muon's), and the same four.
    weight_decay_final
        Decay of the last step, in two stages as in :func:`bitnet_adamw`; ``None`` leaves ``weight_decay`` as it is.
    second_stage_start
        As for :func:`bitnet_adamw`.
    total_steps
        As for :func:`bitnet_adamw`; needed by ``weight_decay_final`` alone.
    clock
        As for :func:`bitnet_adamw`.
    clip_norm
        As for :func:`adamw`: each gradient alone, before momentum and moments.
    clip_value
        As for :func:`adamw`.

    Returns
    -------
    optax.GradientTransformationExtraArgs
        ``optax.partition`` of ``"muon"`` and ``"adamw"``, in a :class:`zeropower.jax.state.MuonAdamWState`. Its
        updates have the dtype of the parameters.

    Raises
    ------
    ValueError
        If a number is out of range, a name or key is unknown, a schedule is to have two stages, or both clips are
        given.

    Examples
    --------
    >>> import jax, jax.numpy as jnp, optax
    >>> params = {"kernel": jnp.zeros((4, 4)), "bias": jnp.zeros(4)}
    >>> optimizer = muon_adamw(0.1, adamw_args={"learning_rate": 0.01})
    >>> state = optimizer.init(params)
    >>> grads = {"kernel": jnp.eye(4), "bias": jnp.ones(4)}
    >>> updates, state = jax.jit(optimizer.update)(grads, state, params)
    >>> print(optax.apply_updates(params, updates)["bias"])
    [-0.01 -0.01 -0.01 -0.01]
    """
    chosen = get_dialect(dialect)
    muon_given, adamw_given = dict(muon_args or {}), dict(adamw_args or {})
    require_keys("muon_args", muon_given, [*_MUON_FIELDS, "mu_dtype", *STAGES])
    require_keys("adamw_args", adamw_given, [*_ADAMW_FIELDS, "learning_rate", "weight_decay", *STAGES])
    stages = {
        "weight_decay_final": weight_decay_final,
        "second_stage_start": second_stage_start,
        "total_steps": total_steps,
        "clock": clock,
    }
    shared = {
        "learning_rate": rate("learning_rate", learning_rate),
        "weight_decay": rate("weight_decay", weight_decay, default=chosen.weight_decay),
    }
    muon_decay = staged_part("muon_args", muon_given, stages, shared["weight_decay"])
    muon = _muon_part(chosen.muon, muon_given, {**shared, "weight_decay": muon_decay})
    if weight_decay is None and chosen.adamw_weight_decay is not None:
        shared["weight_decay"] = chosen.adamw_weight_decay
    shared["learning_rate"] = _scaled(shared["learning_rate"], chosen.adamw_lr_ratio)
    adamw_rates = {
        name: rate(f"adamw_args[{name!r}]", adamw_given.get(name), default=value) for name, value in shared.items()
    }
    adamw_rates["weight_decay"] = staged_part("adamw_args", adamw_given, stages, adamw_rates["weight_decay"])
    adamw_recipe = _overruled(chosen.adamw, "adamw_args", adamw_given, _ADAMW_FIELDS)
    adamw = as_updates(adamw_directions(adamw_recipe), **adamw_rates, rule=adamw_recipe)
    views = planned_views(chosen.rules if rules is None else rules, layouts, chosen.layout or IN_OUT)
    updates = partition(muon, adamw, views, adamw_label="adamw")
    if clip_norm is None and clip_value is None:
        clip_norm = chosen.clip_norm
    return assembled(MuonAdamWState, updates, clip_norm=clip_norm, clip_value=clip_value)


def _muon_part(recipe: MuonRecipe, given: Mapping[str, Any], rates: Mapping[str, Any]) -> MuonPart:
    mu_dtype = float_dtype("muon_args['mu_dtype']", given.get("mu_dtype"))
    momentum = given["momentum"] if callable(given.get("momentum")) else None
    if momentum is not None:
        given = {name: value for name, value in given.items() if name != "momentum"}
    recipe = _overruled(recipe, "muon_args", given, _MUON_FIELDS)
    compute = _compute(recipe, given, mu_dtype)

    def muon(views: Views) -> optax.GradientTransformation:
        def scales(tree: Any) -> dict[str, float]:
            found, leaves = views(tree), named_leaves(tree)
            shapes = {path: jnp.shape(leaf) for path, leaf in leaves.items()}
            return {path: recipe.lr_scale(*layout.fans(shapes[path])) for path, layout in found.items() if layout}

        directions = muon_directions(recipe, views, compute=compute, mu_dtype=mu_dtype, momentum=momentum)
        return as_updates(directions, **rates, rule=recipe, scales=scales)

    return muon


def _scaled(rate: Any, ratio: float) -> Any:
    """Return a learning rate times a ratio; a schedule stays one."""
    if ratio == 1.0:
        return rate
    if not callable(rate):
        return ratio * rate
    schedule: Callable[[Any], Any] = rate

    def scaled(count: Any) -> Any:
        return ratio * schedule(count)

    return scaled


def _overruled(recipe: Recipe, argument: str, given: Mapping[str, Any], names: Mapping[str, str]) -> Recipe:
    return overruled(recipe, argument, {name: given[name] for name in names if name in given}, names)


def _compute(recipe: MuonRecipe, given: Mapping[str, Any], mu_dtype: Any) -> Compute:
    if given.get("compute_dtype") is not None:
        return follow_order(given["compute_dtype"])
    return follow(recipe.compute_dtype, mu_dtype)
