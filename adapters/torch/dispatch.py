"""Which dtype and which products a device gets: one table, and the few rules around it."""

import warnings
from collections.abc import Mapping
from functools import cache
from typing import Any, Final, NamedTuple, cast

import torch

from zeropower import Kernels
from zeropower.recipes import ComputeDtype
from zeropower.soundness import DtypeName

from .kernels import FUSED, STRIPED

__all__ = ["ANY_DEVICE", "FAST_ON_CPU", "TABLE", "Choice", "Row", "choose", "cpu_capabilities"]

Capabilities = Mapping[str, Any]

FAST_ON_CPU: Final = "fast on this CPU"
ANY_DEVICE: Final = "any other"
_CPU_BFLOAT16 = ("avx512_bf16", "amx_bf16")
_DTYPES: tuple[DtypeName, ...] = ("float64", "float32", "float16", "bfloat16")


class Choice(NamedTuple):
    """What an iteration runs with."""

    compute_dtype: DtypeName
    kernels: Kernels


class Row(NamedTuple):
    """A line of the table.

    Attributes
    ----------
    compute_dtype
        The dtype of the iteration, or :data:`FAST_ON_CPU`: bfloat16 where the processor multiplies it (AVX512-BF16 or
        AMX), else float32.
    kernels
        The products.
    reason
        Why.
    warns
        Whether the user hears of it, once: where the substitute is coarser than what was wanted.
    """

    compute_dtype: str
    kernels: Kernels
    reason: str
    warns: bool = False


def _as_wanted(device: str, kernels: Kernels) -> dict[tuple[str, DtypeName | None], Row]:
    return {(device, dtype): Row(dtype, kernels, "as wanted") for dtype in _DTYPES}


TABLE: Mapping[tuple[str, DtypeName | None], Row] = {
    **_as_wanted("cpu", STRIPED),
    ("cpu", None): Row(FAST_ON_CPU, STRIPED, "two to four times float32 where the processor has it"),
    ("cpu", "bfloat16"): Row(FAST_ON_CPU, STRIPED, "float32 holds every bfloat16 number, and is the faster emulation"),
    ("cpu", "float16"): Row(FAST_ON_CPU, STRIPED, "float16 products run at 1 to 3 GFLOP/s on CPUs", warns=True),
    **_as_wanted("cuda", FUSED),
    ("cuda", None): Row("bfloat16", FUSED, "tensor cores, and the range of float32"),
    **_as_wanted(ANY_DEVICE, FUSED),
    (ANY_DEVICE, None): Row("float32", FUSED, "exists everywhere; the gain of 16 bits is not measured here"),
}
"""Device type and wanted dtype (a recipe's, ``None`` without a wish) -> compute dtype and products."""


def choose(
    device: str,
    param_dtype: DtypeName,
    *,
    wanted: ComputeDtype | None,
    asked: DtypeName | None = None,
    capabilities: Capabilities | None = None,
) -> Choice:
    """Choose the compute dtype and the products for parameters of a device and dtype.

    Parameters
    ----------
    device
        ``torch.device.type`` of the parameters.
    param_dtype
        The name of their dtype; float64 is computed in float64 unless the user asks otherwise.
    wanted
        What the recipe would like; the table decides what the device makes of it. ``"parameter"`` is the parameters'
        own dtype, or float32 where the device does not multiply that.
    asked
        What the user asked for, which wins over everything.
    capabilities
        Of the processor, as :func:`cpu_capabilities` returns them; those of this machine by default.

    Returns
    -------
    Choice
        The dtype's name and the kernels.
    """
    wish = param_dtype if param_dtype == "float64" or wanted == "parameter" else wanted
    row = TABLE.get((device, asked or wish)) or TABLE[ANY_DEVICE, asked or wish]
    if asked is not None:
        return Choice(asked, row.kernels)
    if row.compute_dtype != FAST_ON_CPU:
        return Choice(cast("DtypeName", row.compute_dtype), row.kernels)
    flags = cpu_capabilities() if capabilities is None else capabilities
    fast: DtypeName = "bfloat16" if any(flags.get(name, False) for name in _CPU_BFLOAT16) else "float32"
    if wanted == "parameter":
        return Choice(fast if fast == wish else "float32", row.kernels)
    if row.warns:
        _warn_once(f"{wish} becomes {fast} on this CPU ({row.reason}); compute_dtype={wish!r} insists on it")
    return Choice(fast, row.kernels)


@cache
def cpu_capabilities() -> Capabilities:
    """Return the instruction sets of this processor by name; empty where PyTorch cannot tell."""
    query = getattr(torch.cpu, "get_capabilities", None)  # newer than the oldest PyTorch that is supported
    return {} if query is None else query()


@cache
def _warn_once(message: str) -> None:
    warnings.warn(message, stacklevel=2)
