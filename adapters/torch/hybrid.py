"""Muon for the matrices of a model and AdamW for all else, in one optimizer."""

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Literal

from torch import Tensor, nn

from zeropower import OUT_IN, AdamWRecipe, Dialect, MatrixLayout, MuonRecipe, RoutePlan, Rule, route_params
from zeropower.dialects import get_dialect
from zeropower.routing import OPTIMIZERS, OptimizerName, split_path

from .adamw import BETA_NAMES, AdamWUpdate, read_adamw_recipe, read_betas
from .decay import CONSTANT, STEPS_PASSED
from .engine import Engine, Update
from .muon import MuonUpdate
from .names import Named, of_module, to_group, to_groups
from .options import (
    RECIPE_FIELDS,
    Group,
    Number,
    layout_from_plain,
    layout_to_plain,
    read_dtype,
    read_number,
    recipe_to_group,
    refuse_unknown,
)

_SHARED = ("lr", "weight_decay")
_MUON_ARGS = (*_SHARED, *CONSTANT, *RECIPE_FIELDS)
_ADAMW_ARGS = (*_SHARED, *CONSTANT, "betas", "eps")


class MuonAdamW(Engine):
    """Muon and AdamW as one optimizer: one ``step``, one ``state_dict``, one scheduler.

    :func:`zeropower.route_params` decides from names, shapes and module classes who takes which parameter; read
    ``optimizer.plan`` before you train. Parameter groups are split by that plan, and each part keeps the options of
    its group. A shared parameter is routed once, and stays with AdamW if any of its owners says so.

    Every part has its own ``lr``, and schedulers multiply each, so that a separate learning rate of AdamW keeps its
    ratio. ``momentum`` of a part of AdamW is its first beta (``beta_2`` is the other): schedulers that cycle
    momentum cycle both kinds.

    Parameters
    ----------
    model_or_named_params
        A module; pairs of name and parameter, as ``model.named_parameters()`` gives them; or parameter groups with
        such pairs. Only a module shows the classes of its parts: pairs are routed by name and shape alone.
    lr
        Learning rate; ``None`` takes the dialect's.
    weight_decay
        Decoupled decay, multiplied by ``lr``; ``None`` takes the dialect's.
    dialect
        A name of :data:`zeropower.DIALECTS`, or a :class:`zeropower.Dialect`: decides what is not given. With
        ``"zeropower"`` one learning rate suits both kinds.
    rules
        Routing rules in order of precedence; ``None`` takes the dialect's.
    muon_args
        Options of Muon: ``lr``, ``weight_decay`` and what follows ``verbose``, for Muon alone, and the fields of
        :class:`zeropower.MuonRecipe`. A ``compute_dtype`` given here wins over the device's.
    adamw_args
        Options of AdamW: ``betas``, ``eps``, and those that Muon has, for AdamW alone.
    verbose
        Whether to print the plan.
    weight_decay_final
        Decay of the last step, in two stages as in :class:`BitNetAdamW`; ``None`` keeps the decay constant.
    second_stage_start
        As for :class:`BitNetAdamW`.
    total_steps
        As for :class:`BitNetAdamW`; needed by ``weight_decay_final`` alone.
    clock
        As for :class:`BitNetAdamW`.

    Attributes
    ----------
    plan : RoutePlan
        The route of every parameter, with reasons.

    Raises
    ------
    ValueError
        If a value is out of range, or there is no parameter.
    TypeError
        If an argument is unknown, or parameters come without names.

    Warns
    -----
    UserWarning
        If no parameter of a module goes to Muon.

    Examples
    --------
    >>> import torch
    >>> from zeropower.torch import MuonAdamW
    >>> optimizer = MuonAdamW(torch.nn.Linear(4, 6), lr=1e-3, adamw_args={"weight_decay": 0.0})
    >>> print(optimizer.plan)
    parameter  shape  optimizer  reason
    weight     6x4    muon       hidden matrix
    bias       6      adamw      no matrix: fewer than two axes
    <BLANKLINE>
    muon: 1 parameters, 24 elements
    adamw: 1 parameters, 6 elements
    """

    _updates: ClassVar[Mapping[str, Update]] = {"muon": MuonUpdate({}), "adamw": AdamWUpdate()}
    _own_attributes = ("plan", "_rules", "_layout", "_options", "_lr_ratios")

    plan: RoutePlan

    def __init__(
        self,
        model_or_named_params: nn.Module | Iterable[tuple[str, Tensor]] | Iterable[Mapping[str, Any]],
        lr: Number | None = None,
        weight_decay: Number | None = None,
        *,
        dialect: str | Dialect = "zeropower",
        rules: Sequence[Rule] | None = None,
        muon_args: Mapping[str, Any] | None = None,
        adamw_args: Mapping[str, Any] | None = None,
        verbose: bool = False,
        weight_decay_final: float | None = None,
        second_stage_start: float = 0.5,
        total_steps: int | None = None,
        clock: Literal["global", "parameter"] = "global",
        **unknown: Any,
    ) -> None:
        refuse_unknown(type(self), unknown)
        convention = get_dialect(dialect)
        base: Group = {
            "lr": convention.lr if lr is None else lr,
            "weight_decay": convention.weight_decay if weight_decay is None else weight_decay,
            "weight_decay_final": weight_decay_final,
            "second_stage_start": second_stage_start,
            "total_steps": total_steps,
            "clock": clock,
        }
        own_decay = convention.adamw_weight_decay if weight_decay is None else None
        adamw_base = base if own_decay is None else {**base, "weight_decay": own_decay}
        self.plan = RoutePlan({})
        self._rules = convention.rules if rules is None else tuple(rules)
        self._layout = convention.layout or OUT_IN
        self._options: dict[str, Group] = {
            "muon": _muon_options(convention.muon, base, muon_args or {}),
            "adamw": _adamw_options(convention.adamw, adamw_base, adamw_args or {}),
        }
        self._lr_ratios = {name: _ratio(options["lr"], base["lr"]) for name, options in self._options.items()}
        groups = to_groups(model_or_named_params)
        if not any(group["params"] for group in groups):
            raise ValueError("model_or_named_params has no parameter; accepted: at least one")
        super().__init__(groups, {**base, "momentum": convention.muon.momentum, STEPS_PASSED: 0})
        if isinstance(model_or_named_params, nn.Module) and not self.plan.paths("muon"):
            message = f"no parameter of {type(model_or_named_params).__name__} goes to Muon; optimizer.plan says why"
            warnings.warn(message, stacklevel=2)
        if verbose:
            print(self.plan)

    def add_param_group(self, param_group: Group) -> None:
        """Route the parameters of a group, and add a part for each kind of optimizer and layout.

        Parameters
        ----------
        param_group
            ``"params"``, pairs of name and parameter, and options, which hold in every part that has them: ``lr`` is
            multiplied by the ratio of a separate learning rate, ``momentum`` is also AdamW's first beta, ``layout`` is
            the matrix view of what rules send to Muon without one. The dictionary is copied.

        Raises
        ------
        TypeError
            If parameters come without names.
        ValueError
            If a parameter or a name is there already, or an option is not accepted.
        """
        group = to_group(param_group)
        named: dict[str, Named] = group.pop("params")
        if "optimizer" in group:
            raise ValueError(f"optimizer={group['optimizer']!r} is no option of a group; accepted: rules=, which route")
        known = {id(param) for other in self.param_groups for param in other["params"]}
        for name, (param, _) in named.items():
            if name in self.plan or id(param) in known:
                raise ValueError(f"parameter {name!r} is in the optimizer already; accepted: each parameter once")
        layout = group.pop("layout", None) or self._layout
        plan = route_params({name: info for name, (_, info) in named.items()}, rules=self._rules, layout=layout)
        parts = self._split(group, named, plan)
        for part in parts:  # all of them, before the first one is added
            self._complete(part)
        for part in parts:
            super().add_param_group(part)
        self.plan = RoutePlan({**self.plan, **plan})

    def _split(self, group: Group, named: Mapping[str, Named], plan: RoutePlan) -> list[Group]:
        """Return the parts of a group, Muon's first."""
        members: dict[tuple[OptimizerName, MatrixLayout | None], list[tuple[str, Tensor]]] = {}
        for optimizer in OPTIMIZERS:
            for name in plan.paths(optimizer):
                members.setdefault((optimizer, plan[name].layout), []).append((name, named[name].param))
        return [
            {
                **self._options[optimizer],
                **self._inherited(group, optimizer),
                "optimizer": optimizer,
                "layout": layout_to_plain(layout),
                "params": params,
            }
            for (optimizer, layout), params in members.items()
        ]

    def _inherited(self, group: Group, optimizer: str) -> Group:
        """Return what a part takes over from its group."""
        options = dict(group)
        if "lr" in options:
            options["lr"] = read_number("lr", options["lr"]) * self._lr_ratios[optimizer]
        betas = options.pop("betas", None)
        if betas is not None and optimizer == "adamw":
            options["momentum"], options["beta_2"] = read_betas(betas)
        return options

    def _update(self, group: Mapping[str, Any]) -> Update:
        return self._updates[group["optimizer"]]

    def _check_fit(self, own: Group, saved: Group) -> None:
        for key, read in (("optimizer", str), ("layout", layout_from_plain)):
            if key not in saved or read(saved[key]) != read(own[key]):
                raise ValueError(f"{key}={saved.get(key)!r} in state_dict; accepted: {own[key]!r}, as this plan has it")
        for mine, theirs in zip(own["param_names"], saved.get("param_names", ()), strict=False):
            if split_path(mine) != split_path(theirs):
                raise ValueError(f"parameter {theirs!r} in state_dict; accepted: {mine!r}, as this plan has it")

    def __getstate__(self) -> dict[str, Any]:
        return super().__getstate__() | {name: getattr(self, name) for name in self._own_attributes}


