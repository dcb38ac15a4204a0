"""What each half of the hybrid computes: learning rates, decay, dialects, overruled recipes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from zeropower import DIALECTS, IN_OUT, MuonRecipe, Rule, adamw_step, muon_step
from zeropower.jax import muon_adamw, scale_by_muon

NORMAL = np.random.default_rng(0).standard_normal
# a matrix that every dialect gives to Muon, and a vector
PARAMS = {"in_proj": jnp.asarray(NORMAL((4, 4)), jnp.float32), "b": jnp.asarray(NORMAL(5), jnp.float32)}
GRADS = {"in_proj": jnp.asarray(NORMAL((4, 4)), jnp.float32), "b": jnp.asarray(NORMAL(5), jnp.float32)}
FLOAT32 = {"compute_dtype": "float32"}  # a difference that the tests can see


def new_params(optimizer, steps=1):
    def run():
        params, state = PARAMS, optimizer.init(PARAMS)
        for _ in range(steps):
            updates, state = optimizer.update(GRADS, state, params)
            params = jax.tree.map(jnp.add, params, updates)
        return params

    return jax.jit(run)()


def expected_params(dialect, *, lr, decay=None, adamw_lr=None, adamw_decay=None, muon=None, steps=1):
    """The core's steps on numpy arrays."""
    chosen = DIALECTS[dialect]
    params, states = {name: np.asarray(leaf) for name, leaf in PARAMS.items()}, {"in_proj": None, "b": None}
    grads = {name: np.asarray(leaf) for name, leaf in GRADS.items()}
    if decay is None:
        decay, adamw_decay = chosen.weight_decay, chosen.adamw_weight_decay
    adamw_rates = {
        "lr": lr * chosen.adamw_lr_ratio if adamw_lr is None else adamw_lr,
        "weight_decay": decay if adamw_decay is None else adamw_decay,
    }
    for step in range(1, steps + 1):
        params["in_proj"], states["in_proj"] = muon_step(
            params["in_proj"],
            grads["in_proj"],
            states["in_proj"],
            muon or chosen.muon,
            lr=lr,
            weight_decay=decay,
            step=step,
            layout=chosen.layout.at(2) if chosen.layout else IN_OUT,
            compute_dtype=np.dtype("float32"),
        )
        params["b"], states["b"] = adamw_step(
            params["b"], grads["b"], states["b"], chosen.adamw, step=step, **adamw_rates
        )
    return params


def assert_near(found, expected):
    for name in expected:
        assert np.linalg.norm(found[name] - expected[name]) <= 32 * 2.0**-24 * np.linalg.norm(expected[name])


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.filterwarnings("ignore:the dialect reproduces an unsound recipe")
def test_a_dialect_is_its_recipes_and_its_decay(dialect):
    found = new_params(muon_adamw(0.1, dialect=dialect, muon_args=FLOAT32), steps=2)
    assert_near(found, expected_params(dialect, lr=0.1, steps=2))


@pytest.mark.parametrize("adamw_lr", [0.02, lambda count: 0.02 + 0 * count, None], ids=["number", "schedule", "none"])
def test_adamw_has_its_own_rates(adamw_lr):
    optimizer = muon_adamw(0.1, 0.3, adamw_args={"learning_rate": adamw_lr, "weight_decay": 0.0}, muon_args=FLOAT32)
    adamw_lr = None if adamw_lr is None else 0.02
    assert_near(
        new_params(optimizer), expected_params("zeropower", lr=0.1, decay=0.3, adamw_lr=adamw_lr, adamw_decay=0.0)
    )


def test_arguments_overrule_the_dialect():
    changed = {"momentum": 0.5, "nesterov": False, "steps": 3, "scale": "none"}
    found = new_params(muon_adamw(0.1, 0.0, muon_args=changed | FLOAT32), steps=2)
    assert_near(found, expected_params("zeropower", lr=0.1, decay=0.0, muon=MuonRecipe(**changed), steps=2))


def test_weight_decay_may_be_a_schedule():
    found = new_params(muon_adamw(0.1, lambda count: 0.5 - 0.5 * count, muon_args=FLOAT32))
    assert_near(found, expected_params("zeropower", lr=0.1, decay=0.5))


def test_adamw_args_reach_adamw():
    rates = {"b1": 0.5, "b2": 0.5, "eps": 10.0}
    everything = (Rule(optimizer="adamw", reason="all"),)
    optimizer = muon_adamw(0.1, 0.0, rules=everything, adamw_args=rates)
    grad = np.asarray(GRADS["b"], np.float64)  # at the first step the corrections undo the decays
    np.testing.assert_allclose(
        new_params(optimizer)["b"] - PARAMS["b"], -0.1 * grad / (np.abs(grad) + 10), rtol=1e-4, atol=1e-6
    )


def test_the_bare_transformation_gives_the_directions_of_the_hybrid():
    recipe = MuonRecipe(compute_dtype="float32")
    bare = scale_by_muon(recipe=recipe)
    grads, params = {"in_proj": GRADS["in_proj"]}, {"in_proj": PARAMS["in_proj"]}
    directions, state = jax.jit(bare.update)(grads, bare.init(params), params)
    hybrid = muon_adamw(0.1, 0.0, muon_args=FLOAT32)
    updates, _ = jax.jit(hybrid.update)(grads, hybrid.init(params), params)
    np.testing.assert_allclose(-0.1 * directions["in_proj"], updates["in_proj"], rtol=1e-5)
    assert int(state.count) == 1


def test_the_scale_of_a_gradient_does_not_matter():
    optimizer = muon_adamw(0.1, 0.0, muon_args=FLOAT32)
    update = jax.jit(lambda g: optimizer.update(g, optimizer.init(g), PARAMS)[0]["in_proj"])
    expected = update(GRADS)
    for factor in (2.0**-100, 2.0**60):
        np.testing.assert_array_equal(update({name: factor * leaf for name, leaf in GRADS.items()}), expected)
