"""AdamW against the core and optax, and clipping of each gradient alone in all that have it."""

import inspect

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from zeropower import IN_OUT, AdamWRecipe, MuonRecipe, adamw_step, muon_step
from zeropower.jax import AdamWState, BitNetAdamWState, MuonAdamWState, adamw, bitnet_adamw, muon, muon_adamw

RNG = np.random.default_rng(0)
SHAPES = {"w": (4, 6), "b": (5,), "gain": ()}
PARAMS = {path: RNG.standard_normal(shape) for path, shape in SHAPES.items()}
# of norms far apart, so that a clip by norm meets some of them
GRADS = [{path: 4.0 ** (2 - call) * RNG.standard_normal(shape) for path, shape in SHAPES.items()} for call in range(4)]


# ---- adamw ---------------------------------------------------------------------------------------------------------


def test_it_moves_as_the_core_says(x64, train, core_run, assert_same_run):
    found, _ = train(adamw(lambda count: 0.1 / (1 + count), 0.8, 0.99, 1e-3, 0.3), PARAMS, GRADS)
    recipe = AdamWRecipe(beta_1=0.8, beta_2=0.99, eps=1e-3)

    def step(path, param, grad, state, updates, calls):
        return adamw_step(param, grad, state, recipe, lr=0.1 / calls, weight_decay=0.3, step=updates)

    assert_same_run(found, core_run(PARAMS, GRADS, step))


@pytest.mark.original("B7")
@pytest.mark.parametrize(
    "arguments",
    [{}, {"weight_decay": lambda count: 0.1 * count, "mask": {"w": True, "b": False, "gain": False}}],
    ids=["defaults", "scheduled and masked"],
)
def test_it_is_that_of_optax(arguments, x64, train, assert_same_run):
    """In float64, where optax's own bias corrections are exact enough."""
    (ours, _), (theirs, _) = (train(make(0.1, **arguments), PARAMS, GRADS) for make in (adamw, optax.adamw))
    assert_same_run(ours, theirs, rtol=1e-9)


def test_its_defaults_are_those_of_optax():
    ours, theirs = (inspect.signature(make).parameters for make in (adamw, optax.adamw))
    shared = [name for name in ours if name in theirs]
    assert shared == ["learning_rate", "b1", "b2", "eps", "weight_decay", "mask"]
    assert all(ours[name].default == theirs[name].default for name in shared)


def test_moments_of_bfloat16_parameters_are_float32():
    values = {"b": jnp.ones(3, jnp.bfloat16)}
    optimizer = adamw(0.1)
    updates, state = optimizer.update(values, optimizer.init(values), values)
    assert updates["b"].dtype == jnp.bfloat16
    moments = state.inner[0]
    assert (moments.mu["b"].dtype, moments.nu["b"].dtype) == (jnp.float32, jnp.float32)


@pytest.mark.parametrize(
    ("build", "kind"),
    [
        (lambda: adamw(0.1), AdamWState),
        (lambda: bitnet_adamw(0.1, total_steps=3), BitNetAdamWState),
        (lambda: muon_adamw(0.1), MuonAdamWState),
    ],
)
def test_a_state_tells_its_kind_and_counts(build, kind):
    optimizer = build()
    values = {"w": jnp.ones((3, 4)), "b": jnp.ones(3)}
    state = jax.jit(optimizer.init)(values)
    for calls in range(3):
        assert type(state) is kind
        assert (state.count.shape, state.count.dtype, int(state.count)) == ((), jnp.int32, calls)
        assert all(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(state))
        _, state = jax.jit(optimizer.update)(values, state, values)
    assert state.inner is optax.tree.get(state, "inner")


def test_muon_keeps_the_shape_of_optax_s_state():
    values = {"w": jnp.ones((3, 4)), "b": jnp.ones(3)}
    ours, theirs = (make(0.1, weight_decay=0.1).init(values) for make in (muon, optax.contrib.muon))
    assert type(ours) is type(theirs)
    assert ours.inner_states.keys() == theirs.inner_states.keys()
    for name in ours.inner_states:
        one, other = (state.inner_states[name].inner_state[0] for state in (ours, theirs))
        assert {*one._fields} >= {*other._fields} & {"count", "mu", "nu"}
        assert one.counts.tolist() == [0]


# ---- clipping ------------------------------------------------------------------------------------------------------

