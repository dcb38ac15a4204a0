"""How a backend describes itself to the conformance suite."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from zeropower.kernels import GENERIC, Array, Kernels
from zeropower.recipes import AdamWRecipe, MuonRecipe

Transform = Callable[[Callable[..., Any]], Callable[..., Any]]


def _eager(function: Callable[..., Any]) -> Callable[..., Any]:
    return function


def _eager_only() -> Mapping[str, Transform]:
    return {"eager": _eager}


def _generic_only() -> Mapping[str, Kernels]:
    return {"generic": GENERIC}


class OptimizerDriver(Protocol):
    """Runs a backend's own optimizer, so that it can be compared with the core's steps.

    ``params`` and each of ``grads``, one a step, are float32 or float64 tensors by path; matrices are (..., fan-out,
    fan-in). ``kind`` is ``"muon"`` (every parameter, ``recipe`` a :class:`MuonRecipe`), ``"adamw"`` (every
    parameter, an :class:`AdamWRecipe`), or ``"muon_adamw"``: routed by the default rules, ``recipe`` that of Muon,
    the rest by ``AdamWRecipe()`` with the same rate and decay. ``lr`` holds the learning rate of each step. The
    parameters after the last step come back; nothing that was passed is written.
    """

    def __call__(  # noqa: D102 - the class says it
        self,
        params: Mapping[str, np.ndarray],
        grads: Iterable[Mapping[str, np.ndarray]],
        *,
        kind: str,
        recipe: MuonRecipe | AdamWRecipe,
        lr: Sequence[float],
        weight_decay: float,
    ) -> dict[str, np.ndarray]: ...


@dataclass(frozen=True, kw_only=True)
class Backend:
    """One backend of the conformance suite; a record, with nothing to inherit from.

    Attributes
    ----------
    name
        Shown in the table of results.
    from_numpy
        ``(array, dtype_name) -> array`` of the backend.
    to_numpy
        The inverse; 16-bit dtypes come back as float32.
    namespace
        Returns the Array API namespace of the backend's arrays.
    dtypes
        Names of the compute dtypes that it has.
    kernels
        Sets of products to hold against the generic ones, by name.
    transforms
        How a function can run: ``{"eager": identity, "jit": jax.jit}``. The first runs it as it is; the others trace
        it once for each combination of shapes.
    slow
        Transforms that take seconds a function: only the representative checks run under them.
    compilations
        Returns how many functions have been compiled so far, where running a function's body is no sign of it
        (Dynamo replays side effects at each call); ``None``: a function that runs is a function that is traced.
    unavailable
        What cannot run here, each with its reason; reported as skipped. A key is a transform, a check
        (``"test_zero_gives_zero"``), or a check with the transform, dtype or kernels that it concerns
        (``"test_zero_gives_zero[jit,float16]"``).
    optimizer
        Runs the backend's optimizers; ``None`` where it has none.
    expected_failures
        Checks that are known to fail, each with its reason, by the same keys; one that passes is an error.
    """

    name: str
    from_numpy: Callable[[np.ndarray, str], Array]
    to_numpy: Callable[[Array], np.ndarray]
    namespace: Callable[[], Any]
    dtypes: tuple[str, ...]
    kernels: Mapping[str, Kernels] = field(default_factory=_generic_only)
    transforms: Mapping[str, Transform] = field(default_factory=_eager_only)
    slow: Collection[str] = ()
    compilations: Callable[[], int] | None = None
    unavailable: Mapping[str, str] = field(default_factory=dict[str, str])
    optimizer: OptimizerDriver | None = None
    expected_failures: Mapping[str, str] = field(default_factory=dict[str, str])
