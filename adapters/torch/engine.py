"""What all optimizers share: groups that are checked before anything changes, state, saving and loading.

A subclass says which :class:`Update` a group gets. The engine asks it for the jobs of a step; all of them are made,
and so checked, before the first one runs.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol, TypeAlias, overload

import torch
from torch import Tensor
from torch.optim import Optimizer

from zeropower import MatrixLayout
from zeropower.newton_schulz import dtype_name

from .decay import STEPS_PASSED
from .names import members
from .options import Group, layout_to_plain
from .state import Entry, State, entry_of, loaded

Job: TypeAlias = Callable[[], None]

_FOREIGN = ("maximize", "amsgrad", "differentiable")  # options of PyTorch's optimizers that would change the result


class Update(Protocol):
    """How the parameters of a group change; one for each kind of optimizer."""

    def check(self, group: Group) -> None:
        """Refuse a group whose options or parameters are not accepted."""
        ...

    def state_keys(self, group: Group) -> tuple[str, ...]:
        """Return the names of what is kept of each parameter."""
        ...

    def jobs(self, group: Group, params: Sequence[Tensor], state: State) -> list[Job]:
        """Return the work of one step on the parameters that have a gradient; itself changes nothing."""
        ...


class Engine(Optimizer):
    """A PyTorch optimizer that leaves the maths to :class:`Update` and keeps PyTorch's manners."""

    def _update(self, group: Mapping[str, Any]) -> Update:
        raise NotImplementedError

    def add_param_group(self, param_group: Group) -> None:
        """Add a parameter group.

        Parameters
        ----------
        param_group
            ``"params"`` and options of its own; what it does not say is as for the whole optimizer. The dictionary is
            copied. If anything in it is not accepted, an error comes before anything changes.
        """
        super().add_param_group(self._complete(param_group))

    @overload
    def step(self, closure: None = None) -> None: ...

    @overload
    def step(self, closure: Callable[[], float]) -> float: ...

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:
        """Update every parameter that has a gradient; one without is left alone, undecayed, with its state.

        All options and gradients are checked first: after an error, parameters and state are as before. Gradients
        are never written.

        Parameters
        ----------
        closure
            Computes the loss and the gradients anew; called once, with gradients enabled.

        Returns
        -------
        float or None
            What ``closure`` returned.
        """
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        jobs: list[Job] = []
        for group in self.param_groups:
            update = self._update(group)
            update.check(group)
            jobs += update.jobs(group, _with_gradient(group), self.state)
            if STEPS_PASSED in group:
                jobs.append(partial(_tick, group))
        for job in jobs:
            job()
        return loss

    @torch.no_grad()
    def init_state(self) -> None:
        """Create the state of every trainable parameter that has none yet.

        Otherwise it appears with the first gradient. Zeros have the effect of no state, so this changes no result;
        saving does it first, so that a checkpoint's keys do not depend on which parameters have seen a gradient.
        """
        for group in self.param_groups:
            keys = self._update(group).state_keys(group)
            for param in group["params"]:
                if param.requires_grad:
                    entry_of(self.state, param, keys)

    def state_dict(self) -> dict[str, Any]:
        """Return options and state, as every PyTorch optimizer does, after :meth:`init_state`.

        Returns
        -------
        dict
            Tensors and plain values alone, which ``torch.load(..., weights_only=True)`` accepts.
        """
        self.init_state()
        return super().state_dict()

    @torch.no_grad()
    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load what :meth:`state_dict` returned, exactly.

        PyTorch would cast the state to the parameters' dtype; here it stays in float32 at least. The argument is
        neither kept nor changed, and what does not fit is refused before anything changes. Options that the saved
        groups lack (another optimizer's checkpoint) stay as they are.

        Parameters
        ----------
        state_dict
            What was saved.
        """
        state: dict[Tensor, Entry] = {}

        def take(_: Optimizer, saved: dict[str, Any]) -> dict[str, Any]:
            groups = self._merge(saved["param_groups"])
            state.update(self._lay_out(saved["state"], groups))
            return {"state": {}, "param_groups": groups}

        def put(_: Optimizer) -> None:
            self.state.update(state)

        # After the user's hooks and before theirs: PyTorch itself gets to see the groups alone.
        handles = [
            self.register_load_state_dict_pre_hook(take),
            self.register_load_state_dict_post_hook(put, prepend=True),
        ]
        try:
            super().load_state_dict(state_dict)
        finally:
            for handle in handles:
                handle.remove()

    def _complete(self, given: Any) -> Group:
        """Return a copy of a new group with everything that it does not say, checked."""
        if not isinstance(given, dict) or "params" not in given:
            raise TypeError(f"param_group={given!r} is not accepted; accepted: a dict with 'params'")
        params = given["params"]
        if isinstance(params, set):
            raise TypeError("params is a set, whose order changes between runs; accepted: a list")
        clocks = [other[STEPS_PASSED] for other in self.param_groups if STEPS_PASSED in other]
        clock = {STEPS_PASSED: max(clocks)} if clocks else {}  # that of a group that comes later is not at zero
        group: Group = {**self.defaults, **clock, **{key: _plain(value) for key, value in given.items()}}
        group["params"] = [params] if isinstance(params, Tensor) else list(params)
        self._check(group)
        return group

    def _check(self, group: Group) -> None:
        for option in _FOREIGN:
            if group.get(option):
                raise ValueError(
                    f"{option}={group[option]!r} is not supported by {type(self).__name__}; accepted: False"
                )
        known: dict[int, str] = {}
        for name, param in members(group):
            if not param.is_floating_point():
                raise TypeError(f"{name} has dtype {param.dtype}; accepted: real floating dtypes")
            if known.setdefault(id(param), name) != name:
                raise ValueError(f"{name} is {known[id(param)]} again; accepted: each parameter once")
        self._update(group).check(group)

    def _merge(self, saved: Sequence[Group]) -> list[Group]:
        """Return saved groups with what they lack from this optimizer's, checked against its parameters."""
        sizes = [[len(group["params"]) for group in groups] for groups in (self.param_groups, saved)]
        if sizes[0] != sizes[1]:
            raise ValueError(f"state_dict has groups of {sizes[1]} parameters; accepted: {sizes[0]}, as this optimizer")
        merged: list[Group] = []
        for own, theirs in zip(self.param_groups, saved, strict=True):
            self._check_fit(own, theirs)
            merged.append({**own, **theirs})
            self._check({**merged[-1], "params": own["params"]})
        return merged

    def _check_fit(self, own: Group, saved: Group) -> None:
        """Refuse a saved group that belongs to other parameters; a subclass may know."""

    def _lay_out(self, saved: Mapping[Any, Entry], groups: Sequence[Group]) -> dict[Tensor, Entry]:
        """Return the saved state of all parameters, copied and checked."""
        state: dict[Tensor, Entry] = {}
        left = dict(saved)
        for own, group in zip(self.param_groups, groups, strict=True):
            keys = self._update(group).state_keys(group)
            for (name, param), number in zip(members(own), group["params"], strict=True):
                if entry := left.pop(number, None):
                    state[param] = loaded(name, param, entry, keys)
        if left:
            raise ValueError(f"state_dict has state of unknown parameters {list(left)}; accepted: those of its groups")
        return state


def _tick(group: Group) -> None:
    group[STEPS_PASSED] += 1


def _with_gradient(group: Group) -> list[Tensor]:
    """Return the parameters of a group that have a gradient; refuse gradients that no update is defined for."""
    params: list[Tensor] = []
    for name, param in members(group):
        if param.grad is None:
            continue
        if param.grad.layout != torch.strided or not param.grad.is_floating_point():
            kind = f"{param.grad.layout}, {param.grad.dtype}"
            raise TypeError(f"the gradient of {name} is {kind}; accepted: dense (torch.strided) and real floating")
        params.append(param)
    return params


def _plain(value: Any) -> Any:
    """Return an option as a checkpoint can hold it."""
    if isinstance(value, MatrixLayout):
        return layout_to_plain(value)
    return dtype_name(value) if isinstance(value, torch.dtype) else value
