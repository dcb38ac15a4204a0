"""Changing the import from optax.contrib changes nothing: the trajectory of `muon` against optax's own."""

import inspect

import jax
import jax.numpy as jnp
import numpy as np
import optax
import optax.contrib
import pytest
from optax.contrib import MuonDimensionNumbers

from zeropower import IN_OUT, MatrixLayout
from zeropower.jax import muon, scale_by_muon
from zeropower.jax.routing import declared_views

SHAPES = {"tall": (12, 8), "wide": (6, 10), "stack": (3, 4, 6), "bias": (7,), "scale": ()}
STEPS = 5


def tree(seed, *leading):
    rng = np.random.default_rng(seed)
    return {name: jnp.asarray(rng.standard_normal((*leading, *s)), jnp.float32) for name, s in SHAPES.items()}


PARAMS, GRADS = tree(0), tree(1, STEPS)


def one_ulp_off(grads):
    rng = np.random.default_rng(2)
    return jax.tree.map(lambda g: g * jnp.asarray(1 + rng.choice([-1, 1], g.shape) * 2.0**-23, jnp.float32), grads)


def trajectory(optimizer):
    """A function from gradients to the parameters after each step."""

    def step(carry, grads):
        params, state = carry
        updates, state = optimizer.update(grads, state, params)
        params = optax.apply_updates(params, updates)
        return (params, state), params

    return jax.jit(lambda grads: jax.lax.scan(step, (PARAMS, optimizer.init(PARAMS)), grads)[1])


def distances(one, other):
    """How far apart two trajectories are, leaf by leaf, in units of the way from the start."""
    return {
        name: float(jnp.linalg.norm(one[name] - other[name]) / jnp.linalg.norm(one[name] - PARAMS[name]))
        for name in PARAMS
    }


def assert_same_trajectory(arguments, b2=0.999):
    theirs, ours = trajectory(optax.contrib.muon(**arguments)), trajectory(muon(**arguments))
    found, expected = ours(GRADS), theirs(GRADS)
    response = distances(expected, theirs(one_ulp_off(GRADS)))
    # Adam: optax takes 1 - b2^t in float32, which is wrong by a roundoff in 1 - b2 at t = 1
    adams = 2.0**-24 / (1 - b2)
    for name, distance in distances(expected, found).items():
        rounding = 2.0**-23 * float(jnp.linalg.norm(PARAMS[name]) / jnp.linalg.norm(expected[name] - PARAMS[name]))
        assert distance <= 4 * response[name] + 4 * rounding + adams * (PARAMS[name].ndim != 2), name
        assert response[name] < 1e-3, "the comparison says nothing"


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"nesterov": False, "consistent_rms": 0.3},
        {"adaptive": True, "preconditioning": "aol"},
        {"ns_coeffs": "dion", "preconditioning": "schatten"},
        {"ns_coeffs": ((2.0, -1.5, 0.5), (3.4445, -4.775, 2.0315)), "ns_steps": 4, "beta": 0.8, "eps": 0.5},
        {
            "weight_decay": 0.1,
            "weight_decay_mask": lambda params: jax.tree.map(lambda p: p.shape[-1:] != (10,), params),
            "adam_weight_decay": 0.3,
            "adam_b1": 0.5,
            "adam_eps_root": 1e-3,
            "adam_learning_rate": lambda count: 0.1 / (1 + count),
        },
    ],
    ids=lambda arguments: "-".join(arguments) or "defaults",
)
def test_the_trajectory_is_that_of_optax(arguments):
    assert_same_trajectory({"learning_rate": lambda count: 0.1 - 0.01 * count} | arguments)


def dims_of(params):
    axes = {"tall": MuonDimensionNumbers(1, 0), "wide": None, "stack": MuonDimensionNumbers((0, 2), 1)}
    return {n: axes.get(n, MuonDimensionNumbers() if jnp.ndim(p) == 2 else None) for n, p in params.items()}


def test_dimension_numbers_are_those_of_optax():
    arguments = {"learning_rate": 0.1, "weight_decay": 0.1}
    theirs = trajectory(optax.contrib.muon(**arguments, muon_weight_dimension_numbers=dims_of(PARAMS)))
    ours = trajectory(muon(**arguments, muon_weight_dimension_numbers=dims_of))  # it sees no masked leaf
    expected = theirs(GRADS)
    response, found = distances(expected, theirs(one_ulp_off(GRADS))), distances(expected, ours(GRADS))
    assert all(found[name] <= 4 * response[name] + 1e-6 for name in ("tall", "stack"))
    assert all(found[name] <= 2.0**-24 / 1e-3 for name in ("wide", "bias", "scale"))  # Adam's, as above


def test_dimension_numbers_may_be_a_tree_a_function_or_layouts():
    dims = dims_of(PARAMS)
    layouts = {name: None if d is None else layout_of(d) for name, d in dims.items()}
    for spelled in (dims, dims_of, layouts, lambda params: layouts):
        assert declared_views(spelled, argument="dims")(PARAMS) == layouts


