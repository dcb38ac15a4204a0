"""What is kept of a parameter: made of zeros, loaded without loss."""

from collections.abc import Callable, Mapping, MutableMapping
from typing import Any, Final, TypeAlias, cast

import array_api_compat.torch as xp
import torch
from torch import Tensor

from zeropower.normalize import accumulation_dtype

STEP: Final = "step"
"""The key under which the number of updates of a parameter is kept; all other keys hold buffers."""

Entry: TypeAlias = dict[str, Any]
State: TypeAlias = MutableMapping[Tensor, Entry]
Buffers: TypeAlias = Mapping[str, Callable[[tuple[int, ...]], tuple[int, ...]]]
"""What is kept: by key, the shape of a buffer as a function of the parameter's."""


def of_its_shape(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape of a buffer that is like the parameter."""
    return shape


def entry_of(state: State, param: Tensor, buffers: Buffers) -> Entry:
    """Return what is kept of a parameter, made anew where there is nothing yet.

    Parameters
    ----------
    state
        The optimizer's state.
    param
        The parameter.
    buffers
        What is kept.

    Returns
    -------
    dict
        Buffers of zeros, which have the effect of none, in the memory order of the parameter and in float32 at least.
        Those that are there follow the parameter to its device.
    """
    if not state.get(param):
        state[param] = {key: 0 if key == STEP else _zeros(param, shape) for key, shape in buffers.items()}
    entry = state[param]
    for key in buffers:
        if key != STEP and entry[key].device != param.device:
            entry[key] = entry[key].to(param.device)
    return entry


def updates_of(state: Mapping[Tensor, Entry], param: Tensor) -> int:
    """Return how many updates a parameter has seen."""
    entry = state.get(param)
    return entry[STEP] if entry else 0


def loaded(name: str, param: Tensor, saved: Mapping[str, Any], buffers: Buffers) -> Entry:
    """Return saved state as this optimizer keeps it: copied, on the parameter's device, in float32 at least.

    Parameters
    ----------
    name
        What to call the parameter in an error.
    param
        The parameter.
    saved
        What was saved of it.
    buffers
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
    if set(saved) != set(buffers):
        raise ValueError(f"the state of {name} holds {', '.join(map(str, saved))}; accepted: {', '.join(buffers)}")
    entry: Entry = {}
    for key, shape_of in buffers.items():
        value, expected = saved[key], shape_of(tuple(param.shape))
        if key == STEP:
            entry[key] = int(value)
        elif isinstance(value, Tensor) and value.shape == expected:
            entry[key] = _zeros(param, shape_of).copy_(value)
        else:
            shape = tuple(cast("Any", getattr(value, "shape", ())))
            raise ValueError(f"{key} of {name} has shape {shape}; accepted: {expected}, as the parameter has it")
    return entry


def _zeros(param: Tensor, shape_of: Callable[[tuple[int, ...]], tuple[int, ...]]) -> Tensor:
    dtype, shape = accumulation_dtype(param.dtype, xp), shape_of(tuple(param.shape))
    if shape == param.shape:
        return torch.zeros_like(param, dtype=dtype, memory_format=torch.preserve_format)
    return torch.zeros(shape, dtype=dtype, device=param.device)
