"""The matrix products that an iteration needs, as a record of functions that a caller may replace.

The maths of the iterations is written once over these three products; an adapter binds fast versions for its
device (fused, symmetric, preallocated), and the conformance suite holds each of them against :data:`GENERIC`.
"""

from typing import Any, NamedTuple, Protocol, TypeAlias

Array: TypeAlias = Any
"""An array of any namespace of the Python Array API; what goes in comes out."""


class Gram(Protocol):
    """``gram(x, out=)``: the Gram matrices ``x xᵀ`` of the rows, shape (..., m, n) -> (..., m, m)."""

    def __call__(self, x: Array, /, *, out: Array | None = None) -> Array: ...  # noqa: D102 - the class says it


class Product(Protocol):
    """``product(a, b, c, alpha=, beta=, out=)``: ``alpha * a @ b + beta * c``; without ``c`` the product alone."""

    def __call__(  # noqa: D102 - the class says it
        self,
        a: Array,
        b: Array,
        c: Array | None = None,
        /,
        *,
        alpha: float = 1.0,
        beta: float = 1.0,
        out: Array | None = None,
    ) -> Array: ...


class Kernels(NamedTuple):
    """The three products of an iteration; none may write to an argument but ``out``.

    ``out`` is an earlier result of the same shape that nobody needs any more: a kernel may write the new one over it,
    or leave it alone, and returns the result in either case.

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


def _gram(x: Array, /, *, out: Array | None = None) -> Array:
    return _muladd(x, x.mT)


def _muladd(
    a: Array,
    b: Array,
    c: Array | None = None,
    /,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    out: Array | None = None,
) -> Array:
    if getattr(a.dtype, "itemsize", 4) == 2:
        # one rounding, as in the fused products of devices: where product and addend cancel, a product that was rounded
        # before has lost what is left, and the Gram iteration blows up
        product = _combined(_wide(a) @ _wide(b), None if c is None else _wide(c), alpha, beta)
        return product.to(a.dtype) if hasattr(product, "to") else product.astype(a.dtype)
    return _combined(a @ b, c, alpha, beta)


def _wide(x: Array) -> Array:
    """Return an array in float32, without its namespace, which ``torch.compile`` cannot look up in silence."""
    return x.float() if hasattr(x, "float") else x.astype("float32")


def _combined(product: Array, c: Array | None, alpha: float, beta: float) -> Array:
    scaled = product if alpha == 1.0 else alpha * product
    if c is None:
        return scaled
    return scaled + (c if beta == 1.0 else beta * c)


GENERIC = Kernels(gram=_gram, symmul=_muladd, muladd=_muladd)
"""The products in the Array API's own operators, 16-bit dtypes in float32: right everywhere, fast nowhere."""
