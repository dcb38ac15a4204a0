"""The gradients of a step: those of the parameters, or those that are passed, summed over their sources."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias, cast

import array_api_compat.torch as xp
import torch
from torch import Tensor

from zeropower.normalize import accumulation_dtype

from .names import members

Gradients: TypeAlias = Mapping[Tensor, Tensor]
"""The gradient of each parameter that has one."""

Source: TypeAlias = Mapping[Tensor, Tensor | None] | Mapping[str, Tensor | None]
"""Gradients by parameter, or by the parameter's name; a missing one may be ``None``."""


def own_gradients(groups: Iterable[Mapping[str, Any]]) -> dict[Tensor, Tensor]:
    """Return what the parameters of some groups have as ``grad``, checked.

    Parameters
    ----------
    groups
        Parameter groups.

    Returns
    -------
    dict of Tensor to Tensor
        The gradient itself, not a copy, of each parameter that has one.

    Raises
    ------
    TypeError
        If a gradient is sparse, or is not real floating.
    """
    found: dict[Tensor, Tensor] = {}
    for group in groups:
        for name, param in members(group):
            if param.grad is not None:
                _check(name, param, param.grad)
                found[param] = param.grad
    return found


def summed_gradients(sources: Source | Sequence[Source], groups: Sequence[Mapping[str, Any]]) -> dict[Tensor, Tensor]:
    """Return the sum of each parameter's gradients over all sources that have one.

    Parameters
    ----------
    sources
        Micro-batches or devices: each a mapping from parameters, or from their names, to gradients on any device.
    groups
        Parameter groups.

    Returns
    -------
    dict of Tensor to Tensor
        On the parameter's device, in the dtype of the first source; several are summed in float32 at least.

    Raises
    ------
    TypeError
        If a source is not a mapping, or a gradient is sparse or not real floating.
    ValueError
        If a key is no parameter of the groups, or a gradient has another shape than its parameter.
    """
    known: dict[Any, tuple[str, Tensor]] = {}
    for group in groups:
        names = group.get("param_names", ())
        for position, (shown, param) in enumerate(members(group)):
            known[param] = (shown, param)
            if names:
                known[names[position]] = (shown, param)
    found: dict[Tensor, list[Tensor]] = {}
    for source in [sources] if isinstance(sources, Mapping) else sources:
        if not isinstance(source, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance] - untyped callers
            kind = type(source).__name__
            raise TypeError(
                f"gradients holds a {kind}; accepted: mappings from parameters, or their names, to gradients"
            )
        for key, grad in cast("Mapping[Any, Tensor | None]", source).items():
            if key not in known:
                shown = repr(key) if isinstance(key, str) else f"a {type(key).__name__}"
                raise ValueError(
                    f"gradients has {shown}; accepted: the optimizer's parameters, or their names if it has them"
                )
            if grad is not None:
                shown, param = known[key]
                _check(shown, param, grad)
                found.setdefault(param, []).append(grad)
    return {param: _sum(param, grads) for param, grads in found.items()}


def _sum(param: Tensor, grads: list[Tensor]) -> Tensor:
    first = grads[0].to(param.device)
    if len(grads) == 1:
        return first
    total = first.to(accumulation_dtype(first.dtype, xp), copy=True)
    for grad in grads[1:]:
        total += grad.to(param.device)
    return total.to(first.dtype)


def _check(name: str, param: Tensor, grad: Tensor) -> None:
    """Refuse a gradient that no update is defined for."""
    if grad.layout != torch.strided or not grad.is_floating_point():
        kind = f"{grad.layout}, {grad.dtype}"
        raise TypeError(f"the gradient of {name} is {kind}; accepted: dense (torch.strided) and real floating")
    if grad.shape != param.shape:
        raise ValueError(
            f"the gradient of {name} has shape {tuple(grad.shape)}; accepted: {tuple(param.shape)}, as the parameter"
        )
