"""A parameter without a gradient is left alone: its value, its state, its counts."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from zeropower import DIALECTS, IN_OUT, OUT_IN, adamw_step, muon_step
from zeropower.jax import adamw, bitnet_adamw, muon, muon_adamw, scale_by_muon

SHAPES = {"w": (4, 6), "late": (4, 6), "b": (5,), "gain": (3,)}
# who has a gradient at each step
SEEN = [("w", "b"), ("w",), ("w", "late", "gain"), ("b", "late", "gain"), ("w", "late", "b", "gain"), ()]
OPTIMIZERS = {
    "muon_adamw": lambda: muon_adamw(0.1, 0.1, weight_decay_final=0.0, total_steps=6, clip_norm=1.0),
    "muon": lambda: muon(0.1, weight_decay=0.1),
    "bitnet_adamw": lambda: bitnet_adamw(0.1, total_steps=6, clock="parameter", clip_value=0.5),
    "adamw": lambda: adamw(lambda count: 0.1 + 0.1 * count, weight_decay=0.1, clip_norm=1.0),
    "scale_by_muon": scale_by_muon,
}
every = pytest.mark.parametrize("name", OPTIMIZERS)


def arrays(name="adamw", seed=0, dtype=np.float32):
    rng = np.random.default_rng(seed)
    shapes = {path: shape for path, shape in SHAPES.items() if name != "scale_by_muon" or len(shape) == 2}
    return {path: rng.standard_normal(shape).astype(dtype) for path, shape in shapes.items()}


def gradients(name="adamw", dtype=np.float32):
    """Of each step, with None where there is none."""
    for seed, seen in enumerate(SEEN, start=1):
        yield {path: grad if path in seen else None for path, grad in arrays(name, seed, dtype).items()}


def of_leaf(state, path):
    """What a state keeps of a parameter, its count included."""
    kept = []
    for part in jax.tree.leaves(state, is_leaf=lambda node: hasattr(node, "counts")):
        if hasattr(part, "counts") and isinstance(part.mu[path], jax.Array):
            fields = [getattr(part, field) for field in ("mu", "nu") if getattr(part, field, None) is not None]
            buffers = [field[path] for field in fields]
            paths = [key for key, leaf in part.mu.items() if isinstance(leaf, jax.Array)]
            kept += [*buffers, part.counts[sorted(paths).index(path)]]
    assert len(kept) in {2, 3}
    return [np.asarray(leaf) for leaf in kept]


@pytest.mark.original("J1", "B5")
@pytest.mark.parametrize("nesterov", [True, False])
def test_corrections_follow_the_count_of_each_parameter(nesterov, x64, train, core_run, assert_same_run):
    """Adam's, and those of the average that optax corrects: a parameter that starts late starts like any other."""
    dialect = DIALECTS["optax"]
    recipe = replace(dialect.muon, nesterov=nesterov)
    optimizer = muon_adamw(0.1, 0.2, dialect="optax", muon_args={"nesterov": nesterov})
    params, grads = arrays(dtype=np.float64), list(gradients(dtype=np.float64))

    def step(path, param, grad, state, updates, calls):
        rates = {"lr": 0.1, "weight_decay": 0.2, "step": updates}
        if param.ndim == 2:
            return muon_step(param, grad, state, recipe, layout=IN_OUT, **rates)
        return adamw_step(param, grad, state, dialect.adamw, **rates)

    found, state = train(optimizer, params, grads)
    assert_same_run(found, core_run(params, grads, step))
    parts = state.inner.inner_states
    assert parts["muon"].inner_state[0].counts.tolist() == [3, 4]  # late, w
    assert parts["adamw"].inner_state[0].counts.tolist() == [3, 3]  # b, gain
    counts = (state.count, *(parts[name].inner_state[0].count for name in ("muon", "adamw")))
    assert [int(count) for count in counts] == [len(SEEN)] * 3


@pytest.mark.original("J1")
@every
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_nothing_of_it_changes(name, dtype):
    optimizer = OPTIMIZERS[name]()
    values = {path: jnp.asarray(leaf, dtype) for path, leaf in arrays(name).items()}
    state, update = optimizer.init(values), jax.jit(optimizer.update)
    shape_of_state = jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype), state)
    for grads in gradients(name):
        before = state
        given = {path: None if grad is None else jnp.asarray(grad, dtype) for path, grad in grads.items()}
        updates, state = update(given, before, values)
        assert jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype), state) == shape_of_state
        for path, grad in grads.items():
            assert updates[path].dtype == values[path].dtype
            same = all(map(np.array_equal, of_leaf(state, path), of_leaf(before, path)))
            assert same == (grad is None), path
            assert np.asarray(updates[path] != 0).any() == (grad is not None)


