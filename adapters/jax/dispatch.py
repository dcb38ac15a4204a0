"""Which dtype the iteration computes in, and with which products: one table, by device and wanted dtype."""

import warnings
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp

from zeropower import Kernels
from zeropower.checks import require_choice
from zeropower.jax.kernels import JAX
from zeropower.recipes import ComputeDtype
from zeropower.soundness import DtypeName


class Choice(NamedTuple):
    """What a device does with a wanted dtype."""

    compute_dtype: DtypeName
    kernels: Kernels


Compute: TypeAlias = Callable[[Any], Choice]
"""From the dtype of a leaf to what its iteration computes in."""


_NAMES: dict[str, DtypeName] = {
    "float64": "float64",
    "float32": "float32",
    "float16": "float16",
    "bfloat16": "bfloat16",
}


def _row(*, anything: DtypeName, **substitutes: DtypeName) -> Mapping[DtypeName | None, Choice]:
    row: dict[DtypeName | None, Choice] = {None: Choice(anything, JAX)}
    row.update((name, Choice(substitutes.get(name, name), JAX)) for name in _NAMES.values())
    return MappingProxyType(row)


# Processors without bf16 instructions convert bf16 for every product, and none multiplies float16 at speed. TPUs
# multiply bf16 alone. A float32 that is asked for stays float32 everywhere.
TABLE: Mapping[str, Mapping[DtypeName | None, Choice]] = MappingProxyType({
    "cpu": _row(anything="float32", bfloat16="float32", float16="float32"),
    "cpu with bfloat16": _row(anything="bfloat16", float16="bfloat16"),
    "gpu": _row(anything="bfloat16"),
    "tpu": _row(anything="bfloat16", float16="bfloat16"),
    "other": _row(anything="float32"),
})
"""Device -> wanted dtype (``None``: whatever the device multiplies fastest) -> compute dtype and products."""

_BFLOAT16_FLAGS = frozenset({"avx512_bf16", "amx_bf16"})


def multiplies_bfloat16(cpuinfo: str) -> bool:
    """Tell whether a processor has instructions for bf16 products.

    Parameters
    ----------
    cpuinfo
        What Linux says of it in ``/proc/cpuinfo``; empty elsewhere.

    Returns
    -------
    bool
        Whether AVX512-BF16 or AMX is among its flags.
    """
    return not _BFLOAT16_FLAGS.isdisjoint(cpuinfo.split())


@lru_cache(maxsize=1)
def _this_processor_multiplies_bfloat16() -> bool:
    try:
        return multiplies_bfloat16(Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace"))
    except OSError:
        return False


def device_name() -> str:
    """Return the row of :data:`TABLE` for jax's default device."""
    device: Any = jax.config.jax_default_device  # pyright: ignore[reportAttributeAccessIssue] - as below
    platform: str = jax.default_backend() if device is None else getattr(device, "platform", device)
    if platform == "cpu" and _this_processor_multiplies_bfloat16():
        return "cpu with bfloat16"
    return platform if platform in TABLE else "other"


def follow_recipe(wanted: DtypeName | None) -> Compute:
    """Compute in what a recipe wants, as far as the device multiplies it; float64 leaves always in float64.

    Parameters
    ----------
    wanted
        The recipe's ``compute_dtype``.

    Returns
    -------
    Compute
        Looks the device up when it is called. A recipe that wants float16 where there are no fast products in it
        gets a substitute, with one warning.
    """

    def choose(leaf_dtype: Any) -> Choice:
        device = device_name()
        choice = TABLE[device]["float64" if leaf_dtype == jnp.float64 else wanted]
        if wanted == "float16" and choice.compute_dtype in {"float32", "bfloat16"}:
            _warn_of_substitute(device, choice.compute_dtype)
        return choice

    return choose


def follow(wanted: ComputeDtype | None, mu_dtype: Any = None) -> Compute:
    """Compute in what a recipe wants: :func:`follow_leaf` where that is the parameter's own dtype.

    Parameters
    ----------
    wanted
        The recipe's ``compute_dtype``.
    mu_dtype
        The dtype that the momentum is kept in, or ``None``.

    Returns
    -------
    Compute
        Looks the device up when it is called.
    """
    return follow_leaf(mu_dtype) if wanted == "parameter" else follow_recipe(wanted)


def follow_leaf(mu_dtype: Any) -> Compute:
    """Compute in the dtype of the leaf, or of its momentum where that is wider, as optax does.

    Parameters
    ----------
    mu_dtype
        The dtype that the momentum is kept in, or ``None``.

    Returns
    -------
    Compute
        A 16-bit leaf computes in float32 where the device does not multiply its dtype.
    """

    def choose(leaf_dtype: Any) -> Choice:
        dtype = jnp.dtype(leaf_dtype)
        if mu_dtype is not None and jnp.finfo(mu_dtype).bits > jnp.finfo(dtype).bits:
            dtype = jnp.dtype(mu_dtype)
        own = _NAMES[dtype.name]
        choice = TABLE[device_name()][own]
        return choice if choice.compute_dtype == own else Choice("float32", JAX)

    return choose


def follow_order(compute_dtype: DtypeName) -> Compute:
    """Compute in a dtype whatever the device.

    Parameters
    ----------
    compute_dtype
        The name of the dtype.

    Returns
    -------
    Compute
        Always the same choice.

    Raises
    ------
    ValueError
        If the name is unknown, or float64 is not enabled.
    """
    require_choice("compute_dtype", compute_dtype, _NAMES)
    if compute_dtype == "float64" and not has_float64():
        raise ValueError("compute_dtype='float64' is not enabled; accepted: float32 and less, or jax_enable_x64=True")
    return lambda leaf_dtype: Choice(compute_dtype, JAX)


def has_float64() -> bool:
    """Tell whether jax computes in float64 when asked to, by its option ``jax_enable_x64``."""
    return bool(jax.config.jax_enable_x64)  # pyright: ignore[reportAttributeAccessIssue] - jax adds it while it runs


@lru_cache(maxsize=8)
def _warn_of_substitute(device: str, substitute: str) -> None:
    message = f"compute_dtype='float16' is slow on this device ({device}): computing in {substitute} instead"
    warnings.warn(message, UserWarning, stacklevel=2)
