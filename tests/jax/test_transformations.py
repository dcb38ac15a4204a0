"""What every optimizer of the adapter keeps, whatever it computes: one battery over a table of them."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from zeropower import MatrixLayout, MuonRecipe
from zeropower.jax import adamw, bitnet_adamw, muon, muon_adamw, scale_by_muon

STACK = MatrixLayout(fan_out=(-1,), fan_in=(-2,))
OPTIMIZERS = {  # of two steps, which compile sooner
    "muon": lambda lr=0.1: muon(lr, weight_decay=0.1, ns_steps=2),
    "muon_adamw": lambda lr=0.1: muon_adamw(lr, 0.1, layouts={"stack": STACK}, muon_args={"steps": 2}),
    "bitnet_adamw": lambda lr=0.1: bitnet_adamw(lr, total_steps=4, clock="parameter"),
    "adamw": lambda lr=0.1: adamw(lr, clip_value=1.0),
}
GRAM = MuonRecipe(method="gram", restarts=(2,))
BARE = {"scale_by_muon": lambda: scale_by_muon(recipe=GRAM, weight_dimension_numbers=STACK)}
every = pytest.mark.parametrize("name", OPTIMIZERS)
every_and_bare = pytest.mark.parametrize("name", [*OPTIMIZERS, *BARE])


def make(name, **arguments):
    return (OPTIMIZERS | BARE)[name](**arguments)


def params(dtype=jnp.float32, seed=0, **extra):
    rng = np.random.default_rng(seed)
    shapes = {"w": (4, 4), "stack": (2, 4, 6), "b": (6,)} | extra
    return {name: jnp.asarray(rng.standard_normal(shape), dtype) for name, shape in shapes.items()}


def fit(name, tree):
    """Muon alone takes no vectors."""
    return {path: leaf for path, leaf in tree.items() if name not in BARE or leaf.ndim > 1}


def assert_near(found, expected, roundings=64):
    """Equal, leaf by leaf, but for the order of float32 operations: 64 roundings are what five steps answer to one."""

    def near(found, expected):
        assert found.dtype == expected.dtype
        found, expected = np.asarray(found, np.float64), np.asarray(expected, np.float64)
        assert np.linalg.norm(found - expected) <= roundings * 2.0**-23 * np.linalg.norm(expected)

    jax.tree.map(near, found, expected)


def dtypes(tree):
    return jax.tree.map(lambda leaf: leaf.dtype, tree)


def floating(tree):
    """Its leaves but the counts."""
    found = [leaf for leaf in jax.tree.leaves(tree) if jnp.issubdtype(leaf.dtype, jnp.floating)]
    assert found
    return found


@every_and_bare
def test_one_trace_serves_every_step_and_the_state_is_donated(name):
    optimizer, values = make(name), fit(name, params())
    assert isinstance(optimizer, optax.GradientTransformationExtraArgs)
    traces = []

    def step(grads, state, values):
        traces.append(1)
        updates, state = optimizer.update(grads, state, values, loss=0.5, nonsense="ignored")
        return optax.apply_updates(values, updates), state

    compiled = jax.jit(step, donate_argnums=(1, 2))
    state = jax.jit(optimizer.init)(values)
    for seed in range(3):
        before = jax.tree.leaves((values, state))
        values, state = compiled(fit(name, params(seed=seed)), state, values)
        assert all(leaf.is_deleted() for leaf in before)
    assert len(traces) == 1
    assert all(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(state))
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(values))


@every_and_bare
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_strict_promotion_dtypes_and_a_scan(name, dtype):
    """The carry of a scan must keep every dtype; 16-bit parameters get 16-bit updates from float32 state."""
    optimizer, values = make(name), fit(name, params(dtype))
    with jax.numpy_dtype_promotion("strict"), jax.numpy_rank_promotion("raise"):

        @jax.jit
        def run(values):
            def step(carry, _):
                values, state = carry
                updates, state = optimizer.update(values, state, values)
                return (optax.apply_updates(values, updates), state), updates

            return jax.lax.scan(step, (values, optimizer.init(values)), length=2)

        (found, state), updates = run(values)
    assert dtypes(found) == dtypes(updates) == dtypes(values)
    assert all(leaf.dtype == jnp.float32 for leaf in floating(state))


@every
def test_a_traced_learning_rate_is_one_trace_and_the_same_update(name):
    values, traces = params(), []

    @jax.jit
    def update(lr, grads, state):
        traces.append(1)
        return make(name, lr=lr).update(grads, state, values)[0]

    grads, state = params(seed=1), make(name).init(values)
    for lr in (0.1, 0.3):
        expected, _ = jax.jit(make(name, lr=lr).update)(grads, state, values)
        found = update(jnp.float32(lr), grads, state)
        assert_near(found, expected)
    assert len(traces) == 1


@every
def test_hyperparameters_can_be_injected(name):
    factory, static, arguments = {
        "muon": (muon, ("ns_steps",), {"ns_steps": 2}),
        "muon_adamw": (muon_adamw, (), {"muon_args": {"steps": 2}}),
        "bitnet_adamw": (bitnet_adamw, ("total_steps", "second_stage_start"), {"total_steps": 4, "clip_norm": 1.0}),
        "adamw": (adamw, (), {"clip_value": 0.5}),
    }[name]
    injected, plain = optax.inject_hyperparams(factory, static_args=static)(0.1, **arguments), factory(0.1, **arguments)
    values, grads = params(), params(seed=1)
    state = injected.init(values)
    state.hyperparams["learning_rate"] = jnp.float32(0.2)
    found, state = jax.jit(injected.update)(grads, state, values)
    expected, _ = jax.jit(plain.update)(grads, plain.init(values), values)
    assert_near(found, jax.tree.map(lambda leaf: 2 * leaf, expected), roundings=2**9)  # a float32 beta_2: 1 - 0.999


@every_and_bare
def test_none_and_masked_leaves_pass(name):
    tree = fit(name, params())
    holed = tree | {"static": None, "other": {"none": None}, "frozen": jnp.arange(3)}
    optimizer = optax.masked(make(name), {path: path != "frozen" for path in holed})
    found = jax.jit(lambda g: optimizer.update(g, optimizer.init(g), g)[0])(holed)
    expected = jax.jit(lambda g: make(name).update(g, make(name).init(g), g)[0])(tree)
    assert found["static"] is None
    assert found["other"] == {"none": None}
    np.testing.assert_array_equal(found["frozen"], holed["frozen"])
    for path in tree:
        np.testing.assert_array_equal(found[path], expected[path])


@every_and_bare
def test_zero_and_empty_and_broken_gradients(name):
    """A zero gradient moves nothing, an empty matrix is no obstacle, and a NaN stays in its matrix, bit for bit."""
    optimizer = make(name)
    values = {path: jnp.zeros_like(leaf) for path, leaf in fit(name, params(empty=(0, 4), flat=(1, 3))).items()}
    update = jax.jit(lambda g: optimizer.update(g, optimizer.init(g), values)[0])
    zero = update(values)
    assert all(not np.asarray(leaf).any() for leaf in jax.tree.leaves(zero))
    assert zero["empty"].shape == (0, 4)
    grads = fit(name, params(empty=(0, 4), flat=(1, 3)))
    whole, broken = update(grads), update(grads | {"stack": grads["stack"].at[0, 1, 2].set(jnp.nan)})
    assert np.isnan(broken["stack"][0]).any()
    np.testing.assert_array_equal(broken["stack"][1], whole["stack"][1])
    for path in ("w", "flat"):
        np.testing.assert_array_equal(broken[path], whole[path])


@pytest.mark.parametrize("name", ["muon_adamw", "muon"])
def test_mu_dtype_overrules(name):
    values = {"w": params()["w"]}
    overruled = {
        "muon": lambda: muon(0.1, mu_dtype="bfloat16"),
        "muon_adamw": lambda: muon_adamw(0.1, muon_args={"mu_dtype": jnp.bfloat16}),
    }
    optimizer = overruled[name]()
    state = optimizer.init(values)
    updates, new = jax.jit(optimizer.update)(values, state, values)
    assert updates["w"].dtype == jnp.float32
    for each in (state, new):
        inner = each.inner if name == "muon_adamw" else each
        assert inner.inner_states["muon"].inner_state[0].mu["w"].dtype == jnp.bfloat16
    assert dtypes(state) == dtypes(new)


@every
def test_schedules_see_the_count_of_updates(name):
    values, grads = params(), params(seed=1)
    constant, scheduled = make(name), make(name, lr=lambda count: jnp.where(count == 1, 0.1, 0.0))
    one, other = constant.init(values), scheduled.init(values)
    update, scheduled_update = jax.jit(constant.update), jax.jit(scheduled.update)
    _, one = update(grads, one, values)
    still, other = scheduled_update(grads, other, values)
    assert not any(np.asarray(leaf).any() for leaf in jax.tree.leaves(still))
    expected, _ = update(grads, one, values)
    found, _ = scheduled_update(grads, other, values)
    assert_near(found, expected)


@every
def test_state_can_be_mapped_like_parameters(name):
    """What sharding by `optax.tree_map_params` needs."""
    optimizer, values = make(name), params()
    state = optax.tree_map_params(optimizer, lambda leaf: leaf + 1, optimizer.init(values))
    assert all((np.asarray(leaf) == 1).all() for leaf in floating(state))


@every
def test_float64_parameters_are_trained_in_float64(name):
    with jax.enable_x64(True):
        optimizer = make(name)
        update = jax.jit(lambda grads, values: optimizer.update(grads, optimizer.init(values), values))
        for dtype in ("float64", "float32"):
            values = params(dtype)
            updates, state = update(values, values)
            assert {leaf.dtype for leaf in floating((updates, state))} == {jnp.dtype(dtype)}