CLIPS = {
    "norm": ({"clip_norm": 1.0}, lambda g: g * min(1.0 / (np.sqrt(np.sum(g * g)) + 1e-6), 1.0)),
    "value": ({"clip_value": 0.25}, lambda g: np.clip(g, -0.25, 0.25)),
}
CLIPPING = {
    "adamw": (lambda **clip: adamw(0.1, weight_decay=0.2, **clip), AdamWRecipe(beta_2=0.999)),
    "bitnet_adamw": (
        lambda **clip: bitnet_adamw(0.1, weight_decay=0.2, weight_decay_final=0.2, total_steps=9, **clip),
        AdamWRecipe(),
    ),
    "muon_adamw": (lambda **clip: muon_adamw(0.1, 0.2, **clip), AdamWRecipe()),
}


@pytest.mark.original("I1", "I2", "I3")
@pytest.mark.parametrize("clip", CLIPS)
@pytest.mark.parametrize("name", CLIPPING)
def test_each_gradient_is_clipped_alone_before_the_moments(name, clip, x64, train, core_run, assert_same_run):
    (build, recipe), (options, formula) = CLIPPING[name], CLIPS[clip]

    def step(path, param, grad, state, updates, calls):
        rates = {"lr": 0.1, "weight_decay": 0.2, "step": updates}
        if name == "muon_adamw" and path == "w":
            return muon_step(param, formula(grad), state, MuonRecipe(), layout=IN_OUT, **rates)
        return adamw_step(param, formula(grad), state, recipe, **rates)

    found, _ = train(build(**options), PARAMS, GRADS)
    assert_same_run(found, core_run(PARAMS, GRADS, step), rtol=1e-9)
    unclipped, _ = train(build(), PARAMS, GRADS)
    assert all(np.abs(found[-1][path] - unclipped[-1][path]).max() > 1e-4 for path in SHAPES)


@pytest.mark.original("I7")
def test_a_clip_does_not_turn_muon_s_first_direction(x64, train, assert_same_run):
    clipped, free = (
        train(muon_adamw(0.1, 0.0, **clip), {"w": PARAMS["w"]}, [{"w": GRADS[0]["w"]}])[0]
        for clip in ({"clip_norm": 0.125}, {})
    )
    assert_same_run(clipped, free)


@pytest.mark.parametrize("name", CLIPPING)
def test_a_clip_may_be_injected(name):
    """One trace serves every number."""
    factory, static, arguments = {
        "adamw": (adamw, (), {}),
        "bitnet_adamw": (bitnet_adamw, ("total_steps", "second_stage_start"), {"total_steps": 3}),
        "muon_adamw": (muon_adamw, (), {"muon_args": {"steps": 2}}),
    }[name]
    injected = optax.inject_hyperparams(factory, static_args=static)(0.1, **arguments, clip_norm=1.0)
    values = {"w": jnp.ones((3, 4)), "b": jnp.full(3, 2.0)}
    state, traces = injected.init(values), []

    @jax.jit
    def update(state):
        traces.append(1)
        return injected.update(values, state, values)[1].inner_state

    for bound in (1.0, 0.5):
        state.hyperparams["clip_norm"] = jnp.float32(bound)
        plain = factory(0.1, **arguments, clip_norm=bound)
        _, expected = plain.update(values, plain.init(values), values)
        for one, other in zip(jax.tree.leaves(update(state)), jax.tree.leaves(expected), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-4)
    assert len(traces) == 1


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_gradients_of_16_bits_are_clipped_in_float32(dtype):
    """Their squares would overflow float16."""
    values = {"b": jnp.full(64, 1000.0, dtype)}
    optimizer = adamw(0.1, b1=0.0, clip_norm=1.0)
    _, state = optimizer.update(values, optimizer.init(values), values)
    np.testing.assert_allclose(state.inner[0].mu["b"], 1 / 8, rtol=2.0**-8)


@pytest.mark.original("I5")
@pytest.mark.parametrize("name", CLIPPING)
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"clip_norm": 1.0, "clip_value": 1.0}, "clip_norm=1.0 and clip_value=1.0 are mutually exclusive; accepted: "),
        ({"clip_norm": 0.0}, r"clip_norm=0.0 is out of range; accepted: a finite number in \(0.0, inf\)"),
        ({"clip_value": float("nan")}, "clip_value=nan is out of range; accepted: "),
        ({"clip_value": "much"}, "clip_value='much' is not a number"),
    ],
)
def test_bad_clips_are_refused_at_construction(name, options, message):
    with pytest.raises((ValueError, TypeError), match=f"^{message}"):
        CLIPPING[name][0](**options)


def test_a_gradient_that_cannot_be_clipped_is_named():
    optimizer = muon_adamw(0.1, clip_norm=1.0)
    state = optimizer.init({"w": jnp.ones((2, 3))})
    with pytest.raises(TypeError, match=r"^'w' has dtype complex64; accepted: real floating"):
        optimizer.update({"w": jnp.ones((2, 3), jnp.complex64)}, state, {"w": jnp.ones((2, 3))})
