"""How far a run is: arithmetic of its steps, the same for Python integers and for arrays of any integer dtype."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import array_namespace

from zeropower.kernels import Array
from zeropower.moments import real_dtype

MOST_STEPS = 2**63 - 1
"""The longest run: what a signed integer of 64 bits holds."""


class Arithmetic(NamedTuple):
    """What formulas of steps need, for Python's numbers or for arrays; ``most`` is the greatest integer."""

    most: int
    clip: Callable[[Any, int, int], Any]
    real: Callable[[Any], Any]
    cos: Callable[[Any], Any]
    minimum: Callable[[Any, Any], Any]
    power: Callable[[float, Any], Any]

    def since(self, done: Any, start: int, length: int = MOST_STEPS) -> Any:
        """Return ``done - start``, at least 0 and at most ``length``, still an integer."""
        start = min(start, self.most)  # an integer array takes no bound that its dtype does not hold
        return self.clip(done, start, min(start + length, self.most)) - start

    def share(self, done: Any, start: int, length: int) -> Any:
        """Return which part of the ``length`` steps after ``start`` is done, from 0 to 1."""
        return self.real(self.since(done, start, length)) / float(max(length, 1))


def _clip(n: int, low: int, high: int) -> int:
    return min(max(n, low), high)


_PYTHON = Arithmetic(MOST_STEPS, _clip, float, math.cos, min, pow)


def _of_arrays(xp: Any, integer: Any) -> Arithmetic:
    def real(n: Array) -> Array:
        return xp.astype(n, real_dtype(xp))

    def power(base: float, n: Array) -> Array:
        return xp.exp(real(n) * math.log(base))  # in float32, base**n is far off for a base near 1 and many steps

    return Arithmetic(int(xp.iinfo(integer).max), xp.clip, real, xp.cos, xp.minimum, power)


def steps_done(step: int | Array, xp: Any = None) -> tuple[Any, Arithmetic]:
    """Return the steps before a step, and their arithmetic.

    Parameters
    ----------
    step
        1-based step, an int or an integer array; what is below 1 counts as 1.
    xp
        The namespace of an array; looked up where it is not given. Give it inside ``torch.compile``.

    Returns
    -------
    tuple
        ``step - 1``, at least 0, and the arithmetic for it.

    Raises
    ------
    TypeError
        If ``step`` is no integer.
    """
    if isinstance(step, bool | float | np.floating | np.bool_):
        raise TypeError(f"step={step!r} is not an integer; accepted: integers, and arrays of them")
    if isinstance(step, int | np.integer):
        return _PYTHON.clip(int(step), 1, MOST_STEPS) - 1, _PYTHON
    xp = array_namespace(step) if xp is None else xp
    if not xp.isdtype(step.dtype, "integral"):
        raise TypeError(f"step has dtype {step.dtype}; accepted: integer dtypes")
    arithmetic = _of_arrays(xp, step.dtype)
    return xp.clip(step, 1, arithmetic.most) - 1, arithmetic
