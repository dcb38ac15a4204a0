"""Muon for the matrices of a model and AdamW for all else, in one optimizer."""

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Literal

from torch import Tensor, nn

from zeropower import OUT_IN, Dialect, MatrixLayout, RoutePlan, Rule, route_params
from zeropower.dialects import get_dialect
from zeropower.routing import OPTIMIZERS, OptimizerName, split_path

from .adamw import AdamWUpdate, read_betas
from .engine import Engine, Update
from .muon import MuonUpdate
from .names import Named, to_group, to_groups
from .options import Group, Number, layout_from_plain, layout_to_plain, ratio, read_number, refuse_unknown
from .parts import options_of_parts
from .watch import Watched


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
        Learning rate; ``None`` takes the dialect's. A dialect with a learning rate of AdamW's own keeps their ratio.
    weight_decay
        Weight decay, decoupled and multiplied by ``lr`` where the dialect does not say otherwise; ``None`` takes the
        dialect's.
    dialect
        A name of :data:`zeropower.DIALECTS`, or a :class:`zeropower.Dialect`: decides what is not given. With
        ``"zeropower"`` one learning rate suits both kinds.
    rules
        Routing rules in order of precedence; ``None`` takes the dialect's.
    muon_args
        Options of Muon: ``lr``, ``weight_decay`` and what follows ``verbose``, for Muon alone, and the fields of
        :class:`zeropower.MuonRecipe`. A ``compute_dtype`` given here wins over the device's.
    adamw_args
        Options of AdamW: ``betas``, the other fields of :class:`zeropower.AdamWRecipe`, and those that Muon has, for
        AdamW alone.
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
    clip_norm
        As for :class:`Muon`.
    clip_value
        As for :class:`Muon`.

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
    kind = "muon_hybrid"
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
        clip_norm: Number | None = None,
        clip_value: Number | None = None,
        **unknown: Any,
    ) -> None:
        refuse_unknown(type(self), unknown)
        convention = get_dialect(dialect)
        base, self._options = options_of_parts(
            convention,
            {
                "lr": lr,
                "weight_decay": weight_decay,
                "weight_decay_final": weight_decay_final,
                "second_stage_start": second_stage_start,
                "total_steps": total_steps,
                "clock": clock,
                "clip_norm": convention.clip_norm if clip_norm is None and clip_value is None else clip_norm,
                "clip_value": clip_value,
            },
            muon_args or {},
            adamw_args or {},
        )
        self._lr_ratios = {name: ratio(options["lr"], base["lr"]) for name, options in self._options.items()}
        self._rules = convention.rules if rules is None else tuple(rules)
        self._layout = convention.layout or OUT_IN
        self._watched: Watched | None = None
        self.plan = RoutePlan({})
        groups = to_groups(model_or_named_params)
        if not any(group["params"] for group in groups):
            raise ValueError("model_or_named_params has no parameter; accepted: at least one")
        super().__init__(groups, {**base, "momentum": convention.muon.momentum})
        if isinstance(model_or_named_params, nn.Module):
            self._watched = Watched(model_or_named_params, groups[0]["params"])
            if not self.plan.paths("muon"):
                message = (
                    f"no parameter of {type(model_or_named_params).__name__} goes to Muon; optimizer.plan says why"
                )
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
        known = self._known()
        for name, (param, _) in named.items():
            if name in self.plan or id(param) in known:
                raise ValueError(f"parameter {name!r} is in the optimizer already; accepted: each parameter once")
        plan = self._routes(named, group.pop("layout", None))
        parts = self._split(group, named, plan)
        for part in parts:  # all of them, before the first one is added
            self._complete(part)
        for part in parts:
            super().add_param_group(part)
        self.plan = RoutePlan({**self.plan, **plan})

    def _known(self) -> set[int]:
        return {id(param) for group in self.param_groups for param in group["params"]}

    def _routes(self, named: Mapping[str, Named], layout: MatrixLayout | None = None) -> RoutePlan:
        infos = {name: info for name, (_, info) in named.items()}
        return route_params(infos, rules=self._rules, layout=layout or self._layout)

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

    def _before_step(self) -> None:
        """Follow the module: route what it has got since, forget what it has lost."""
        if self._watched is None or (changes := self._watched.changes()) is None:
            return
        known = self._known()
        added = {name: entry for name, entry in changes.added.items() if id(entry.param) not in known}
        plan = self._routes(added)
        parts = self._split({}, added, plan)
        for part in parts:
            self._complete(part)
        for group in self.param_groups:
            self._forget(group, changes.removed)
        for part in parts:
            self._join(part)
        self._watched.settle(changes)
        kept = {name: route for name, route in self.plan.items() if name not in changes.removed}
        thawed = {name: replace(kept[name], trainable=True) for name in changes.thawed}
        self.plan = RoutePlan({**kept, **thawed, **plan})
        said = [f"{name} goes to {self.plan[name].optimizer}" for name in (*changes.thawed, *added)]
        said += [f"{name} is gone" for name in changes.removed]
        if said:
            message = f"the module has changed: {', '.join(said)}; optimizer.plan has the reasons, the rest its state"
            warnings.warn(message, stacklevel=2)

    def _forget(self, group: Group, names: Sequence[str]) -> None:
        pairs = list(zip(group["param_names"], group["params"], strict=True))
        for _, param in (pair for pair in pairs if pair[0] in names):
            self.state.pop(param, None)
        kept = [pair for pair in pairs if pair[0] not in names]
        group["param_names"], group["params"] = [name for name, _ in kept], [param for _, param in kept]

    def _join(self, part: Group) -> None:
        """Add a part to the group of its kind, so that a scheduler goes on knowing all groups; else as one more."""
        for group in self.param_groups:
            same = group["optimizer"] == part["optimizer"]
            if same and layout_from_plain(group["layout"]) == layout_from_plain(part["layout"]):
                group["param_names"] += [name for name, _ in part["params"]]
                group["params"] += [param for _, param in part["params"]]
                return
        super().add_param_group(part)

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
        own = {name: getattr(self, name) for name in self._own_attributes}
        return super().__getstate__() | own | {"_watched": None}  # a copy belongs to another module, or to none
