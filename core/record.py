"""The state of an optimizer as a value that belongs to no framework: numpy arrays by parameter path, and the kind."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from zeropower.checks import require_choice, require_count
from zeropower.momentum import MomentumForm, convert_momentum
from zeropower.routing import OptimizerName, split_path

RecordKind: TypeAlias = Literal["adamw", "bitnet_adamw", "muon", "muon_hybrid"]
RECORD_KINDS: tuple[RecordKind, ...] = ("adamw", "bitnet_adamw", "muon", "muon_hybrid")

ARRAYS: Mapping[OptimizerName, tuple[str, ...]] = {"muon": ("momentum",), "adamw": ("moment_1", "moment_2")}
"""What is kept of a parameter, by the optimizer that takes it; Muon's second moment, where there is one, besides."""


class RecordEntry(NamedTuple):
    """What is kept of one parameter.

    Attributes
    ----------
    optimizer
        Who takes it.
    updates
        How many updates it has seen; ``None`` where nobody counted.
    momentum_form
        The form of Muon's momentum; ``None`` with AdamW.
    arrays
        Arrays, float32 at least, by the names in :data:`ARRAYS`, and of the parameter's shape; ``"moment_2"`` of Muon
        has the shape of its :class:`zeropower.SecondMoment`.
    """

    optimizer: OptimizerName
    updates: int | None
    momentum_form: MomentumForm | None
    arrays: Mapping[str, NDArray[Any]]


class Slot(NamedTuple):
    """What an optimizer keeps of one parameter, as it asks a record for it.

    Attributes
    ----------
    optimizer
        Who takes it.
    shape
        The parameter's shape.
    momentum_form
        The form of Muon's momentum; ``None`` with AdamW.
    momentum
        The decay of that momentum, by which the forms differ.
    second_moment
        The shape of the second moment of Muon's direction; ``None`` where it has none.
    """

    optimizer: OptimizerName
    shape: tuple[int, ...]
    momentum_form: MomentumForm | None = None
    momentum: float = 0.0
    second_moment: tuple[int, ...] | None = None


@dataclass(frozen=True)
class Record:
    """The state of an optimizer; options are not part of it, so that a resumed run takes those it is given.

    Attributes
    ----------
    kind
        What kind of optimizer it was taken from, one of :data:`RECORD_KINDS`.
    step
        How often that optimizer has stepped, at least 0.
    entries
        What is kept of each parameter by its path; one without state has none.

    Raises
    ------
    ValueError
        If the kind is unknown, or ``step`` is negative.
    TypeError
        If ``step`` is not an integer.
    """

    kind: RecordKind
    step: int
    entries: Mapping[str, RecordEntry]

    def __post_init__(self) -> None:
        require_choice("kind", self.kind, RECORD_KINDS)
        require_count("step", self.step, least=0)

    def entries_for(self, kind: RecordKind, slots: Mapping[str, Slot]) -> dict[str, RecordEntry]:
        """Return the entries for the parameters of an optimizer, checked and in its form of momentum.

        Parameters
        ----------
        kind
            What kind the optimizer is.
        slots
            What it keeps, by path. ``layers.0.weight`` and ``layers/0/weight`` are one path.

        Returns
        -------
        dict of str to RecordEntry
            By the paths of ``slots``; a parameter without an entry has no state yet.

        Raises
        ------
        ValueError
            If the kinds differ, the record has a parameter that the optimizer has not, gives one to the other
            optimizer, or holds other arrays than are kept.
        """
        if self.kind != kind:
            raise ValueError(f"record is of kind {self.kind!r}; accepted by this optimizer: {kind!r}")
        paths = {split_path(path): path for path in slots}
        found: dict[str, RecordEntry] = {}
        for theirs, entry in self.entries.items():
            path = paths.get(split_path(theirs))
            if path is None:
                raise ValueError(f"record has the parameter {theirs!r}; accepted: those of this optimizer")
            found[path] = _fitted(path, entry, slots[path], self.step)
        return found


def _fitted(path: str, entry: RecordEntry, slot: Slot, step: int) -> RecordEntry:
    if entry.optimizer != slot.optimizer:
        raise ValueError(f"record gives {path!r} to {entry.optimizer}; accepted: {slot.optimizer}, as it is routed now")
    shapes = dict.fromkeys(ARRAYS[slot.optimizer], slot.shape)
    if slot.second_moment is not None:
        shapes["moment_2"] = slot.second_moment
    if set(entry.arrays) != set(shapes):
        held = ", ".join(sorted(entry.arrays)) or "nothing"
        raise ValueError(f"record holds {held} of {path!r}; accepted: {', '.join(shapes)}")
    for name, array in entry.arrays.items():
        if np.shape(array) != shapes[name]:
            raise ValueError(f"{name} of {path!r} has shape {np.shape(array)} in the record; accepted: {shapes[name]}")
    entry = entry._replace(updates=step if entry.updates is None else entry.updates)
    if entry.momentum_form is None or slot.momentum_form is None:
        return entry
    buffer = convert_momentum(entry.arrays["momentum"], entry.momentum_form, slot.momentum_form, beta=slot.momentum)
    return entry._replace(momentum_form=slot.momentum_form, arrays={**entry.arrays, "momentum": buffer})
