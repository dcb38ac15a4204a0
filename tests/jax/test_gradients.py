"""Gradients of several sources as one tree."""

import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from zeropower.jax import sum_gradients


def trees(count, dtype="float32"):
    rng = np.random.default_rng(0)
    shapes = {"w": (3, 4), "b": (4,)}
    return [{path: jnp.asarray(rng.standard_normal(s), dtype) for path, s in shapes.items()} for _ in range(count)]


@pytest.mark.original("J4")
@pytest.mark.parametrize("transform", [lambda f: f, jax.jit], ids=["eager", "jit"])
def test_leaves_are_summed_one_by_one(transform):
    sources = trees(4)
    found = transform(sum_gradients)(*sources)
    for path in ("w", "b"):
        expected = np.sum([np.asarray(tree[path], np.float64) for tree in sources], axis=0)
        np.testing.assert_allclose(found[path], expected, rtol=1e-6, atol=1e-6)
        assert found[path].dtype == jnp.float32


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_sums_of_16_bits_are_rounded_once(dtype):
    """Each addend is half a unit of the last place: 16-bit sums would never move."""
    one, little = jnp.asarray([1.0], dtype), jnp.asarray([jnp.finfo(dtype).eps / 2], dtype)
    found = sum_gradients({"b": one}, *[{"b": little}] * 8)["b"]
    assert found.dtype == dtype
    assert float(found[0]) == 1 + 4 * float(jnp.finfo(dtype).eps)


@pytest.mark.original("J4", "J1")
def test_the_sum_is_over_those_that_have_a_gradient():
    one = {"w": jnp.ones(2), "b": None, "static": None}
    other = {"w": None, "b": jnp.full(3, 2.0, "bfloat16"), "static": None}
    found = sum_gradients(one, other, other)
    np.testing.assert_array_equal(found["w"], [1, 1])
    np.testing.assert_array_equal(found["b"], [4, 4, 4])
    assert found["b"].dtype == jnp.bfloat16
    assert found["static"] is None


def test_the_dtype_is_that_of_the_first():
    with jax.enable_x64(True), jax.numpy_dtype_promotion("strict"):
        first, second = jnp.ones(2, "float32"), jnp.full(2, 2.0**-40, "float64")
        assert sum_gradients([first], [second])[0].dtype == jnp.float32
        np.testing.assert_array_equal(sum_gradients([second], [first])[0], 1 + 2.0**-40)


@pytest.mark.parametrize(
    ("sources", "error", "message"),
    [
        ((), ValueError, r"trees=\(\) is empty; accepted: at least one tree of gradients"),
        (({"a": 1.0, "b": 1.0}, {"a": 1.0}), ValueError, r"trees\[1\] has no leaf 'b'; accepted: the structure of tr"),
        (({"a": 1.0}, {"a": 1.0}, {"a": {"x": 1.0}}), ValueError, r"trees\[2\] has no leaf 'a'; accepted: "),
        (({"a": 1.0}, {"a": 1.0, "c": None}), ValueError, r"trees\[1\] has the leaf 'c'; accepted: "),
        (([1.0], (1.0,)), ValueError, r"trees\[1\] has other containers; accepted: "),
        (({"a": jnp.ones(2)}, {"a": jnp.ones(1)}), ValueError, r"'a' has the shapes \(2,\) and \(1,\); accepted: one"),
        (({"a": jnp.ones(2, int)},), TypeError, "'a' has dtype int32; accepted: real floating"),
    ],
)
def test_what_does_not_belong_together_is_refused(sources, error, message):
    with pytest.raises(error, match=f"^{message}"):
        sum_gradients(*sources)


TWO_DEVICES = """
import jax, jax.numpy as jnp
from zeropower.jax import sum_gradients
jax.config.update("jax_num_cpu_devices", 2)
first, second = jax.devices("cpu")
here, there = jax.device_put(jnp.ones(3), first), jax.device_put(jnp.full(3, 2.0), second)
found = sum_gradients({"b": there}, {"b": here})["b"]
assert found.devices() == {second}, found.devices()
assert found.tolist() == [3, 3, 3], found
"""


@pytest.mark.original("J4")
def test_leaves_of_other_devices_come_to_the_first():
    """In a process of its own: the number of devices is decided once."""
    answer = subprocess.run([sys.executable, "-c", TWO_DEVICES], capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr
