"""The matrix products as XLA contractions that say what they accumulate in, each rounded to its dtype once."""

from typing import Any

import jax.numpy as jnp
from jax import lax

from zeropower import Kernels
from zeropower.kernels import Array
from zeropower.normalize import accumulation_dtype


def _contract(a: Array, b: Array, axis_of_b: int) -> Array:
    """Sum over the last axis of ``a`` and an axis of ``b``; the result keeps the dtype that it was summed in."""
    batch = tuple(range(a.ndim - 2))
    # XLA on a CPU multiplies bf16 at twice the speed where the sum is float32.
    # Accelerators would round float32 operands to TF32 or bf16 unless told not to.
    summed_in = accumulation_dtype(a.dtype, jnp)
    return lax.dot_general(
        a,
        b,
        (((a.ndim - 1,), (b.ndim + axis_of_b,)), (batch, batch)),
        precision=lax.Precision.HIGHEST if summed_in == a.dtype else lax.Precision.DEFAULT,
        preferred_element_type=summed_in,
    )


def _rounded_sum(product: Array, c: Array | None, alpha: float, beta: float, dtype: Any) -> Array:
    if alpha != 1.0:
        product = alpha * product
    if c is not None:
        product = product + beta * jnp.astype(c, product.dtype)
    return jnp.astype(product, dtype)


def _gram(x: Array, /, *, out: Array | None = None) -> Array:
    return jnp.astype(_contract(x, x, -1), x.dtype)


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
    return _rounded_sum(_contract(a, b, -2), c, alpha, beta, a.dtype)


JAX = Kernels(gram=_gram, symmul=_muladd, muladd=_muladd)
"""For every dtype and device of jax; all operands of a product have the same number of axes."""
