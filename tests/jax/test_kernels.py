"""The products of jax against the generic ones, in every orientation that an iteration hands them over."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from zeropower import GENERIC, orthogonalize
from zeropower.jax.kernels import JAX

ROUNDOFF = {"float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}
SHAPES = [(6, 10), (10, 6), (3, 6, 10), (3, 10, 6), (1, 7), (7, 1)]


def matrices(shape, dtype, seed=0):
    values = np.random.default_rng(seed).standard_normal(shape) / np.sqrt(shape[-1])
    return jnp.asarray(values, dtype)


def symmetric(size, dtype):
    x = matrices((2, size, size), "float32")
    return jnp.asarray(x @ x.mT, dtype)


def close(found, expected, dtype):
    """GENERIC rounds three times where JAX rounds once; a sum of ten products adds its own roundoff."""
    assert found.dtype == expected.dtype == jnp.dtype(dtype)
    found, expected = (np.asarray(x, np.float64) for x in (found, expected))
    np.testing.assert_allclose(found, expected, rtol=0, atol=4 * ROUNDOFF[dtype] * max(1.0, np.abs(expected).max()))


@pytest.mark.parametrize("dtype", ROUNDOFF)
@pytest.mark.parametrize("shape", SHAPES)
def test_gram_is_generic(shape, dtype):
    x = matrices(shape, dtype)
    close(JAX.gram(x), GENERIC.gram(x), dtype)
    close(jax.jit(JAX.gram)(x), GENERIC.gram(x), dtype)


@pytest.mark.parametrize("dtype", ROUNDOFF)
@pytest.mark.parametrize("addend", [False, True])
@pytest.mark.parametrize("wide", [False, True])
def test_muladd_is_generic_on_either_side(wide, addend, dtype):
    square, x = matrices((3, 6, 6), dtype, 1), matrices((3, 6, 10), dtype)
    operands = (square, x) if wide else (x.mT, square)
    c = operands[1] if wide else operands[0]
    arguments = (*operands, c if addend else None)
    expected = GENERIC.muladd(*arguments, alpha=0.5, beta=-2.0)
    close(JAX.muladd(*arguments, alpha=0.5, beta=-2.0), expected, dtype)


@pytest.mark.parametrize("dtype", ROUNDOFF)
@pytest.mark.parametrize("addend", [False, True])
def test_symmul_is_generic_for_symmetric_matrices(addend, dtype):
    x = symmetric(8, dtype)
    arguments = (x, x, x if addend else None)
    close(JAX.symmul(*arguments, alpha=0.5, beta=-2.0), GENERIC.symmul(*arguments, alpha=0.5, beta=-2.0), dtype)


@pytest.mark.parametrize("method", ["standard", "gram"])
@pytest.mark.parametrize("transform", [lambda f: f, jax.jit], ids=["eager", "jit"])
def test_transposed_views_multiply_in_bfloat16(transform, method):
    """XLA on a CPU has no bf16 x bf16 = float32 for every layout; what it lacks fails when it runs."""

    def iterate(x, y):
        options = {"method": method, "restarts": (2, 4), "kernels": JAX, "xp": jnp}
        return [orthogonalize(view, compute_dtype=jnp.dtype("bfloat16"), **options) for view in (x, x.mT, y, y.mT)]

    x, y = matrices((24, 40), "float32"), matrices((2, 40, 24), "float32")
    for found, view in zip(transform(iterate)(x, y), (x, x.mT, y, y.mT), strict=True):
        exact = orthogonalize(np.asarray(view), method="standard")
        assert np.linalg.norm(found - exact) < 32 * ROUNDOFF["bfloat16"] * np.linalg.norm(exact)  # 15 rounded products


def test_sums_in_16_bits_are_accumulated_in_float32():
    ones = jnp.ones((1, 4096), jnp.bfloat16)  # a bf16 sum of ones stops at 256
    assert float(JAX.gram(ones)[0, 0]) == 4096
    assert float(JAX.muladd(ones, ones.mT)[0, 0]) == 4096


def test_an_addend_is_rounded_with_the_sum():
    a, c = jnp.full((1, 1), 1.0, jnp.bfloat16), jnp.full((1, 1), 2.0**-8, jnp.bfloat16)
    assert float(JAX.muladd(a, a, c, beta=1.5)[0, 0]) == 1 + 2.0**-7  # 1 + 1.5/256 rounds up; 1.5/256 alone is exact


def test_float32_products_ask_for_full_precision():
    text = jax.jit(JAX.gram).lower(matrices((4, 4), "float32")).as_text()
    assert "HIGHEST" in text
    assert "HIGHEST" not in jax.jit(JAX.gram).lower(matrices((4, 4), "bfloat16")).as_text()


@pytest.mark.gpu
def test_float32_products_are_not_tf32_on_a_gpu():
    if jax.default_backend() != "gpu":
        pytest.skip("jax sees no GPU")
    x = matrices((64, 256), "float32")
    exact = np.asarray(x, np.float64) @ np.asarray(x, np.float64).T
    assert np.abs(np.asarray(JAX.gram(x)) - exact).max() < 1e-5  # TF32 has 11 bits: 1e-3
