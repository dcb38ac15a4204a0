"""What checks are made of: their marks, and functions that run under a backend's transform."""

from collections.abc import Callable, Hashable
from operator import itemgetter
from types import FunctionType
from typing import Any

import pytest

from zeropower.backend import Backend

MARK = "zeropower_check"

GROUPS = (
    "ns_iterate",
    "gram_ns",
    "orthogonalize",
    "normalize",
    "adaptive_moment",
    "second_moment",
    "weight_decay",
    "schedules",
    "clipping",
    "routing",
    "kernels",
    "layout",
    "steps",
    "dialects",
    "recipes",
    "optimizer step",
    "optimizer run",
)
"""The columns of the table of results."""


def check(group: str | None = None, *, dtypes: tuple[str, ...] = ()) -> pytest.MarkDecorator:
    """Mark a function as a check of a group.

    Parameters
    ----------
    group
        One of :data:`GROUPS`; ``None`` for the name of the check's parameter ``function``.
    dtypes
        The only dtypes in which the law can be seen; empty for all that the backend has.

    Returns
    -------
    pytest.MarkDecorator
        The mark.

    Raises
    ------
    ValueError
        If the group is unknown.
    """
    if group is not None and group not in GROUPS:
        raise ValueError(f"group={group!r} is not known; accepted: {', '.join(map(repr, GROUPS))}")
    return pytest.mark.zeropower_check(group=group, dtypes=dtypes)


EAGER = pytest.mark.zeropower_check(eager=True)
"""Runs under the first transform alone: what it shows does not depend on the transform."""

REPRESENTATIVE = pytest.mark.zeropower_check(representative=True)
"""Runs under the slow transforms too: together these compile each function once."""


class Transformation:
    """One transform of a backend; the ``transform`` of a check.

    ``transform(function, **options)`` binds the options and returns the transformed function of the arrays; checks
    that ask for the same share it, and what it has compiled.

    Parameters
    ----------
    backend
        The backend.
    name
        One of its transforms.
    shared
        Functions that other checks have transformed.

    Attributes
    ----------
    used
        Whether a function has run.
    traces
        Whether it runs a function's body once for all calls with the same shapes: every transform but the first.
    """

    def __init__(self, backend: Backend, name: str, shared: "dict[Hashable, Transformed]") -> None:
        self.backend, self.name, self._shared = backend, name, shared
        self.used = False
        self.traces = name != next(iter(backend.transforms))

    def __call__(self, function: Callable[..., Any], /, **options: Any) -> "Transformed":
        """Return the function under this transform."""
        if "<locals>" in getattr(function, "__qualname__", "<locals>"):
            return Transformed(self, function, options)
        key = (self.backend.name, self.name, function, *sorted(options.items(), key=itemgetter(0)))
        if key not in self._shared:
            self._shared[key] = Transformed(self, function, options)
        self._shared[key].transformation = self
        return self._shared[key]


class Transformed:
    """A function of arrays under a transform; it fails where the transform never entered the function.

    Parameters
    ----------
    transformation
        The transform.
    function
        What to run.
    options
        Its keyword arguments.
    """

    def __init__(self, transformation: Transformation, function: Callable[..., Any], options: dict[str, Any]) -> None:
        self.transformation = transformation
        self._entered = False
        backend = transformation.backend

        def body(*arrays: Any) -> Any:
            self._entered = True  # written, never read: a compiler that guards what is read does not trace again
            return function(*arrays, **options)

        # Dynamo counts recompilations by code object; each transformed function is one of its own.
        own = FunctionType(body.__code__.replace(), body.__globals__, body.__name__, None, body.__closure__)
        self._run = backend.transforms[transformation.name](own)

    def __call__(self, *arrays: Any) -> Any:
        """Run the function."""
        self.transformation.used = True
        result = self._run(*arrays)
        name = self.transformation.name
        assert self._entered, f"transform {name!r} never ran the function"
        return result

    def compilations(self, *arrays: Any) -> int:
        """Run the function and return how often that compiled it."""
        self._entered, before = False, self._count()
        self._run(*arrays)
        self.transformation.used = True
        return self._count() - before if self.transformation.backend.compilations else int(self._entered)

    def _count(self) -> int:
        count = self.transformation.backend.compilations
        return count() if count else 0
