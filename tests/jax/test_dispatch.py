"""The table of devices and dtypes, as data, with devices that are not here."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from zeropower import MuonRecipe
from zeropower.jax import dispatch, muon_adamw, scale_by_muon
from zeropower.jax.kernels import JAX

EXPECTED = {
    # device: what None, bfloat16, float16, float32 and float64 become
    "cpu": ("float32", "float32", "float32", "float32", "float64"),
    "cpu with bfloat16": ("bfloat16", "bfloat16", "bfloat16", "float32", "float64"),
    "gpu": ("bfloat16", "bfloat16", "float16", "float32", "float64"),
    "tpu": ("bfloat16", "bfloat16", "bfloat16", "float32", "float64"),
    "other": ("float32", "bfloat16", "float16", "float32", "float64"),
}


@pytest.fixture
def on(monkeypatch):
    def pretend(device):
        monkeypatch.setattr(dispatch, "device_name", lambda: device)
        dispatch._warn_of_substitute.cache_clear()

    yield pretend
    dispatch._warn_of_substitute.cache_clear()


def test_the_table_is_what_the_documents_say():
    wanted = (None, "bfloat16", "float16", "float32", "float64")
    assert {name: tuple(row[w].compute_dtype for w in wanted) for name, row in dispatch.TABLE.items()} == EXPECTED
    assert all(choice.kernels is JAX for row in dispatch.TABLE.values() for choice in row.values())
    assert all(set(row) == set(wanted) for row in dispatch.TABLE.values())


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ("fpu sse2 avx512f avx512_bf16 vaes", True),
        ("fpu amx_bf16 amx_tile amx_int8", True),
        ("fpu avx2 avx512f avx512_fp16", False),
        ("", False),
    ],
)
def test_bfloat16_is_read_from_the_flags(flags, expected):
    assert dispatch.multiplies_bfloat16(f"processor\t: 0\nflags\t\t: {flags}\n") is expected


def test_this_device_has_a_row():
    assert dispatch.device_name() in dispatch.TABLE


@pytest.mark.parametrize("device", EXPECTED)
@pytest.mark.parametrize("wanted", [None, "bfloat16", "float32"])
def test_a_recipe_gets_its_row(on, device, wanted):
    on(device)
    assert dispatch.follow_recipe(wanted)(jnp.float32) == dispatch.TABLE[device][wanted]
    assert dispatch.follow_recipe(wanted)(jnp.bfloat16) == dispatch.TABLE[device][wanted]


@pytest.mark.parametrize("wanted", [None, "bfloat16", "float16"])
def test_float64_is_computed_in_float64(on, wanted):
    on("gpu")
    assert dispatch.follow_recipe(wanted)(jnp.dtype("float64")).compute_dtype == "float64"


def test_float16_on_a_cpu_is_substituted_with_one_warning(on):
    on("cpu")
    compute = dispatch.follow_recipe("float16")
    with pytest.warns(UserWarning, match=r"compute_dtype='float16' is slow .*\(cpu\): computing in float32"):
        assert compute(jnp.float32).compute_dtype == "float32"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert compute(jnp.float32).compute_dtype == "float32"
    on("gpu")
    assert compute(jnp.float32).compute_dtype == "float16"


def test_a_leaf_is_computed_in_its_own_dtype_or_that_of_its_momentum(on):
    on("cpu with bfloat16")
    own = dispatch.follow_leaf(None)
    assert [own(d).compute_dtype for d in ("float32", "bfloat16", "float16")] == ["float32", "bfloat16", "float32"]
    assert dispatch.follow_leaf(jnp.dtype("float32"))(jnp.bfloat16).compute_dtype == "float32"
    assert dispatch.follow_leaf(jnp.dtype("bfloat16"))(jnp.float32).compute_dtype == "float32"


def dot_dtypes(optimizer, params):
    """The dtypes of the operands of every product in a compiled update."""
    text = jax.jit(optimizer.update).lower(params, optimizer.init(params), params).as_text()
    return {line.rpartition("(tensor<")[2].partition(">")[0].rpartition("x")[2] for line in dots(text)}


def dots(text):
    found = [line for line in text.splitlines() if "stablehlo.dot_general" in line]
    assert found
    return found


@pytest.mark.parametrize(("device", "dtype"), [("cpu", "f32"), ("cpu with bfloat16", "bf16"), ("gpu", "bf16")])
def test_the_device_decides_what_is_compiled(on, device, dtype):
    on(device)
    assert dot_dtypes(muon_adamw(0.1), {"w": jnp.ones((4, 4))}) == {dtype}


def test_an_ordered_dtype_always_wins(on):
    on("cpu")
    params = {"w": jnp.ones((4, 4))}
    assert dot_dtypes(muon_adamw(0.1, muon_args={"compute_dtype": "bfloat16"}), params) == {"bf16"}
    assert dot_dtypes(scale_by_muon(compute_dtype="float16"), params) == {"f16"}
    assert dot_dtypes(scale_by_muon(recipe=MuonRecipe(compute_dtype="bfloat16")), params) == {"f32"}


def test_optax_dialect_computes_in_the_dtype_of_the_leaf(on):
    on("gpu")
    assert dot_dtypes(muon_adamw(0.1, dialect="optax"), {"w": jnp.ones((4, 4))}) == {"f32"}
    assert dot_dtypes(muon_adamw(0.1, dialect="optax"), {"w": jnp.ones((4, 4), jnp.float16)}) == {"f16"}


def test_float64_needs_to_be_enabled():
    with pytest.raises(ValueError, match=r"compute_dtype='float64' is not enabled; accepted: .*jax_enable_x64"):
        scale_by_muon(compute_dtype="float64")


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_an_update_on_a_gpu_is_near_that_in_float32(dtype):
    if jax.default_backend() != "gpu":
        pytest.skip("jax sees no GPU")
    params = {"w": jnp.asarray(np.random.default_rng(0).standard_normal((64, 96)), jnp.float32)}
    updates = []
    for compute_dtype in (dtype, "float32"):
        optimizer = muon_adamw(0.1, muon_args={"compute_dtype": compute_dtype})
        updates.append(jax.jit(optimizer.update)(params, optimizer.init(params), params)[0])
    difference = optax.tree.norm(optax.tree.sub(*updates)) / optax.tree.norm(updates[1])
    assert 0 < float(difference) < 0.1