def get_params_for_muon(model: nn.Module, rules: Sequence[Rule] | None = None) -> list[nn.Parameter]:
    """Return the parameters of a model that the routing plan gives to Muon.

    Parameters
    ----------
    model
        The model.
    rules
        Routing rules in order of precedence; ``None`` takes :data:`zeropower.DEFAULT_RULES`.

    Returns
    -------
    list of torch.nn.Parameter
        In the order of the model, each once, frozen ones included.
    """
    named = of_module(model)
    plan = route_params({name: info for name, (_, info) in named.items()}, rules=rules)
    return [param for name in plan.paths("muon") if isinstance(param := named[name].param, nn.Parameter)]


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
    eps = args.get("eps", recipe.eps)
    recipe = read_adamw_recipe(beta_1, beta_2, eps, BETA_NAMES)
    own = {"momentum": recipe.beta_1, "beta_2": recipe.beta_2, "eps": recipe.eps}
    return {**own, **base, **_shared_options("adamw_args", args)}


def _shared_options(kind: str, args: Mapping[str, Any]) -> Group:
    """Return what was given of the options that both kinds have, checked; ``None`` inherits."""
    shared = {name: args[name] for name in _SHARED if args.get(name) is not None}
    for name, value in shared.items():
        read_number(f"{kind}[{name!r}]", value)
    return {**shared, **{name: args[name] for name in CONSTANT if name in args}}


def _refuse_unknown_keys(kind: str, args: Mapping[str, Any], accepted: Sequence[str]) -> None:
    for name, value in args.items():
        if name not in accepted:
            raise TypeError(f"{name}={value!r} is no option of {kind}; accepted: {', '.join(accepted)}")


def _ratio(own: Number, base: Number) -> float:
    """Return by how much a kind's learning rate exceeds the common one; 1 where that is zero."""
    common = read_number("lr", base)
    return read_number("lr", own) / common if common else 1.0
