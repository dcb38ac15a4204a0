"""How a parameter is a stack of matrices: which axes are fan-out, which fan-in, which a batch."""

import math
from dataclasses import dataclass

from zeropower.kernels import Array


@dataclass(frozen=True)
class MatrixLayout:
    """The matrix view of a parameter; axes in neither group are a batch of independent matrices.

    Attributes
    ----------
    fan_out
        Axes of the output side, in the order in which they merge; negative ones count from the end.
    fan_in
        Axes of the input side.
    """

    fan_out: tuple[int, ...]
    fan_in: tuple[int, ...]

    def __post_init__(self) -> None:
        if not self.fan_out or not self.fan_in:
            raise ValueError(f"{self} names no axis for one side; accepted: at least one axis each")

    def fans(self, shape: tuple[int, ...]) -> tuple[int, int]:
        """Return ``(fan_out, fan_in)`` of a shape: the sizes of the two sides of each matrix."""
        _, fan_out, fan_in = self._axes(shape)
        return math.prod([shape[a] for a in fan_out]), math.prod([shape[a] for a in fan_in])

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
        sides = [tuple(a + ndim if a < 0 else a for a in side) for side in (self.fan_out, self.fan_in)]
        named = sides[0] + sides[1]
        if len(set(named)) != len(named) or not all(0 <= a < ndim for a in named):
            raise ValueError(f"{self} does not fit the shape {tuple(shape)}")
        return tuple(a for a in range(ndim) if a not in named), sides[0], sides[1]

    def _order(self, shape: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        batch, fan_out, fan_in = self._axes(shape)
        return (batch, fan_out, fan_in) if fan_out[0] < fan_in[0] else (batch, fan_in, fan_out)


OUT_IN = MatrixLayout(fan_out=(-2,), fan_in=(-1,))
"""``torch.nn.Linear``, ``equinox.nn.Linear``: (..., out, in)."""

IN_OUT = MatrixLayout(fan_out=(-1,), fan_in=(-2,))
"""Flax and haiku kernels, HF ``Conv1D``: (..., in, out)."""
