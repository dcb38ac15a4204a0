"""How a parameter is a stack of matrices: which axes are fan-out, which fan-in, which a batch."""

import math
from dataclasses import dataclass
from typing import Literal, TypeAlias

from zeropower.kernels import Array

Axes: TypeAlias = tuple[int, ...] | Literal["rest"]


@dataclass(frozen=True)
class MatrixLayout:
    """The matrix view of a parameter; axes in neither group are a batch of independent matrices.

    Attributes
    ----------
    fan_out
        Axes of the output side, in the order in which they merge; negative ones count from the end. ``"rest"``: all
        that the other side does not name, in their order.
    fan_in
        Axes of the input side, likewise.
    ndim
        Accepted numbers of axes; empty for all that have the named ones.
    """

    fan_out: Axes
    fan_in: Axes
    ndim: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        sides = (self.fan_out, self.fan_in)
        if not all(sides):
            raise ValueError(f"{self} names no axis for one side; accepted: at least one axis each")
        if sides == ("rest", "rest") or any(isinstance(side, str) and side != "rest" for side in sides):
            raise ValueError(f"{self} is not accepted; accepted: axes for both sides, or 'rest' for one of them")

    def at(self, ndim: int) -> "MatrixLayout":
        """Return the layout for arrays of so many axes, its own counted from the end: it holds in a stack, too.

        Parameters
        ----------
        ndim
            The number of axes.

        Returns
        -------
        MatrixLayout
            The same view.

        Raises
        ------
        ValueError
            If the layout does not fit.
        """
        return MatrixLayout(*self.sides(ndim))

    def fans(self, shape: tuple[int, ...]) -> tuple[int, int]:
        """Return ``(fan_out, fan_in)`` of a shape: the sizes of the two sides of each matrix."""
        _, fan_out, fan_in = self._axes(shape)
        return math.prod([shape[a] for a in fan_out]), math.prod([shape[a] for a in fan_in])

    def sides(self, ndim: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the axes of the fan-out and of the fan-in for arrays of so many axes, counted from the end."""
        _, fan_out, fan_in = self._axes((1,) * ndim)
        return tuple(a - ndim for a in fan_out), tuple(a - ndim for a in fan_in)

    def matrix_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape (batch, rows, columns) of the view."""
        batch, rows, columns = self._order(shape)
        return (
            math.prod([shape[a] for a in batch]),
            math.prod([shape[a] for a in rows]),
            math.prod([shape[a] for a in columns]),
        )

    def to_matrices(self, x: Array, xp: Array) -> Array:
        """Return the parameter as (batch, rows, columns).

        The side whose first axis comes first in memory gives the rows, whether it is fan-out or fan-in: the
        polynomials of a matrix commute with transposition, and so the usual layouts need no copy.

        Parameters
        ----------
        x
            The parameter, or anything of its shape.
        xp
            The namespace of ``x``.

        Returns
        -------
        array
            The stack of matrices.

        Raises
        ------
        ValueError
            If the layout does not fit the shape.
        """
        batch, rows, columns = self._order(x.shape)
        order = (*batch, *rows, *columns)
        moved = x if order == tuple(range(x.ndim)) else xp.permute_dims(x, order)
        return xp.reshape(moved, self.matrix_shape(x.shape))

    def from_matrices(self, matrices: Array, shape: tuple[int, ...], xp: Array) -> Array:
        """Return the array of shape ``shape`` whose view is ``matrices``: the inverse of :meth:`to_matrices`."""
        batch, rows, columns = self._order(shape)
        order = (*batch, *rows, *columns)
        moved = xp.reshape(matrices, tuple(shape[a] for a in order))
        if order == tuple(range(len(shape))):
            return moved
        return xp.permute_dims(moved, tuple(order.index(a) for a in range(len(shape))))

    def _axes(self, shape: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        ndim = len(shape)
        given = [[a + ndim if a < 0 else a for a in side] for side in self._named()]
        named = [a for side in given for a in side]
        rest = tuple(a for a in range(ndim) if a not in named)
        fits = len(set(named)) == len(named) and all(0 <= a < ndim for a in named)
        merges = "rest" in (self.fan_out, self.fan_in)
        if not fits or (self.ndim and ndim not in self.ndim) or (merges and not rest):
            raise ValueError(f"{self} does not fit the shape {tuple(shape)}")
        if not merges:
            return rest, tuple(given[0]), tuple(given[1])
        return ((), rest, tuple(given[1])) if self.fan_out == "rest" else ((), tuple(given[0]), rest)

    def _named(self) -> list[tuple[int, ...]]:
        return [() if side == "rest" else side for side in (self.fan_out, self.fan_in)]

    def _order(self, shape: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        batch, fan_out, fan_in = self._axes(shape)
        return (batch, fan_out, fan_in) if fan_out[0] < fan_in[0] else (batch, fan_in, fan_out)


OUT_IN = MatrixLayout(fan_out=(-2,), fan_in=(-1,))
"""``torch.nn.Linear``, ``equinox.nn.Linear``: (..., out, in)."""

IN_OUT = MatrixLayout(fan_out=(-1,), fan_in=(-2,))
"""Flax and haiku kernels, HF ``Conv1D``: (..., in, out)."""

HEADS = MatrixLayout(fan_out=(-2,), fan_in=(-1,), ndim=(2, 3))
"""One matrix, or a stack of them, one for each head: ([heads,] rows, columns)."""

MERGED_HEADS = MatrixLayout(fan_out="rest", fan_in=(-1,), ndim=(2, 3))
"""As :data:`HEADS`, with the heads merged into one matrix: (heads * rows, columns)."""

CONV = MatrixLayout(fan_out=(0,), fan_in="rest")
"""PyTorch's convolution kernels, (out, in, ...), with everything but the output flattened; also (out, in)."""
