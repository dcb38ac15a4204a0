"""The backends that need no adapter: numpy, numpy with read-only inputs, and array-api-strict."""

from functools import cache
from typing import Any

import array_api_compat.numpy
import numpy as np

from zeropower.backend import Backend


def _numpy() -> Any:
    return array_api_compat.numpy


def _from_numpy(array: np.ndarray, dtype: str) -> np.ndarray:
    return np.array(array, dtype=dtype)


def _read_only(array: np.ndarray, dtype: str) -> np.ndarray:
    array = np.array(array, dtype=dtype)
    array.flags.writeable = False
    return array


def _to_numpy(array: np.ndarray) -> np.ndarray:
    return array.astype(np.float32) if array.dtype == np.float16 else np.array(array)


@cache
def _strict() -> Any:
    import array_api_strict

    array_api_strict.set_array_api_strict_flags(
        enabled_extensions=(), boolean_indexing=False, data_dependent_shapes=False
    )
    return array_api_strict


def _from_numpy_to_strict(array: np.ndarray, dtype: str) -> Any:
    return _strict().asarray(np.array(array, dtype=dtype))


_SLOW_HALF = {
    "test_automatic_restarts_are_as_accurate_as_the_standard_loop[float16]": "numpy's float16 products take minutes"
}

NUMPY = Backend(
    name="numpy",
    from_numpy=_from_numpy,
    to_numpy=_to_numpy,
    namespace=_numpy,
    dtypes=("float64", "float32", "float16"),
    unavailable=_SLOW_HALF,
)
"""numpy through array-api-compat."""

NUMPY_READONLY = Backend(
    name="numpy-readonly",
    from_numpy=_read_only,
    to_numpy=_to_numpy,
    namespace=_numpy,
    dtypes=("float64", "float32", "float16"),
    unavailable=_SLOW_HALF,
)
"""numpy whose inputs refuse to be written."""

STRICT = Backend(
    name="array-api-strict",
    from_numpy=_from_numpy_to_strict,
    to_numpy=np.asarray,
    namespace=_strict,
    dtypes=("float64", "float32"),
)
"""The standard and nothing else: no extensions, no boolean indexing, no shapes that depend on values."""