def layout_of(dims):
    fan_out, fan_in = ((a,) if isinstance(a, int) else a for a in (dims.output_axis, dims.reduction_axis))
    return MatrixLayout(fan_out=fan_out, fan_in=fan_in)


def test_arguments_are_those_of_optax():
    def described(function):
        return [(p.name, p.kind, p.default) for p in inspect.signature(function).parameters.values()]

    assert described(muon) == described(optax.contrib.muon)
    assert described(scale_by_muon)[:9] == described(optax.contrib.scale_by_muon)


def test_the_documented_preset_name_works():
    found, expected = (scale_by_muon(ns_coeffs=name) for name in ("muon", "standard"))
    grads = {"w": GRADS["tall"][0]}
    found, expected = (s.update(grads, s.init(grads))[0]["w"] for s in (found, expected))
    np.testing.assert_array_equal(found, expected)


def test_what_is_under_a_prefix_shares_its_dimension_numbers():
    params = {"a": {"x": jnp.ones((2, 3)), "y": jnp.ones((4, 5))}, "b": jnp.ones((2, 2))}
    dims = {"a": MuonDimensionNumbers(), "b": None}
    state = muon(0.1, muon_weight_dimension_numbers=dims).init(params)
    assert {p.shape for p in jax.tree.leaves(state.inner_states["muon"].inner_state[0].mu)} == {(2, 3), (4, 5)}
    assert {p.shape for p in jax.tree.leaves(state.inner_states["adam"].inner_state[0].nu)} == {(2, 2)}


# what loses training in optax 0.2.8, and does not here


@pytest.mark.parametrize("preconditioning", ["frobenius", "aol", "schatten"])
def test_float16_neither_overflows_nor_divides_by_zero(preconditioning):
    optimizer = muon(0.1, preconditioning=preconditioning)
    params = {"w": jnp.zeros((30, 40), jnp.float16)}
    update = jax.jit(optimizer.update)
    rng = np.random.default_rng(0)
    grads = rng.standard_normal((30, 40))
    directions = {}
    for scale in (0.0, 1e-3, 1e4):
        updates, _ = update({"w": jnp.asarray(scale * grads, jnp.float16)}, optimizer.init(params), params)
        assert updates["w"].dtype == jnp.float16
        directions[scale] = np.asarray(updates["w"], np.float64)
    assert not directions[0.0].any()
    norm = np.linalg.norm(directions[1e-3])
    assert np.linalg.norm(directions[1e4]) == pytest.approx(norm, rel=0.01)  # float16 gradients are 5e-4 apart
    assert norm > 0.1 * 0.5 * np.sqrt(30)  # thirty singular values near one


def test_small_gradients_are_not_stalled_by_a_floor():
    """optax clips the preconditioner at 1e-8, which an update of 1e-6 gradients does not survive."""
    optimizer = scale_by_muon(preconditioning="schatten")
    grads = {"w": GRADS["tall"][0]}
    tiny = {"w": 2.0**-30 * grads["w"]}
    found, expected = (optimizer.update(g, optimizer.init(g))[0]["w"] for g in (tiny, grads))
    assert float(jnp.linalg.norm(found - expected) / jnp.linalg.norm(expected)) < 1e-4


def test_moments_of_bfloat16_parameters_decay():
    """bf16(0.999) is 1: a second moment kept in bf16 never forgets."""
    optimizer = muon(0.1)
    params = {"b": jnp.ones(3, jnp.bfloat16)}

    def step(state, grads):
        return optimizer.update(grads, state, params)[1], None

    grads = {"b": jnp.zeros((1000, 3), jnp.bfloat16).at[0].set(1)}
    state = jax.jit(lambda: jax.lax.scan(step, optimizer.init(params), grads)[0])()
    nu = state.inner_states["adam"].inner_state[0].nu["b"]
    np.testing.assert_allclose(nu, 1e-3 * 0.999**999, rtol=1e-3)


def test_a_table_longer_than_the_steps_is_refused_and_a_shorter_one_decides():
    with pytest.raises(ValueError, match=r"ns_steps=3 is less than the 5 triples of ns_coeffs; accepted: at least 5"):
        muon(0.1, ns_coeffs="dion", ns_steps=3)
    grads = {"w": GRADS["tall"][0]}
    one, other = (scale_by_muon(ns_coeffs="dion", ns_steps=steps) for steps in (5, 9))
    np.testing.assert_array_equal(*(s.update(grads, s.init(grads))[0]["w"] for s in (one, other)))


def test_in_out_is_the_default_view():
    grads = {"w": GRADS["wide"][0]}
    default, given = muon(0.1), muon(0.1, muon_weight_dimension_numbers=IN_OUT)
    np.testing.assert_array_equal(*(o.update(grads, o.init(grads), grads)[0]["w"] for o in (default, given)))
