"""The state of ``optax.contrib.muon`` as a record."""

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
import optax
from optax.contrib import MuonState

from zeropower.jax.precision import widened
from zeropower.jax.routing import named_leaves
from zeropower.record import Record, RecordEntry


def optax_record(state: Any, params: Any) -> Record:
    """Return the state of ``optax.contrib.muon`` as a record of the hybrid.

    :func:`zeropower.jax.load_record` makes a state of ``muon_adamw(..., dialect="optax")`` of it, and
    ``load_record`` of :class:`zeropower.torch.MuonAdamW` one in PyTorch.

    Parameters
    ----------
    state
        Of ``optax.contrib.muon`` (optax 0.2.8), also within other transformations' states; not traced.
    params
        The parameters that it belongs to.

    Returns
    -------
    Record
        Copies on the host, float32 at least.

    Raises
    ------
    TypeError
        If there is no state of Muon in it.
    ValueError
        If it keeps nothing of some parameter.
    """

    def is_part(node: Any) -> bool:
        return isinstance(node, MuonState | optax.ScaleByAdamState)

    parts = [node for node in jax.tree.leaves(state, is_leaf=is_part) if is_part(node)]
    if not any(isinstance(part, MuonState) for part in parts):
        raise TypeError(f"state is of the type {type(state).__name__}; accepted: the state of optax.contrib.muon")
    found: dict[str, RecordEntry] = {}
    for part in parts:
        found |= _entries(part)
    for path in named_leaves(params):
        if path not in found:
            raise ValueError(f"state keeps nothing of {path!r}; accepted: the params of init")
    step = max(int(part.count) for part in parts)
    return Record("muon_hybrid", step, {path: found[path] for path in named_leaves(params)})


def _entries(part: Any) -> dict[str, RecordEntry]:
    count = int(part.count)
    first = _arrays(part.mu)
    if isinstance(part, MuonState):
        return {path: RecordEntry("muon", count, "ema_corrected", {"momentum": array}) for path, array in first.items()}
    second = _arrays(part.nu)
    return {
        path: RecordEntry("adamw", count, None, {"moment_1": array, "moment_2": second[path]})
        for path, array in first.items()
    }


def _arrays(tree: Any) -> Mapping[str, np.ndarray]:
    return {path: np.array(widened(leaf)) for path, leaf in named_leaves(tree).items()}
