"""The three products of an iteration for PyTorch: fused with their addend, symmetric ones at half the work."""

import torch
from torch import Tensor

from zeropower import Kernels

_LEAST_ROWS = 512
_STRIP_ROWS = 256
_MOST_STRIPS = 8
# Measured on two cores, PyTorch 2.13, in bfloat16 and float32: below 512 rows a strip costs more than it saves; from
# there on strips of 256 rows gain 1.15 (512 rows) to 1.8 (4096 rows) over the full product, and more than eight of
# them nothing further.


def strip_count(rows: int) -> int:
    """Return into how many row strips a symmetric product of that many rows is cut."""
    return 1 if rows < _LEAST_ROWS else min(_MOST_STRIPS, rows // _STRIP_ROWS)


def _muladd(
    a: Tensor,
    b: Tensor,
    c: Tensor | None = None,
    /,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    out: Tensor | None = None,
) -> Tensor:
    if c is None:
        product = a @ b
        return product if alpha == 1.0 else alpha * product
    if a.ndim == 2:
        return torch.addmm(c, a, b, beta=beta, alpha=alpha)
    product = torch.baddbmm(_as_stack(c), _as_stack(a), _as_stack(b), beta=beta, alpha=alpha)
    return product.reshape(c.shape)


def _gram(x: Tensor, /, *, out: Tensor | None = None) -> Tensor:
    return x @ x.mT


def _striped_gram(x: Tensor, /, *, out: Tensor | None = None) -> Tensor:
    if not _pays(x):
        return _gram(x)
    return _striped(x, x.mT, None, alpha=1.0, beta=1.0)


def _striped_symmul(
    a: Tensor,
    b: Tensor,
    c: Tensor | None = None,
    /,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    out: Tensor | None = None,
) -> Tensor:
    if not _pays(a, b, *(() if c is None else (c,))):
        return _muladd(a, b, c, alpha=alpha, beta=beta)
    return _striped(a, b, c, alpha=alpha, beta=beta)


def _pays(*operands: Tensor) -> bool:
    """Tell whether strips are worth it and allowed: compiled and differentiated code cannot write into slices."""
    if strip_count(operands[0].shape[-2]) == 1 or torch.compiler.is_compiling():
        return False
    return not (torch.is_grad_enabled() and any(operand.requires_grad for operand in operands))


def _striped(a: Tensor, b: Tensor, c: Tensor | None, *, alpha: float, beta: float) -> Tensor:
    """Compute the upper triangle in row strips, each from its diagonal on, and mirror it."""
    rows = a.shape[-2]
    result = torch.empty((*a.shape[:-1], rows), dtype=a.dtype, device=a.device)
    stacks = [_as_stack(x) for x in (result, a, b)]
    addends = [None] * len(stacks[0]) if c is None else _as_stack(c)
    # One by one: batched bfloat16 products with a transposed operand are slower than a loop at these sizes.
    for out, left, right, addend in zip(*stacks, addends, strict=True):
        for start, stop in _strips(rows):
            strip = out[start:stop, start:]
            if addend is None:
                torch.mm(left[start:stop], right[:, start:], out=strip)
                if alpha != 1.0:
                    strip.mul_(alpha)
            else:
                torch.addmm(
                    addend[start:stop, start:], left[start:stop], right[:, start:], alpha=alpha, beta=beta, out=strip
                )
            out[stop:, start:stop] = strip[:, stop - start :].mT
    return result


def _strips(rows: int) -> list[tuple[int, int]]:
    count = strip_count(rows)
    return [(rows * strip // count, rows * (strip + 1) // count) for strip in range(count)]


def _as_stack(x: Tensor) -> Tensor:
    return x.unsqueeze(0) if x.ndim == 2 else x.flatten(0, -3)


FUSED = Kernels(gram=_gram, symmul=_muladd, muladd=_muladd)
"""Every product whole, its addend fused: for accelerators, where strips are not measured."""

STRIPED = Kernels(gram=_striped_gram, symmul=_striped_symmul, muladd=_muladd)
"""As :data:`FUSED`, with symmetric products in strips where that pays: for CPUs."""
