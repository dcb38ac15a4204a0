"""The options of the two kinds of part that a hybrid's groups are split into."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from zeropower import AdamWRecipe, Dialect, MuonRecipe

from .adamw import ADAMW_NAMES, BETA_NAMES, read_adamw_recipe, read_betas
from .clipping import UNCLIPPED
from .decay import CONSTANT
from .options import RECIPE_FIELDS, Group, read_dtype, read_number, recipe_to_group

_RATES: Final = ("lr", "weight_decay")
_SHARED: Final = (*_RATES, *CONSTANT, *UNCLIPPED)
_MUON_ARGS: Final = (*_SHARED, *RECIPE_FIELDS)
_ADAMW_ARGS: Final = (*_SHARED, "betas", "eps", *ADAMW_NAMES)


def options_of_parts(
    convention: Dialect, given: Group, muon_args: Mapping[str, Any], adamw_args: Mapping[str, Any]
) -> tuple[Group, dict[str, Group]]:
    """Return what both kinds of part have in common, and all options of each.

    Parameters
    ----------
    convention
        Decides what is not given.
    given
        Options of the whole; a learning rate or decay of ``None`` is not given.
    muon_args
        Options of Muon alone.
    adamw_args
        Options of AdamW alone.

    Returns
    -------
    tuple of dict
        The common options, then the options by kind.

    Raises
    ------
    ValueError
        If a value is out of range.
    TypeError
        If an option is unknown or has the wrong type.
    """
    defaults = {"lr": convention.lr, "weight_decay": convention.weight_decay}
    base = given | {name: default if given[name] is None else given[name] for name, default in defaults.items()}
    adamw_base = dict(base)
    if convention.adamw_lr_ratio != 1.0:
        adamw_base["lr"] = read_number("lr", base["lr"]) * convention.adamw_lr_ratio
    if given["weight_decay"] is None and convention.adamw_weight_decay is not None:
        adamw_base["weight_decay"] = convention.adamw_weight_decay
    return base, {
        "muon": _muon_options(convention.muon, base, muon_args),
        "adamw": _adamw_options(convention.adamw, adamw_base, adamw_args),
    }


def _muon_options(recipe: MuonRecipe, base: Group, args: Mapping[str, Any]) -> Group:
    _refuse_unknown_keys("muon_args", args, _MUON_ARGS)
    fields = {name: value for name, value in args.items() if name in RECIPE_FIELDS and name != "compute_dtype"}
    return {
        **recipe_to_group(replace(recipe, **fields), {}),
        **base,
        **_shared_options("muon_args", args),
        "compute_dtype": read_dtype("compute_dtype", args.get("compute_dtype")),
    }


def _adamw_options(recipe: AdamWRecipe, base: Group, args: Mapping[str, Any]) -> Group:
    _refuse_unknown_keys("adamw_args", args, _ADAMW_ARGS)
    beta_1, beta_2 = read_betas(args.get("betas", (recipe.beta_1, recipe.beta_2)))
    variant = {field: args.get(field, getattr(recipe, field)) for field in ADAMW_NAMES}
    recipe = read_adamw_recipe(beta_1, beta_2, args.get("eps", recipe.eps), BETA_NAMES, **variant)
    own = {"momentum": recipe.beta_1, "beta_2": recipe.beta_2, "eps": recipe.eps}
    own |= {name: getattr(recipe, field) for field, name in ADAMW_NAMES.items()}
    return {**own, **base, **_shared_options("adamw_args", args)}


def _shared_options(kind: str, args: Mapping[str, Any]) -> Group:
    """Return what was given of the options that both kinds have; a rate of ``None`` inherits."""
    rates = {name: args[name] for name in _RATES if args.get(name) is not None}
    for name, value in rates.items():
        read_number(f"{kind}[{name!r}]", value)
    return {**rates, **{name: args[name] for name in (*CONSTANT, *UNCLIPPED) if name in args}}


def _refuse_unknown_keys(kind: str, args: Mapping[str, Any], accepted: Sequence[str]) -> None:
    for name, value in args.items():
        if name not in accepted:
            raise TypeError(f"{name}={value!r} is no option of {kind}; accepted: {', '.join(accepted)}")
