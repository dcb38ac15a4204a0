"""What all optimizers share: groups that are checked before anything changes, state, saving and loading.

A subclass says which :class:`Update` a group gets. The engine asks it for the jobs of a step; all of them are made,
and so checked, before the first one runs.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any, ClassVar, Final, Protocol, TypeAlias, overload

import torch
from torch import Tensor
from torch.optim import Optimizer

from zeropower import MatrixLayout, SecondMoment
from zeropower.newton_schulz import dtype_name
from zeropower.record import Record, RecordKind, Slot

from .decay import STEPS_PASSED
from .gradients import Gradients, Source, own_gradients, summed_gradients
from .names import members
from .options import Group, Number, layout_to_plain, ratio, read_number
from .records import record_of, state_from
from .state import Buffers, Entry, State, entry_of, loaded

Job: TypeAlias = Callable[[], None]
Params: TypeAlias = Iterable[Tensor] | Iterable[tuple[str, Tensor]] | Iterable[dict[str, Any]]

LR_RATIO: Final = "lr_ratio"
"""The option that holds by how much a group's learning rate exceeds the optimizer's, as both were given."""

_FOREIGN = ("maximize", "amsgrad", "differentiable")  # options of PyTorch's optimizers that would change the result


class Update(Protocol):
    """How the parameters of a group change; one for each kind of optimizer."""

    def check(self, group: Group) -> None:
        """Refuse a group whose options or parameters are not accepted."""
        ...

    def buffers(self, group: Group) -> Buffers:
        """Return what is kept of each parameter."""
        ...

    def slot(self, group: Group, param: Tensor) -> Slot:
        """Return what is kept of a parameter, as a record is asked for it."""
        ...

    def jobs(self, group: Group, params: Sequence[Tensor], gradients: Gradients, state: State) -> list[Job]:
        """Return the work of one step on parameters that have a gradient; itself changes nothing."""
        ...


class Engine(Optimizer):
    """A PyTorch optimizer that leaves the maths to :class:`Update` and keeps PyTorch's manners."""

    kind: ClassVar[RecordKind]

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
    def step(
        self, closure: None = None, *, lr: Number | None = None, gradients: Source | Sequence[Source] | None = None
    ) -> None: ...

    @overload
    def step(self, closure: Callable[[], float], *, lr: Number | None = None) -> float: ...

    @torch.no_grad()
    def step(
        self,
        closure: Callable[[], float] | None = None,
        *,
        lr: Number | None = None,
        gradients: Source | Sequence[Source] | None = None,
    ) -> float | None:
        """Update every parameter that has a gradient; one without is left alone, undecayed, with its state.

        All options and gradients are checked first: after an error, parameters and state are as before. Gradients
        are never written.

        Parameters
        ----------
        closure
            Computes the loss and the gradients anew; called once, with gradients enabled.
        lr
            The learning rate of this step alone, in place of the optimizer's; a group that was added with another one
            keeps the ratio of both. ``None`` takes each group's ``lr``.
        gradients
            What to follow in place of the parameters' ``grad``: a mapping from parameters, or from their names, to
            gradients, or several (micro-batches, devices), which are summed.

        Returns
        -------
        float or None
            What ``closure`` returned.

        Raises
        ------
        ValueError
            If an option is out of range, a gradient does not fit, or ``gradients`` come with a closure.
        TypeError
            If an option or a gradient has the wrong type.
        """
        if closure is not None and gradients is not None:
            raise ValueError("gradients and closure are both given; accepted: one of them")
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        self._before_step()
        groups = self.param_groups
        found = own_gradients(groups) if gradients is None else summed_gradients(gradients, groups)
        jobs: list[Job] = []
        for group in groups:
            update = self._update(group)
            options = group if lr is None else {**group, "lr": read_number("lr", lr) * group[LR_RATIO]}
            update.check(options)
            params = [param for param in group["params"] if param in found]
            jobs += [*update.jobs(options, params, found, self.state), partial(_tick, group)]
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
            buffers = self._update(group).buffers(group)
            for param in group["params"]:
                if param.requires_grad:
                    entry_of(self.state, param, buffers)

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

    def to_record(self) -> Record:
        """Return the state as a value that belongs to no framework.

        Returns
        -------
        Record
            Arrays on the host, by parameter name; options are not part of it. A parameter that has no state yet has
            no entry.

        Raises
        ------
        TypeError
            If the parameters came without names.
        """
        return record_of(self.kind, self.param_groups, self.state, self._slot)

    @torch.no_grad()
    def load_record(self, record: Record) -> None:
        """Replace the state by that of a record; an error leaves all as it was.

        Parameters
        ----------
        record
            Of this kind of optimizer, from any framework. A momentum of another form is converted. What it says
            nothing of loses its state, and starts anew.

        Raises
        ------
        TypeError
            If the parameters came without names.
        ValueError
            If it is of another kind, or has parameters, routes, arrays or shapes that this optimizer has not.
        """
        groups = self.param_groups
        state = state_from(record, self.kind, groups, self._slot, lambda group: self._update(group).buffers(group))
        self.state.clear()
        self.state.update(state)
        for group in groups:
            group[STEPS_PASSED] = record.step

    def _before_step(self) -> None:
        """Prepare groups for a step; a subclass may have to."""

    def _slot(self, group: Group, param: Tensor) -> Slot:
        return self._update(group).slot(group, param)

    def _complete(self, given: Any) -> Group:
        """Return a copy of a new group with everything that it does not say, checked."""
        if not isinstance(given, dict) or "params" not in given:
            raise TypeError(f"param_group={given!r} is not accepted; accepted: a dict with 'params'")
        params = given["params"]
        if isinstance(params, set):
            raise TypeError("params is a set, whose order changes between runs; accepted: a list")
        passed = max((other[STEPS_PASSED] for other in self.param_groups), default=0)  # it may come late in the run
        group: Group = {**self.defaults, STEPS_PASSED: passed, **{key: _plain(value) for key, value in given.items()}}
        group["params"] = [params] if isinstance(params, Tensor) else list(params)
        self._check(group)
        group.setdefault(LR_RATIO, ratio(group["lr"], self.defaults["lr"]))
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
            buffers = self._update(group).buffers(group)
            for (name, param), number in zip(members(own), group["params"], strict=True):
                if entry := left.pop(number, None):
                    state[param] = loaded(name, param, entry, buffers)
        if left:
            raise ValueError(f"state_dict has state of unknown parameters {list(left)}; accepted: those of its groups")
        return state


def _tick(group: Group) -> None:
    group[STEPS_PASSED] += 1


def _plain(value: Any) -> Any:
    """Return an option as a checkpoint can hold it."""
    if isinstance(value, MatrixLayout):
        return layout_to_plain(value)
    if isinstance(value, SecondMoment):
        return asdict(value)
    return dtype_name(value) if isinstance(value, torch.dtype) else value
