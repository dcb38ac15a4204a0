"""Decay in two stages: its clocks, its mask, and each part of the hybrid for itself."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from zeropower import IN_OUT, AdamWRecipe, MuonRecipe, adamw_step, muon_step, weight_decay_for_step
from zeropower.jax import bitnet_adamw, muon_adamw

RNG = np.random.default_rng(0)
TOTAL, LR = 6, 0.1
PARAMS = {"w": RNG.standard_normal((4, 6)), "b": RNG.standard_normal(5), "late": RNG.standard_normal(5)}
GRADS = [
    {path: None if path == "late" and call < 3 else RNG.standard_normal(leaf.shape) for path, leaf in PARAMS.items()}
    for call in range(1, TOTAL + 2)
]
TWO = {"weight_decay_final": 0.02, "total_steps": TOTAL}


def decay_at(step, *, initial=0.5, final=0.02, start=0.5, total=TOTAL):
    return weight_decay_for_step(initial, final, start, total, step)


def core_step(*, muon_decay, adamw_decay):
    """A step of the core; decays are functions of a parameter's own updates and of the calls."""

    def step(path, param, grad, state, updates, calls):
        rates = {"lr": LR, "step": updates}
        if path == "w" and muon_decay is not None:
            decay = muon_decay(updates, calls)
            return muon_step(param, grad, state, MuonRecipe(), weight_decay=decay, layout=IN_OUT, **rates)
        return adamw_step(param, grad, state, AdamWRecipe(), weight_decay=adamw_decay(updates, calls), **rates)

    return step


def own(updates, calls):
    return decay_at(updates)


def shared(updates, calls):
    return decay_at(calls)


def constant(updates, calls):
    return 0.5


@pytest.mark.original("R1", "B4", "B5")
@pytest.mark.parametrize(("clock", "decay"), [("global", shared), ("parameter", own)])
def test_a_parameter_that_comes_late(clock, decay, x64, train, core_run, assert_same_run):
    """By the global clock it is as far as the others; by its own, its first stage starts with its first gradient."""
    found, _ = train(bitnet_adamw(LR, weight_decay=0.5, clock=clock, **TWO), PARAMS, GRADS)
    step = core_step(muon_decay=None, adamw_decay=decay)
    assert_same_run(found, core_run(PARAMS, GRADS, step))


def test_the_clocks_differ(x64, train):
    ends = [train(bitnet_adamw(LR, clock=clock, **TWO), PARAMS, GRADS)[0][-1] for clock in ("global", "parameter")]
    np.testing.assert_array_equal(ends[0]["b"], ends[1]["b"])
    assert np.abs(ends[0]["late"] - ends[1]["late"]).max() > 1e-3


@pytest.mark.original("R1", "G4")
@pytest.mark.parametrize(
    ("options", "muon_decay", "adamw_decay"),
    [
        (TWO, shared, shared),
        (TWO | {"clock": "parameter"}, own, own),
        (TWO | {"adamw_args": {"clock": "parameter"}}, shared, own),
        ({"muon_args": TWO}, shared, constant),
        ({"adamw_args": TWO}, constant, shared),
        ({"adamw_args": TWO | {"second_stage_start": 0.0}}, constant, lambda _, calls: decay_at(calls, start=0.0)),
        (TWO | {"adamw_args": {"weight_decay": 0.1}}, shared, lambda _, calls: decay_at(calls, initial=0.1)),
        (TWO | {"muon_args": {"total_steps": 4}}, lambda _, calls: decay_at(calls, total=4), shared),
        ({"total_steps": TOTAL, "second_stage_start": 7.0, "clock": "parameter"}, constant, constant),
    ],
    ids=["both", "own clocks", "one own clock", "muon", "adamw", "start", "adamw's decay", "muon's steps", "neither"],
)
def test_each_part_of_the_hybrid(options, muon_decay, adamw_decay, x64, train, core_run, assert_same_run):
    found, _ = train(muon_adamw(LR, 0.5, **options), PARAMS, GRADS)
    assert_same_run(found, core_run(PARAMS, GRADS, core_step(muon_decay=muon_decay, adamw_decay=adamw_decay)))


