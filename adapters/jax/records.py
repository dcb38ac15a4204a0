"""States to and from records that belong to no framework."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from zeropower.checks import require_number
from zeropower.jax.directions import MUON_STATES, ScaleByAdamWState, ScaleByMuonState
from zeropower.jax.precision import widened
from zeropower.jax.routing import named_leaves
from zeropower.jax.state import AdamWState, BitNetAdamWState, MuonAdamWState, OptimizerState
from zeropower.momentum import MomentumForm
from zeropower.record import Record, RecordEntry, RecordKind, Slot
from zeropower.routing import OptimizerName

_KINDS: Mapping[type[Any], RecordKind] = {
    AdamWState: "adamw",
    BitNetAdamWState: "bitnet_adamw",
    MuonAdamWState: "muon_hybrid",
}
_FORMS: Mapping[type[Any], MomentumForm] = {
    MUON_STATES[form]: form
    for form in ("ema_added", "ema", "ema_corrected", "heavy_ball")  # the first two keep the same
}


class _Part(NamedTuple):
    """What directions keep, in the words of records."""

    optimizer: OptimizerName
    momentum_form: MomentumForm | None
    buffers: Mapping[str, str]  # field of the state -> name in a record


_MUON, _SECOND_MOMENT = {"mu": "momentum"}, {"nu": "moment_2"}
_ADAMW = _Part("adamw", None, {"mu": "moment_1", "nu": "moment_2"})


def to_record(state: OptimizerState, params: Any) -> Record:
    """Return the state of an optimizer as a record, to be kept or loaded elsewhere.

    Parameters
    ----------
    state
        Of :func:`adamw`, :func:`bitnet_adamw` or :func:`muon_adamw`; not traced.
    params
        The parameters that it belongs to, or their ``jax.ShapeDtypeStruct``.

    Returns
    -------
    Record
        Copies on the host, float32 at least.

    Raises
    ------
    TypeError
        If ``state`` is of another kind.
    ValueError
        If it belongs to other parameters.

    Examples
    --------
    >>> from zeropower.jax import adamw
    >>> params = {"w": jnp.ones(2)}
    >>> to_record(adamw(0.1).init(params), params).entries["w"].updates
    0
    """
    kind = _kind_of(state)
    _require_params(state, params)
    entries: dict[str, RecordEntry] = {}
    for part, kept in _parts(state):
        columns = {name: named_leaves(getattr(kept, field)) for field, name in part.buffers.items()}
        for i, path in enumerate(named_leaves(kept.mu)):
            arrays = {name: np.array(widened(column[path])) for name, column in columns.items()}
            entries[path] = RecordEntry(part.optimizer, int(kept.counts[i]), part.momentum_form, arrays)
    return Record(kind, int(state.count), {path: entries[path] for path in named_leaves(params)})


def load_record(record: Record, state: OptimizerState, params: Any, *, momentum: float | None = None) -> OptimizerState:
    """Return the state that continues what a record was taken from.

    Nothing of ``state`` stays but its structure: a parameter that the record has no state of starts anew. Options
    are not part of a record; the state of ``optax.inject_hyperparams`` holds some, and one of these states within.

    Parameters
    ----------
    record
        Of the same kind of optimizer, from any framework.
    state
        Of this optimizer, as ``init`` returns it.
    params
        The parameters that it belongs to, or their ``jax.ShapeDtypeStruct``.
    momentum
        The decay of Muon's momentum, where the record has it as a sum and the optimizer as an average, or the other
        way round: the two differ by ``1 - momentum``.

    Returns
    -------
    AdamWState, BitNetAdamWState or MuonAdamWState
        A new state with the structure and the dtypes of ``state``.

    Raises
    ------
    TypeError
        If ``state`` is of another kind.
    ValueError
        If the record is of another kind, does not fit, or ``momentum`` is missing where it is needed.
    """
    kind = _kind_of(state)
    _require_params(state, params)
    slots = {path: slot for part, kept in _parts(state) for path, slot in _slots(part, kept, momentum).items()}
    _require_momentum(record, slots, momentum)
    entries = record.entries_for(kind, slots)

    def load(node: Any) -> Any:
        part = _part_of(node)
        # every scalar in these states counts the calls of update
        return jnp.full_like(node, _int32(record.step)) if part is None else _loaded(part, node, entries, record.step)

    return jax.tree.map(load, state, is_leaf=_is_part)


def _kind_of(state: Any) -> RecordKind:
    kind = _KINDS.get(type(state))
    if kind is None:
        accepted = ", ".join(each.__name__ for each in _KINDS)
        raise TypeError(f"state is of the type {type(state).__name__}; accepted: {accepted}")
    return kind


def _part_of(node: Any) -> _Part | None:
    if isinstance(node, ScaleByAdamWState):
        return _ADAMW
    if isinstance(node, ScaleByMuonState):
        return _Part("muon", _FORMS[type(node)], _MUON if node.nu is None else _MUON | _SECOND_MOMENT)
    return None


def _is_part(node: Any) -> bool:
    return _part_of(node) is not None


def _parts(state: Any) -> Iterator[tuple[_Part, Any]]:
    for node in jax.tree.leaves(state, is_leaf=_is_part):
        if part := _part_of(node):
            yield part, node


def _slots(part: _Part, kept: Any, momentum: float | None) -> dict[str, Slot]:
    second = named_leaves(kept.nu) if part.optimizer == "muon" and "nu" in part.buffers else {}
    moments = {path: jnp.shape(moment) for path, moment in second.items()}
    return {
        path: Slot(part.optimizer, jnp.shape(buffer), part.momentum_form, momentum or 0.0, moments.get(path))
        for path, buffer in named_leaves(kept.mu).items()
    }


def _require_params(state: Any, params: Any) -> None:
    shapes = {path: jnp.shape(leaf) for path, leaf in named_leaves(params).items()}
    kept = {path: slot.shape for part, node in _parts(state) for path, slot in _slots(part, node, None).items()}
    for path in shapes | kept:
        if shapes.get(path) != kept.get(path):
            held, given = kept.get(path, "nothing"), shapes.get(path, "nothing")
            raise ValueError(f"state keeps {held} of {path!r}, params have {given}; accepted: the params of init")


def _require_momentum(record: Record, slots: Mapping[str, Slot], momentum: float | None) -> None:
    if momentum is not None:
        require_number("momentum", momentum, low=0.0, high=1.0, high_open=True)
        return
    for form in {slot.momentum_form for slot in slots.values() if slot.momentum_form}:
        for other in {entry.momentum_form for entry in record.entries.values() if entry.momentum_form}:
            if (form == "heavy_ball") != (other == "heavy_ball"):
                raise ValueError(
                    f"momentum=None; accepted where the record has the form {other!r} and the state {form!r}: the "
                    "decay of the momentum, in [0, 1)"
                )


def _loaded(part: _Part, kept: Any, entries: Mapping[str, RecordEntry], step: int) -> Any:
    """Return what directions keep, filled from a record."""
    found = [entries.get(path) for path in named_leaves(kept.mu)]
    updates = [_int32(entry.updates or 0) if entry else 0 for entry in found]
    fields: dict[str, Any] = {
        "count": jnp.full_like(kept.count, _int32(step)),
        "counts": _like(kept.counts, np.asarray(updates, np.int32)),
    }
    for field, name in part.buffers.items():
        buffers, structure = jax.tree.flatten(getattr(kept, field))
        fields[field] = structure.unflatten([
            _like(buffer, np.zeros(jnp.shape(buffer)) if entry is None else entry.arrays[name])
            for buffer, entry in zip(buffers, found, strict=True)
        ])
    return kept._replace(**fields)


def _like(leaf: Any, array: Any) -> jax.Array:
    """Return an array in the dtype and, where it was put there by order, on the devices of a leaf."""
    loaded = jnp.array(np.asarray(array), dtype=leaf.dtype)
    return jax.device_put(loaded, leaf.sharding) if getattr(leaf, "committed", False) else loaded


def _int32(count: int) -> int:
    return min(count, np.iinfo(np.int32).max)
