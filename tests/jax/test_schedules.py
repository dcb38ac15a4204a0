"""zeropower.jax's schedules: the learning rates of real updates."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from zeropower.jax import muon_adamw
from zeropower.jax.schedules import optax_schedule
from zeropower.schedules import Constant, Cosine, Exponential, Linear, Noam, StepDecay, TwoStage

PEAK = 1.2e-3
RUNS = {
    TwoStage(peak=PEAK, total_steps=6, warmup=2): [6e-4, PEAK, PEAK, PEAK, 1.0e-3, 8e-4, 8e-4],
    TwoStage(peak=PEAK, total_steps=10): [PEAK] * 6 + [1.1e-3, 1.0e-3, 9e-4, 8e-4, 8e-4],
    TwoStage(peak=PEAK, total_steps=1): [PEAK] * 3,
}
SCHEDULES = [
    Constant(lr=0.3),
    TwoStage(peak=0.3, total_steps=8),
    Cosine(initial_lr=0.3, num_steps=6, min_lr=0.1, warmup_steps=2),
    Linear(initial_lr=0.3, final_lr=0.1, num_steps=7),
    Exponential(initial_lr=0.3, gamma=0.9),
    StepDecay(initial_lr=0.3, step_size=3, gamma=0.5),
    Noam(factor=0.3, warmup_steps=4, model_size=8),
]
ROUNDOFF = 2.0**-24


def rates(optimizer: optax.GradientTransformation, steps: int) -> np.ndarray:
    """The learning rate of each update, read off a parameter whose gradient is one."""
    param = jnp.zeros(1)

    def step(state, _):
        updates, state = optimizer.update(jnp.ones(1), state, param)
        return state, -updates[0]

    return np.asarray(jax.jit(lambda: jax.lax.scan(step, optimizer.init(param), length=steps))()[1])


@pytest.mark.original("A12", "A13")
@pytest.mark.parametrize("schedule", RUNS, ids=str)
def test_each_update_has_the_rate_of_the_original(schedule):
    found = rates(optax.sgd(optax_schedule(schedule)), len(RUNS[schedule]))
    np.testing.assert_allclose(found, RUNS[schedule], rtol=16 * ROUNDOFF)


def test_our_optimizers_take_it():
    schedule = TwoStage(peak=PEAK, total_steps=6, warmup=2)
    found = rates(muon_adamw(optax_schedule(schedule), 0.0, adamw_args={"eps": 0.0}), 7)
    np.testing.assert_allclose(found, RUNS[schedule], rtol=64 * ROUNDOFF)  # Adam's direction is one, if rounded


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
def test_it_is_a_float32_function_of_the_count(schedule):
    ours = optax_schedule(schedule)
    traced = jax.jit(ours)
    for count in range(12):
        for found in (ours(count), ours(jnp.asarray(count)), traced(jnp.asarray(count)), traced(np.uint8(count))):
            assert (found.dtype, found.shape) == (jnp.float32, ())
            assert float(found) == pytest.approx(schedule(count + 1), rel=16 * ROUNDOFF)


def test_the_count_does_not_overflow():
    schedule = TwoStage(peak=PEAK, total_steps=10)
    last = jnp.asarray(jnp.iinfo(jnp.int32).max)
    assert float(optax_schedule(schedule)(last)) == pytest.approx(8e-4)


def test_the_rates_are_those_of_steps_in_double_precision():
    schedule = Cosine(initial_lr=0.3, num_steps=6, min_lr=0.1)
    with jax.enable_x64(True):
        found = jax.jit(optax_schedule(schedule))(jnp.asarray(3, dtype=jnp.int64))
        assert found.dtype == jnp.float32
        assert float(found) == np.float32(schedule(4))