@pytest.mark.original("R2", "G4", "J15")
def test_muon_stays_constant_while_adamw_decays(x64, train, core_run, assert_same_run):
    optimizer = muon_adamw(LR, 0.5, **TWO, muon_args={"weight_decay_final": None})
    found, _ = train(optimizer, PARAMS, GRADS)
    assert_same_run(found, core_run(PARAMS, GRADS, core_step(muon_decay=constant, adamw_decay=shared)))


@pytest.mark.parametrize("clock", ["global", "parameter"])
@pytest.mark.parametrize("spelled", [dict, lambda mask: lambda tree: mask], ids=["tree", "function"])
def test_a_mask_is_honoured(clock, spelled):
    params = {"w": jnp.ones((2, 2)), "b": {"x": jnp.ones(2), "y": jnp.ones(2)}}
    optimizer = bitnet_adamw(0.1, total_steps=10, clock=clock, mask=spelled({"w": True, "b": False}))
    updates, _ = optimizer.update(jax.tree.map(jnp.zeros_like, params), optimizer.init(params), params)
    np.testing.assert_allclose(updates["w"], -0.01, rtol=1e-6)
    assert not any(np.asarray(leaf).any() for leaf in jax.tree.leaves(updates["b"]))


@pytest.mark.parametrize("clock", ["global", "parameter"])
def test_both_decays_may_be_injected(clock):
    static = ("total_steps", "second_stage_start", "clock")
    injected = optax.inject_hyperparams(muon_adamw, static_args=static)(
        0.1, 0.5, weight_decay_final=0.3, total_steps=1, clock=clock
    )
    values = {"w": jnp.ones((3, 4)), "b": jnp.ones(2)}
    state = injected.init(values)
    state.hyperparams["weight_decay"] = jnp.float32(0.25)
    updates, _ = jax.jit(injected.update)(jax.tree.map(jnp.zeros_like, values), state, values)
    for leaf in jax.tree.leaves(updates):
        np.testing.assert_allclose(leaf, -0.025, rtol=1e-6)


def test_float32_parameters_stay_float32_beside_float64(x64):
    """The decay is a float64 number there, and promotion is strict."""
    values = {"w": jnp.ones((3, 4), "float32")}
    optimizer = muon_adamw(0.1, **TWO)
    with jax.numpy_dtype_promotion("strict"):
        updates, state = jax.jit(optimizer.update)(values, optimizer.init(values), values)
    assert {leaf.dtype.name for leaf in jax.tree.leaves((updates, state)) if leaf.ndim == 2} == {"float32"}


def schedule(count):
    return 0.1


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: bitnet_adamw(1, total_steps=3, clock="wall"), "clock='wall' is not known; accepted: 'global', 'param"),
        (lambda: muon_adamw(1, schedule, **TWO), "weight_decay=<function schedule.* is a schedule; accepted with wei"),
        (
            lambda: muon_adamw(1, **TWO, adamw_args={"weight_decay": schedule}),
            r"adamw_args\['weight_decay'\]=<function schedule.* is a schedule; accepted with weight_decay_final: a num",
        ),
        (lambda: muon_adamw(1, weight_decay_final=0.0), "total_steps=None is not an integer; accepted: integers >= 0"),
        (lambda: muon_adamw(1, weight_decay_final=-1.0, total_steps=3), "weight_decay_final=-1.0 is out of range"),
        (
            lambda: muon_adamw(1, **TWO, muon_args={"clock": "wall"}),
            r"muon_args\['clock'\]='wall' is not known; accepted: 'global', 'parameter'",
        ),
        (
            lambda: muon_adamw(1, **TWO, adamw_args={"total_steps": 2.0}),
            r"adamw_args\['total_steps'\]=2.0 is not an integer; accepted: integers >= 0",
        ),
        (
            lambda: muon_adamw(1, weight_decay_final=0.0, total_steps=jnp.asarray(3)),
            "total_steps=3 is an array; accepted: .*static_args='total_steps'",
        ),
        (lambda: muon_adamw(1, muon_args={"weight_decay": 0.1}), "muon_args has the key 'weight_decay'; accepted: "),
    ],
)
def test_bad_options_are_refused_at_construction(build, message):
    with pytest.raises((ValueError, TypeError), match=f"^{message}"):
        build()
