"""Dialects in jax: schedules, missing gradients, records, masks of decay."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from zeropower import DIALECTS, IN_OUT, Decay, MuonRecipe, SecondMoment, muon_step
from zeropower.conformance.tolerances import tensor_error
from zeropower.jax import load_record, muon_adamw, to_record
from zeropower.jax.decay import TwoStages, ruled

FLOAT32 = {"compute_dtype": "float32"}
AGREES = 1e-5  # of a parameter, after a few steps in float32; measured: 1e-6


def problem():
    random = np.random.default_rng(0)
    shapes = {"kernel": (6, 10), "other": (10, 6), "bias": (5,)}
    trees = [{n: jnp.asarray(random.standard_normal(s), jnp.float32) for n, s in shapes.items()} for _ in range(5)]
    return trees[0], trees[1:]


def train(optimizer, params, state, grads):
    update = jax.jit(optimizer.update)
    for step in grads:
        updates, state = update(step, state, params)
        params = optax.apply_updates(params, updates)
    return params, state


def test_a_learning_rate_may_be_a_schedule_where_the_decay_squares_it():
    def rate(count):
        return 0.1 / (1.0 + count)

    params, grads = problem()
    optimizer = muon_adamw(rate, 0.5, dialect="modded-nanogpt", muon_args=FLOAT32)
    found, _ = train(optimizer, params, optimizer.init(params), grads)
    param, state = np.asarray(params["kernel"]), None
    for t, step in enumerate(grads):
        recipe = DIALECTS["modded-nanogpt"].muon
        options = {"lr": rate(t), "weight_decay": 0.5, "layout": IN_OUT, "compute_dtype": "float32"}
        param, state = muon_step(param, np.asarray(step["kernel"]), state, recipe, step=t + 1, **options)
    assert tensor_error(np.asarray(found["kernel"]), param) <= AGREES


def test_the_momentum_may_be_a_schedule():
    momenta = jnp.asarray([0.85, 0.9, 0.95, 0.5])
    params, grads = problem()
    arguments = {"momentum": lambda count: momenta[count], **FLOAT32}
    optimizer = muon_adamw(0.1, 0.0, dialect="keller", muon_args=arguments)
    found, _ = train(optimizer, params, optimizer.init(params), grads)
    param, state = np.asarray(params["kernel"]), None
    for beta, step in zip(np.asarray(momenta), grads, strict=True):
        options = {"lr": 0.1, "momentum": float(beta), "layout": IN_OUT, "compute_dtype": "float32"}
        param, state = muon_step(param, np.asarray(step["kernel"]), state, DIALECTS["keller"].muon, **options)
    assert tensor_error(np.asarray(found["kernel"]), param) <= AGREES


@pytest.mark.parametrize("name", ["normuon", "modded-nanogpt", "timm-adamuon"])
def test_a_missing_gradient_leaves_parameter_and_state_alone(name):
    params, grads = problem()
    optimizer = muon_adamw(0.1, 0.5, dialect=name, muon_args=FLOAT32)
    params, state = train(optimizer, params, optimizer.init(params), grads[:1])
    updates, after = optimizer.update({**grads[1], "kernel": None}, state, params)
    assert not np.asarray(updates["kernel"]).any()
    assert np.asarray(updates["other"]).any()
    before, later = (to_record(each, params).entries for each in (state, after))
    assert before["kernel"].updates == later["kernel"].updates == 1
    assert later["other"].updates == 2
    for key, value in before["kernel"].arrays.items():
        assert np.array_equal(value, later["kernel"].arrays[key])


@pytest.mark.parametrize("name", ["normuon", "modded-nanogpt", "timm-adamuon", "heavyball"])
def test_a_run_goes_on_from_a_record(name):
    params, grads = problem()
    optimizer = muon_adamw(0.1, dialect=name, muon_args=FLOAT32)
    whole, _ = train(optimizer, params, optimizer.init(params), grads)
    half, state = train(optimizer, params, optimizer.init(params), grads[:2])
    loaded = load_record(to_record(state, half), optimizer.init(half), half)
    found, _ = train(optimizer, half, loaded, grads[2:])
    assert all(np.array_equal(found[path], whole[path]) for path in whole)


def directions():
    return optax.GradientTransformationExtraArgs(
        lambda params: (), lambda updates, state, params=None, **extra: (updates, state)
    )


@pytest.mark.parametrize(
    "mask", [{"a": True, "b": False}, lambda params: {"a": True, "b": False}], ids=["tree", "call"]
)
def test_a_mask_of_parameters_holds_for_every_rule(mask):
    params = {"a": jnp.ones(3), "b": jnp.ones(3)}
    grads = {"a": -jnp.ones(3), "b": -jnp.ones(3)}
    for rule, lost in ((Decay(decay_rate="independent"), 0.5), (Decay(decay_rate="lr_squared"), 0.005)):
        transformation = ruled(directions(), rule, 0.1, 0.5, mask=mask)
        updates, _ = transformation.update(grads, transformation.init(params), params)
        np.testing.assert_allclose(updates["a"], 0.1 - lost, rtol=1e-5)
        np.testing.assert_allclose(updates["b"], 0.1, rtol=1e-6)


def test_a_rule_and_two_stages_go_together():
    recipe = MuonRecipe(decay="after", second_moment=SecondMoment())
    params, grads = problem()
    optimizer = muon_adamw(
        0.1,
        0.5,
        dialect="zeropower",
        muon_args={**FLOAT32, "decay": "after", "second_moment": SecondMoment()},
        weight_decay_final=0.0,
        total_steps=4,
    )
    found, _ = train(optimizer, params, optimizer.init(params), grads)
    stages = TwoStages(0.5, 0.0, 0.5, 4, "global")
    param, state = np.asarray(params["kernel"]), None
    for t, step in enumerate(grads, start=1):
        decay = float(stages.at(jnp.asarray(t, jnp.int32)))
        options = {"lr": 0.1, "weight_decay": decay, "layout": IN_OUT, "compute_dtype": "float32"}
        param, state = muon_step(param, np.asarray(step["kernel"]), state, recipe, **options)
    assert tensor_error(np.asarray(found["kernel"]), param) <= AGREES
