"""What is kept of a parameter: made of zeros, loaded without loss."""

from collections.abc import Mapping, MutableMapping
from typing import Any, Final, TypeAlias, cast

import array_api_compat.torch as xp
import torch
from torch import Tensor

from zeropower.normalize import accumulation_dtype

STEP: Final = "step"
"""The key under which the number of updates of a parameter is kept; all other keys hold buffers of its shape."""

Entry: TypeAlias = dict[str, Any]
State: TypeAlias = MutableMapping[Tensor, Entry]


def entry_of(state: State, param: Tensor, keys: tuple[str, ...]) -> Entry:
    """Return what is kept of a parameter, made anew where there is nothing yet.

    Parameters
    ----------
    state
        The optimizer's state.
    param
        The parameter.
    keys
        What is kept.

    Returns
    -------
    dict
        Buffers of zeros, which have the effect of none, in the memory order of the parameter and in float32 at least.
        Those that are there follow the parameter to its device.
    """
    if not state.get(param):
        state[param] = {key: 0 if key == STEP else _zeros(param) for key in keys}
    entry = state[param]
    for key in keys:
        if key != STEP and entry[key].device != param.device:
            entry[key] = entry[key].to(param.device)
    return entry


def updates_of(state: Mapping[Tensor, Entry], param: Tensor) -> int:
    """Return how many updates a parameter has seen."""
    entry = state.get(param)
    return entry[STEP] if entry else 0


def loaded(name: str, param: Tensor, saved: Mapping[str, Any], keys: tuple[str, ...]) -> Entry:
    """Return saved state as this optimizer keeps it: copied, on the parameter's device, in float32 at least.

    Parameters
    ----------
    name
        What to call the parameter in an error.
    param
        The parameter.
    saved
        What was saved of it.
    keys
        What is kept.

    Returns
    -------
    dict
        With exactly these keys.

    Raises
    ------
    ValueError
        If something is missing, foreign, or of another shape.
    """
    if set(saved) != set(keys):
        raise ValueError(f"the state of {name} holds {', '.join(map(str, saved))}; accepted: {', '.join(keys)}")
    entry: Entry = {}
    for key in keys:
        value = saved[key]
        if key == STEP:
            entry[key] = int(value)
        elif isinstance(value, Tensor) and value.shape == param.shape:
            entry[key] = _zeros(param).copy_(value)
        else:
            shape = tuple(cast("Any", getattr(value, "shape", ())))
            raise ValueError(f"{key} of {name} has shape {shape}; accepted: {tuple(param.shape)}, as the parameter")
    return entry


def _zeros(param: Tensor) -> Tensor:
    return torch.zeros_like(param, dtype=accumulation_dtype(param.dtype, xp), memory_format=torch.preserve_format)