@every
def test_the_others_do_as_if_it_were_not_there(name):
    optimizer = OPTIMIZERS[name]()
    values = {path: jnp.asarray(leaf) for path, leaf in arrays(name).items()}
    without = {path: leaf for path, leaf in values.items() if path != "w"}
    whole_state, state = optimizer.init(values), optimizer.init(without)
    for seed in (1, 2):
        grads = {path: jnp.asarray(leaf) for path, leaf in arrays(name, seed).items()}
        found, whole_state = optimizer.update(grads | {"w": None}, whole_state, values)
        expected, state = optimizer.update({path: grads[path] for path in without}, state, without)
        for path in without:
            np.testing.assert_array_equal(found[path], expected[path])


@every
def test_one_trace_for_each_set_of_missing_gradients_and_the_state_is_donated(name):
    optimizer, traces = OPTIMIZERS[name](), []
    values = {path: jnp.asarray(leaf) for path, leaf in arrays(name).items()}

    def step(grads, state, values):
        traces.append(1)
        return optimizer.update(grads, state, values)

    compiled, state = jax.jit(step, donate_argnums=1), jax.jit(optimizer.init)(values)
    for missing in ("w", "late", "w", "late"):
        before = jax.tree.leaves(state)
        grads = {path: None if path == missing else jnp.ones_like(leaf) for path, leaf in values.items()}
        _, state = compiled(grads, state, values)
        assert all(leaf.is_deleted() for leaf in before)
    assert len(traces) == 2


@every
def test_a_missing_gradient_hides_a_broken_parameter(name):
    optimizer = OPTIMIZERS[name]()
    values = {path: jnp.asarray(leaf) for path, leaf in arrays(name).items()}
    broken = values | {"late": jnp.full_like(values["late"], jnp.nan)}
    updates, _ = optimizer.update(values | {"late": None}, optimizer.init(broken), broken)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(updates))


@every
def test_states_of_many_models_at_once(name):
    """`vmap` over stacked parameters: the gradients that are missing are missing for all."""
    optimizer = OPTIMIZERS[name]()
    models = [{path: jnp.asarray(leaf) for path, leaf in arrays(name, seed).items()} for seed in (0, 1)]
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *models)
    state = jax.vmap(optimizer.init)(stacked)
    found, state = jax.jit(jax.vmap(optimizer.update))(stacked | {"late": None}, state, stacked)
    for i, model in enumerate(models):
        expected, _ = jax.jit(optimizer.update)(model | {"late": None}, optimizer.init(model), model)
        for path in model:
            np.testing.assert_allclose(found[path][i], expected[path], rtol=1e-4, atol=1e-6)


def test_a_none_stands_for_a_subtree_and_masks_go_around():
    layer = {"w": jnp.ones((3, 4)), "b": jnp.ones(4)}
    params = {"layer": layer, "gain": jnp.ones(2), "static": None, "off": jnp.ones(2)}
    optimizer = optax.masked(muon_adamw(0.1), {"layer": True, "gain": True, "static": None, "off": False})
    grads = {"layer": None, "gain": jnp.ones(2), "static": None, "off": jnp.ones(2)}
    updates, _ = jax.jit(optimizer.update)(grads, optimizer.init(params), params)
    assert jax.tree.structure(updates) == jax.tree.structure(params)
    assert not np.asarray(updates["layer"]["w"]).any()
    assert not np.asarray(updates["layer"]["b"]).any()
    assert np.asarray(updates["gain"]).all()
    np.testing.assert_array_equal(updates["off"], grads["off"])


@every
def test_without_parameters_it_is_refused(name):
    optimizer = OPTIMIZERS[name]()
    values = {path: jnp.asarray(leaf) for path, leaf in arrays(name).items()}
    with pytest.raises(ValueError, match=r"params=None.*; accepted: update\(grads, state, params\)"):
        optimizer.update(values | {"late": None}, optimizer.init(values))


def test_the_bare_transformation_needs_no_parameters_where_nothing_is_missing():
    values = {"w": jnp.ones((3, 4)), "static": None}
    bare = scale_by_muon(weight_dimension_numbers=OUT_IN)
    updates, state = bare.update(values, bare.init(values))
    assert updates["static"] is None
    assert state.counts.tolist() == [1]
