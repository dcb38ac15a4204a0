"""Lifts the 16-bit arithmetic that some peers hard-wire."""

from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np

_LIFTED: ContextVar[bool] = ContextVar("lifted", default=False)

NAMED_CASTS = {"bfloat16": "bfloat16", "half": "float16", "float": "float32"}
"""Methods of a tensor that are casts, and their dtypes."""

ALIKE = ("zeros_like", "ones_like", "empty_like", "full_like")
"""Functions that make a tensor like another."""


def lifted() -> bool:
    """Return whether :func:`full_precision` is in force."""
    return _LIFTED.get()


@contextmanager
def full_precision() -> Generator[None]:
    """Let a torch tensor keep its dtype where it would be cast to fewer bits.

    Within, ``tensor.bfloat16()``, ``tensor.half()``, ``tensor.float()`` and ``tensor.to(...)`` never narrow a floating
    dtype, and what is made like a tensor (``torch.zeros_like(tensor, dtype=...)``) is not narrower than it. So a peer
    that hard-wires 16 bits runs its own operations, in its own order, in the dtype of its parameters. A cast still
    makes a copy, which peers write to. All this holds on the calling thread, for eager code: the peers here run
    without a compiler. It ends with the block, however that ends.

    Yields
    ------
    None
        Nothing.
    """
    from torch.overrides import TorchFunctionMode

    class KeepDtype(TorchFunctionMode):
        """Passes every call on, but for narrowing casts."""

        def __torch_function__(
            self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
        ) -> Any:
            """Call the function with a dtype that does not narrow."""
            return _call_widely(func, args, kwargs or {})

    token = _LIFTED.set(True)
    try:
        with KeepDtype():
            yield
    finally:
        _LIFTED.reset(token)


@contextmanager
def default_dtype(arrays: Iterable[np.ndarray]) -> Generator[None]:
    """Under :func:`full_precision`, let torch turn integers into the widest dtype of some arrays.

    Without it a learning rate times a count of steps, or the root of a number of rows, is float32 among float64.

    Parameters
    ----------
    arrays
        Arrays of float32 or float64.

    Yields
    ------
    None
        Nothing.
    """
    if not lifted():
        yield
        return
    import torch

    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64 if any(array.dtype == np.float64 for array in arrays) else torch.float32)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def _call_widely(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a function of torch, replacing a dtype narrower than that of its first argument."""
    import torch

    source = args[0] if args else kwargs.get("input")
    if not isinstance(source, torch.Tensor) or not source.is_floating_point():
        return func(*args, **kwargs)
    name = getattr(func, "__name__", "")
    if name in NAMED_CASTS and func is getattr(torch.Tensor, name):
        narrows = _narrows(source.dtype, getattr(torch, NAMED_CASTS[name]))
        return source.clone() if narrows else func(*args, **kwargs)
    if func is torch.Tensor.to or (name in ALIKE and func is getattr(torch, name)):
        wide_args = tuple(_wide(source, value) for value in args)
        result = func(*wide_args, **{key: _wide(source, value) for key, value in kwargs.items()})
        narrows = any(_wide(source, value) is not value for value in (*args, *kwargs.values()))
        return result.clone() if narrows and result is source else result
    return func(*args, **kwargs)


def _wide(source: Any, value: Any) -> Any:
    """Return an argument, but the source's dtype for a narrower one."""
    import torch

    narrow = isinstance(value, torch.dtype) and value.is_floating_point and _narrows(source.dtype, value)
    return source.dtype if narrow else value


def _narrows(source: Any, target: Any) -> bool:
    return target.itemsize < source.itemsize
