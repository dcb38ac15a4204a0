"""The hybrid: Muon for the matrices inside a network, AdamW for all else, by rules that can be read."""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

import optax

from zeropower import IN_OUT, Dialect, MatrixLayout, MuonRecipe, Rule
from zeropower.dialects import get_dialect
from zeropower.jax.directions import adamw_directions, muon_directions
from zeropower.jax.dispatch import Compute, follow, follow_order
from zeropower.jax.options import float_dtype, overruled, rate, require_keys
from zeropower.jax.routing import Views, planned_views
from zeropower.jax.updates import as_updates, partition

_MUON_FIELDS = {field.name: field.name for field in fields(MuonRecipe)}
_ADAMW_FIELDS = {"b1": "beta_1", "b2": "beta_2", "eps": "eps"}


def muon_adamw(
    learning_rate: optax.ScalarOrSchedule,
    weight_decay: optax.ScalarOrSchedule | None = None,
    *,
    dialect: str | Dialect = "zeropower",
    rules: Sequence[Rule] | None = None,
    layouts: Mapping[str, MatrixLayout] | None = None,
    muon_args: Mapping[str, Any] | None = None,
    adamw_args: Mapping[str, Any] | None = None,
) -> optax.GradientTransformationExtraArgs:
    """Return one transformation that gives each parameter to Muon or to AdamW.

    :func:`routing_plan` shows which takes what. Parameters of fewer than two axes never reach Muon.

    Parameters
    ----------
    learning_rate
        A number, a 0-d array (possibly traced), or a schedule of the count of updates so far.
    weight_decay
        Decoupled decay, multiplied by the learning rate; a number or a schedule. ``None`` takes the dialect's.
    dialect
        A name of ``zeropower.DIALECTS``, or a dialect: both recipes, and the rules where ``rules`` is ``None``.
    rules
        As for :func:`routing_plan`.
    layouts
        As for :func:`routing_plan`.
    muon_args
        What Muon does otherwise than the dialect: fields of ``zeropower.MuonRecipe``, and ``mu_dtype``, the dtype
        that the momentum is kept in (float32 at least where it is not given). ``compute_dtype`` given here holds
        whatever the device.
    adamw_args
        What AdamW does otherwise than the dialect and Muon: ``b1``, ``b2``, ``eps``, ``learning_rate``,
        ``weight_decay`` (``None`` for Muon's).

    Returns
    -------
    optax.GradientTransformationExtraArgs
        ``optax.partition`` of ``"muon"`` and ``"adamw"``; its updates have the dtype of the parameters.

    Raises
    ------
    ValueError
        If a number is out of range, or a name or key is unknown.

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
    require_keys("muon_args", muon_given, [*_MUON_FIELDS, "mu_dtype"])
    require_keys("adamw_args", adamw_given, [*_ADAMW_FIELDS, "learning_rate", "weight_decay"])
    mu_dtype = float_dtype("muon_args['mu_dtype']", muon_given.pop("mu_dtype", None))
    rates = {
        "learning_rate": rate("learning_rate", learning_rate),
        "weight_decay": rate("weight_decay", weight_decay, default=chosen.weight_decay),
    }
    defaults = dict(rates)
    if weight_decay is None and chosen.adamw_weight_decay is not None:
        defaults["weight_decay"] = chosen.adamw_weight_decay
    adamw_rates = {
        name: rate(f"adamw_args[{name!r}]", adamw_given.pop(name, None), default=shared)
        for name, shared in defaults.items()
    }
    muon_recipe = overruled(chosen.muon, "muon_args", muon_given, _MUON_FIELDS)
    adamw_recipe = overruled(chosen.adamw, "adamw_args", adamw_given, _ADAMW_FIELDS)
    compute = _compute(muon_recipe, muon_given, mu_dtype)
    views = planned_views(chosen.rules if rules is None else rules, layouts, chosen.layout or IN_OUT)

    def muon(views: Views) -> optax.GradientTransformation:
        return as_updates(muon_directions(muon_recipe, views, compute=compute, mu_dtype=mu_dtype), **rates)

    adamw = as_updates(adamw_directions(adamw_recipe), **adamw_rates)
    return partition(muon, adamw, views, adamw_label="adamw")


def _compute(recipe: MuonRecipe, given: Mapping[str, Any], mu_dtype: Any) -> Compute:
    if given.get("compute_dtype") is not None:
        return follow_order(given["compute_dtype"])
    return follow(recipe.compute_dtype, mu_dtype)
