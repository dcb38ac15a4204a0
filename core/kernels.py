"""The matrix products that an iteration needs, as a record of functions that a caller may replace.

The maths of the iterations is written once over these three products; an adapter binds fast versions for its
device (fused, symmetric, preallocated), and the conformance suite holds each of them against :data:`GENERIC`.
"""

from typing import Any, NamedTuple, Protocol, TypeAlias

Array: TypeAlias = Any
"""An array of any namespace of the Python Array API; what goes in comes out."""


class Gram(Protocol):
    """``gram(x)``: the Gram matrices ``x xᵀ`` of the rows, shape (..., m, n) -> (..., m, m)."""

    def __call__(self, x: Array, /) -> Array: ...  # noqa: D102 - the class says it


class Product(Protocol):
    """``product(a, b, c, alpha=, beta=)``: ``alpha * a @ b + beta * c``; without ``c`` the product alone."""

    def __call__(  # noqa: D102 - the class says it
        self, a: Array, b: Array, c: Array | None = None, /, *, alpha: float = 1.0, beta: float = 1.0
    ) -> Array: ...


class Kernels(NamedTuple):
    """The three products of an iteration; none may write to an argument.

    Attributes
    ----------
    gram
        ``x xᵀ`` per matrix; the result is symmetric, so half of it need not be computed.
    symmul
        ``alpha * a @ b + beta * c`` where the caller knows that ``a``, ``b``, ``c`` are symmetric and commute up to
        rounding, so that the result may be computed by half and mirrored. It may not be ``a @ b.mT``: that turns
        the sign of the operands' rounding errors, which the iteration then amplifies where it would damp them.
    muladd
        ``alpha * a @ b + beta * c`` for any matching matrices.
    """

    gram: Gram
    symmul: Product
    muladd: Product


def _gram(x: Array, /) -> Array:
    return x @ x.mT


def _muladd(a: Array, b: Array, c: Array | None = None, /, *, alpha: float = 1.0, beta: float = 1.0) -> Array:
    product = a @ b if alpha == 1.0 else alpha * (a @ b)
    if c is None:
        return product
    return product + (c if beta == 1.0 else beta * c)


GENERIC = Kernels(gram=_gram, symmul=_muladd, muladd=_muladd)
"""The products in the Array API's own operators: slow nowhere, fast nowhere, right everywhere."""
