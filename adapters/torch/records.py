"""State to and from records that belong to no framework."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import torch
from torch import Tensor

from zeropower.record import Record, RecordEntry, RecordKind, Slot

from .decay import STEPS_PASSED
from .options import Group
from .state import STEP, Buffers, Entry, loaded

SlotOf: TypeAlias = Callable[[Group, Tensor], Slot]
BuffersOf: TypeAlias = Callable[[Group], Buffers]

_NAMES: Final = {
    "momentum_buffer": "momentum",
    "second_moment_buffer": "moment_2",
    "exp_avg": "moment_1",
    "exp_avg_sq": "moment_2",
}


def record_of(kind: RecordKind, groups: Sequence[Group], state: Mapping[Tensor, Entry], slot_of: SlotOf) -> Record:
    """Return the state of an optimizer as a record.

    Parameters
    ----------
    kind
        The optimizer's kind.
    groups
        Its groups.
    state
        Its state.
    slot_of
        What it keeps of a parameter.

    Returns
    -------
    Record
        Copies, on the host.

    Raises
    ------
    TypeError
        If its parameters have no names.
    """
    entries: dict[str, RecordEntry] = {}
    for group in groups:
        for path, param in _paths(group):
            if entry := state.get(param):
                slot = slot_of(group, param)
                arrays = {_NAMES[key]: value.cpu().numpy().copy() for key, value in entry.items() if key != STEP}
                entries[path] = RecordEntry(slot.optimizer, entry.get(STEP), slot.momentum_form, arrays)
    return Record(kind, max(group[STEPS_PASSED] for group in groups), entries)


def state_from(
    record: Record, kind: RecordKind, groups: Sequence[Group], slot_of: SlotOf, buffers_of: BuffersOf
) -> dict[Tensor, Entry]:
    """Return what a record holds as the state of an optimizer.

    Parameters
    ----------
    record
        The record.
    kind
        The optimizer's kind.
    groups
        Its groups.
    slot_of
        What it keeps of a parameter.
    buffers_of
        What it calls that.

    Returns
    -------
    dict of Tensor to dict
        The whole state, copied to the parameters' devices.

    Raises
    ------
    TypeError
        If its parameters have no names.
    ValueError
        If the record is of another kind or does not fit.
    """
    params = {path: (group, param) for group in groups for path, param in _paths(group)}
    entries = record.entries_for(kind, {path: slot_of(group, param) for path, (group, param) in params.items()})
    state: dict[Tensor, Entry] = {}
    for path, entry in entries.items():
        group, param = params[path]
        buffers = buffers_of(group)
        saved: dict[str, Any] = {
            key: entry.updates if key == STEP else torch.tensor(entry.arrays[_NAMES[key]]) for key in buffers
        }
        state[param] = loaded(path, param, saved, buffers)
    return state


def _paths(group: Group) -> list[tuple[str, Tensor]]:
    if group["params"] and "param_names" not in group:
        raise TypeError("params came without names; accepted by records: pairs, as of model.named_parameters()")
    return list(zip(group.get("param_names", ()), group["params"], strict=True))
