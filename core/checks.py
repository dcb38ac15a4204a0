"""Checks of arguments that several rooms share; each names the argument, the value and what is accepted."""

import math
import re
from collections.abc import Collection, Generator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np


def require_choice(name: str, value: object, accepted: Collection[str]) -> None:
    """Refuse a value that is not one of the accepted names."""
    if not isinstance(value, str) or value not in accepted:
        raise ValueError(f"{name}={value!r} is not known; accepted: {', '.join(map(repr, accepted))}")


def require_number(
    name: str,
    value: object,
    *,
    low: float = -math.inf,
    high: float = math.inf,
    low_open: bool = False,
    high_open: bool = False,
) -> None:
    """Refuse a Python number that is NaN or infinite, or outside the interval; arrays (schedules) pass."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bool) or not isinstance(value, int | float):
        if is_scalar_array(value):
            return
        raise TypeError(f"{name}={value!r} is not a number")
    above = value > low if low_open else value >= low
    below = value < high if high_open else value <= high
    if not (math.isfinite(value) and above and below):
        left = "(" if low_open or low == -math.inf else "["
        right = ")" if high_open or high == math.inf else "]"
        raise ValueError(f"{name}={value!r} is out of range; accepted: a finite number in {left}{low}, {high}{right}")


def require_count(name: str, value: object, *, least: int) -> None:
    """Refuse anything but an integer of at least ``least``."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise TypeError(f"{name}={value!r} is not an integer; accepted: integers >= {least}")
    if value < least:
        raise ValueError(f"{name}={value!r} is out of range; accepted: integers >= {least}")


def require_matrices(name: str, x: Any, xp: Any) -> None:
    """Refuse arrays that are not stacks of real floating matrices."""
    if x.ndim < 2:
        raise ValueError(f"{name} has shape {tuple(x.shape)}; accepted: (..., m, n), at least two axes")
    if not xp.isdtype(x.dtype, "real floating"):
        raise TypeError(f"{name} has dtype {x.dtype}; accepted: real floating dtypes")


def is_scalar_array(value: object) -> bool:
    """Tell whether a value is a 0-d array of any framework (a schedule's current number, possibly traced)."""
    return getattr(value, "shape", None) == ()


@contextmanager
def errors_naming(names: Mapping[str, str]) -> Generator[None]:
    """Let errors, which begin with the name of a field, begin with the user's name for it.

    Parameters
    ----------
    names
        Field to name; other fields keep theirs.

    Yields
    ------
    None
        Once.
    """
    try:
        yield
    except (ValueError, TypeError) as error:
        renamed = re.sub(r"^\w+", lambda word: names.get(word[0], word[0]), str(error))
        raise type(error)(renamed) from None
