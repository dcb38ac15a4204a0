"""Which parameters are worked on together, within a bounded amount of memory."""

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Final, NamedTuple, TypeAlias

from torch import Tensor

_ELEMENTS_AT_ONCE: Final = {"cpu": 2**18}
_ELEMENTS_AT_ONCE_ELSEWHERE: Final = 2**24
# An update holds about ten temporaries of the size of what it works on. On a CPU 256 thousand elements keep them in
# the caches and below the size from which the allocator returns memory to the system (measured on AdamW's step over 8
# million: 35 to 38 ms with 128 to 256 thousand at once, 68 with 16 thousand, 54 with 512 thousand, above 100 beyond).
# Stacks gain nothing above it: matrices with 512 rows and more run as fast alone. Elsewhere a piece has to outlast the
# launch of a kernel: 64 MiB in float32, not measured.

Key: TypeAlias = Callable[[Tensor], Hashable]


class Piece(NamedTuple):
    """Elements of a parameter, and the same ones of its gradient and state.

    Attributes
    ----------
    param
        The parameter.
    part
        A range of its elements in memory order; ``None`` takes it whole, in its own shape.
    """

    param: Tensor
    part: slice | None

    def of(self, tensor: Tensor) -> Tensor:
        """Return a view of these elements of the parameter, its gradient or its state."""
        return tensor if self.part is None else tensor.view(-1)[self.part]


def stacks(params: Sequence[Tensor], key: Key) -> Iterator[list[Tensor]]:
    """Yield parameters that can be stacked: of equal shape, dtype, device and key, up to the bound.

    Parameters
    ----------
    params
        Parameters with a gradient.
    key
        What else must be equal.

    Yields
    ------
    list of Tensor
        At least one.
    """
    for bucket in _buckets(params, lambda param: (param.shape, key(param))):
        size = max(1, _bound(bucket[0]) // max(1, bucket[0].numel()))
        yield from (bucket[start : start + size] for start in range(0, len(bucket), size))


def pieces(params: Sequence[Tensor], key: Key, is_flat: Callable[[Tensor], bool]) -> Iterator[list[Piece]]:
    """Yield lists of pieces that can be worked on element by element as one: small ones joined, large ones cut.

    Parameters
    ----------
    params
        Parameters with a gradient.
    key
        What must be equal, besides dtype and device.
    is_flat
        Whether a parameter, its gradient and its state are contiguous; one that is not comes whole and alone.

    Yields
    ------
    list of Piece
        At least one.
    """
    for bucket in _buckets(params, key):
        bound = _bound(bucket[0])
        joined: list[Piece] = []
        room = bound
        for param in bucket:
            if not is_flat(param):
                yield [Piece(param, None)]
                continue
            for start in range(0, param.numel(), bound):
                stop = min(start + bound, param.numel())
                if stop - start > room:
                    yield joined
                    joined, room = [], bound
                joined.append(Piece(param, slice(start, stop)))
                room -= stop - start
        if joined:
            yield joined


def write(values: Sequence[Tensor], targets: Sequence[Tensor]) -> None:
    """Write values into the tensors that they belong to."""
    for value, target in zip(values, targets, strict=True):
        target.copy_(value)


def _buckets(params: Sequence[Tensor], key: Key) -> Iterator[list[Tensor]]:
    found: dict[Hashable, list[Tensor]] = {}
    for param in params:
        found.setdefault((param.dtype, param.device, key(param)), []).append(param)
    yield from found.values()


def _bound(param: Tensor) -> int:
    return _ELEMENTS_AT_ONCE.get(param.device.type, _ELEMENTS_AT_ONCE_ELSEWHERE)
