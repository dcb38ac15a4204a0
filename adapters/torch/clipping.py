"""Clipping as options of a parameter group: each gradient alone, before it enters any state."""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import array_api_compat.torch as xp
from torch import Tensor

from zeropower.clipping import clip, require_clip

from .options import to_number

UNCLIPPED: Final[Mapping[str, Any]] = {"clip_norm": None, "clip_value": None}
"""The options, with the values that mean no clipping."""


class Clip(NamedTuple):
    """How a gradient is clipped; at most one of both is given.

    Attributes
    ----------
    norm
        Greatest norm of a parameter's gradient.
    value
        Greatest magnitude of an element.
    """

    norm: float | None
    value: float | None

    def __call__(self, grad: Tensor) -> Tensor:
        """Return the gradient of a parameter, clipped; itself where there is nothing to clip by."""
        return clip(grad, norm=self.norm, value=self.value, xp=xp)


def read_clip(group: Mapping[str, Any]) -> Clip:
    """Return how the gradients of a group are clipped, checked.

    Parameters
    ----------
    group
        The group; options that it lacks mean no clipping.

    Returns
    -------
    Clip
        Numbers.

    Raises
    ------
    ValueError
        If both are given, or one is not above zero.
    TypeError
        If one is not a number.
    """
    found = Clip(to_number(group.get("clip_norm")), to_number(group.get("clip_value")))
    require_clip(found.norm, found.value)
    return found
