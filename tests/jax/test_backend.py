"""The record that the conformance suite takes, and its driver against the core's own steps."""

import jax.numpy as jnp
import numpy as np
import pytest

from zeropower import DIALECTS, AdamWRecipe, Backend, MuonRecipe, adamw_step, muon_step, route_params
from zeropower.jax.backend import BACKEND

LR, DECAY = (0.1, 0.05, 0.02), 0.1
SHAPES = {"w": (6, 10), "tall": (10, 6), "head": (4, 6), "b": (6,)}


def arrays(seed, names):
    rng = np.random.default_rng(seed)
    return {name: rng.standard_normal(SHAPES[name]).astype(np.float32) for name in names}


def core_run(params, grads, plan, muon, adamw):
    """The core's steps on numpy arrays."""
    states = dict.fromkeys(params)
    for step, (lr, step_grads) in enumerate(zip(LR, grads, strict=True), start=1):
        for name, grad in step_grads.items():
            rates = {"lr": lr, "weight_decay": DECAY, "step": step}
            if plan[name] == "muon":
                params[name], states[name] = muon_step(params[name], grad, states[name], muon, **rates)
            else:
                params[name], states[name] = adamw_step(params[name], grad, states[name], adamw, **rates)
    return params


@pytest.mark.parametrize("kind", ["muon", "adamw", "muon_adamw"])
def test_the_driver_agrees_with_the_core(kind):
    names = [name for name in SHAPES if kind != "muon" or len(SHAPES[name]) > 1]
    params, grads = arrays(0, names), [arrays(seed, names) for seed in (1, 2, 3)]
    muon = MuonRecipe(momentum_form="heavy_ball", momentum=0.8, scale="original", restarts=(2,))
    adamw = AdamWRecipe(beta_1=0.8, eps=1e-3) if kind == "adamw" else DIALECTS["zeropower"].adamw
    routes = {name: route.optimizer for name, route in route_params(params).items()}
    plan = routes if kind == "muon_adamw" else dict.fromkeys(names, kind)
    found = BACKEND.optimizer(
        params, iter(grads), kind=kind, recipe=adamw if kind == "adamw" else muon, lr=LR, weight_decay=DECAY
    )
    expected = core_run(dict(params), grads, plan, muon, adamw)
    assert set(found) == set(names)
    for name in names:
        assert found[name].dtype == np.float32
        assert np.linalg.norm(found[name] - expected[name]) <= 64 * 2.0**-24 * np.linalg.norm(expected[name])
        assert np.linalg.norm(found[name] - params[name]) > 0.01
        np.testing.assert_array_equal(params[name], arrays(0, names)[name])  # never written


def test_the_driver_refuses_other_kinds():
    with pytest.raises(ValueError, match=r"kind='sgd' is not known; accepted: 'muon', 'adamw', 'muon_adamw'"):
        BACKEND.optimizer({}, [], kind="sgd", recipe=AdamWRecipe(), lr=[], weight_decay=0.0)


def test_the_record():
    assert isinstance(BACKEND, Backend)
    assert BACKEND.name == "jax"
    assert set(BACKEND.kernels) == {"generic", "jax"}
    assert set(BACKEND.transforms) == {"eager", "jit"}
    assert BACKEND.namespace() is jnp
    assert "float64" not in BACKEND.dtypes  # jax has it where jax_enable_x64 is on


@pytest.mark.parametrize("dtype", BACKEND.dtypes)
def test_arrays_go_there_and_back(dtype):
    array = np.asarray([[1.0, -2.5], [0.0, 0.125]], np.float32)
    there = BACKEND.from_numpy(array, dtype)
    assert there.dtype == jnp.dtype(dtype)
    back = BACKEND.to_numpy(there)
    assert back.dtype == np.float32
    np.testing.assert_array_equal(back, array)
