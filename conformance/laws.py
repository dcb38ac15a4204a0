"""What the checks of the iterations share."""

from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
import pytest

from zeropower.backend import Backend
from zeropower.conformance import tolerances
from zeropower.conformance.oracles import Triples, orthogonalized
from zeropower.newton_schulz import gram_ns, ns_iterate

Function = Callable[..., Any]

ITERATIONS = pytest.mark.parametrize("function", [ns_iterate, gram_ns], ids=lambda function: function.__name__)
"""Both iterations obey the same laws."""

NORMALIZATIONS = pytest.mark.parametrize("normalize", ["frobenius", "schatten4", "spectral_bound", "aol"])

RESTARTS = (2, 4)
"""Restarts that every dtype bears on well-conditioned matrices; ``"auto"`` has checks of its own."""


def options_of(function: Function, restarts: Sequence[int] = RESTARTS) -> dict[str, Any]:
    """Return the keyword arguments that fix the restarts of a function that has any."""
    return {} if function is ns_iterate else {"restarts": tuple(restarts)}


def restarts_of(function: Function, restarts: Sequence[int] = RESTARTS) -> Sequence[int] | Literal["standard"]:
    """Return what :func:`tolerances.iteration` calls the same."""
    return "standard" if function is ns_iterate else tuple(restarts)


def rounded(x: np.ndarray, backend: Backend, dtype: str) -> tuple[np.ndarray, Any]:
    """Return the values that the backend sees, in float64, and its array."""
    array = backend.from_numpy(x, dtype)
    return backend.to_numpy(array).astype(np.float64), array


def assert_orthogonalized(
    y: np.ndarray,
    x: np.ndarray,
    triples: Triples,
    dtype: str,
    *,
    normalize: str = "frobenius",
    restarts: Sequence[int] | Literal["standard"] = "standard",
) -> None:
    """Compare with the SVD of what went in, within what rounding in the compute dtype explains.

    Parameters
    ----------
    y
        The result.
    x
        What went in.
    triples
        The quintics, one a step.
    dtype
        The compute dtype.
    normalize
        The normalisation.
    restarts
        ``"standard"``, or those of the Gram iteration.
    """
    assert y.shape == x.shape, f"shape {y.shape}, not {x.shape}"
    errors = tolerances.matrix_errors(y, orthogonalized(x, triples, normalize=normalize))
    bounds = tolerances.iteration(x, triples, dtype, normalize=normalize, restarts=restarts)
    assert np.all(errors <= bounds), f"errors {errors} exceed {bounds}"


def assert_same(
    y: np.ndarray,
    z: np.ndarray,
    x: np.ndarray,
    dtype: str,
    *,
    function: Function = ns_iterate,
    normalize: str = "frobenius",
) -> None:
    """Compare two results of five of Keller's steps, each within the bound of :func:`assert_orthogonalized`.

    Parameters
    ----------
    y
        One result.
    z
        The other.
    x
        What went in, as ``y`` sees it.
    dtype
        The compute dtype.
    function
        The iteration.
    normalize
        The normalisation.
    """
    triples = ((3.4445, -4.7750, 2.0315),) * 5
    bounds = 2 * tolerances.iteration(x, triples, dtype, normalize=normalize, restarts=restarts_of(function))
    errors = tolerances.matrix_errors(y, z)
    assert np.all(errors <= bounds), f"differences {errors} exceed {bounds}"


def require_optimizer(backend: Backend) -> None:
    """Skip a check of optimizers for a backend that has none."""
    if backend.optimizer is None:
        pytest.skip(f"{backend.name} has no optimizers of its own")
