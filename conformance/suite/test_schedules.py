"""Learning-rate schedules against their table and their closed forms."""

import math
import pickle

import numpy as np
import pytest

from zeropower.conformance.check import EAGER, REPRESENTATIVE, check
from zeropower.conformance.tolerances import ELEMENTWISE_ROUNDINGS, UNIT_ROUNDOFF
from zeropower.progress import MOST_STEPS
from zeropower.schedules import (
    Constant,
    Cosine,
    Exponential,
    Linear,
    Noam,
    StepDecay,
    TwoStage,
    count_steps,
)

PEAK = 1.2e-3

# schedule -> learning rate by step, as the original gives them
TABLE = {
    TwoStage(peak=PEAK, total_steps=6, warmup=2): dict(
        enumerate([6e-4, 6e-4, PEAK, PEAK, PEAK, 1.0e-3, 8e-4, 8e-4, 8e-4])
    ),
    TwoStage(peak=PEAK, total_steps=10): dict(enumerate([*[PEAK] * 7, 1.1e-3, 1.0e-3, 9e-4, 8e-4, 8e-4])),
    TwoStage(peak=PEAK, total_steps=40): {1: 6e-4, 2: PEAK, 21: PEAK, 22: PEAK - 4e-4 / 19, 40: 8e-4, 41: 8e-4},
    TwoStage(peak=PEAK, total_steps=10_000): {
        1: PEAK / 375, 374: PEAK * 374 / 375, 375: PEAK, 376: PEAK, 5001: PEAK, 5002: PEAK - 4e-4 / 4999,
        7500: PEAK - 4e-4 * 2499 / 4999, 10_000: 8e-4, 10_001: 8e-4,
    },
    TwoStage(peak=PEAK, total_steps=2): {1: PEAK, 2: PEAK, 3: PEAK},
    TwoStage(peak=PEAK, total_steps=1): {0: PEAK, 1: PEAK, 2: PEAK, 1000: PEAK},
    TwoStage(peak=PEAK, total_steps=0): {0: PEAK, 1: PEAK, 2: PEAK},
    # beyond 2^24, where float32 cannot count: the second stage starts after step 10_000_002
    TwoStage(peak=PEAK, total_steps=20_000_002): {
        10_000_002: PEAK, 10_000_003: PEAK - 4e-11, 15_000_002: 1e-3, 20_000_002: 8e-4,
    },
}  # fmt: skip


def ramp(k, steps):
    return np.minimum(k, steps) / steps if steps else np.ones(k.shape)


# schedule -> its closed form, of float64 steps from 1 on
FORMS = {
    Constant(lr=0.3): lambda k: np.full(k.shape, 0.3),
    TwoStage(peak=0.3, total_steps=47): lambda k: np.interp(k, [0, 3, 24, 47], [0.0, 0.3, 0.3, 0.2]),
    Cosine(initial_lr=0.5, num_steps=7): lambda k: 0.25 * (1 + np.cos(np.pi * ((k - 1) % 8) / 7)),
    Cosine(initial_lr=0.5, num_steps=9, min_lr=0.1, warmup_steps=4): lambda k: (
        ramp(k, 4) * (0.1 + 0.2 * (1 + np.cos(np.pi * (np.maximum(k - 5, 0) % 6) / 5)))
    ),
    Linear(initial_lr=0.5, final_lr=0.1, num_steps=8): lambda k: np.interp(k, [1, 9], [0.5, 0.1]),
    Linear(initial_lr=0.1, final_lr=1.0, num_steps=1): lambda k: np.where(k > 1, 1.0, 0.1),
    Exponential(initial_lr=0.5, gamma=0.97): lambda k: 0.5 * 0.97 ** (k - 1),
    Exponential(initial_lr=1.0, gamma=1.0): lambda k: np.ones(k.shape),
    StepDecay(initial_lr=0.5, step_size=3): lambda k: 0.5 * 0.1 ** np.floor((k - 1) / 3),
    StepDecay(initial_lr=2.0, step_size=5, gamma=1.5): lambda k: 2.0 * 1.5 ** np.floor((k - 1) / 5),
    Noam(factor=2.0, warmup_steps=6, model_size=64): lambda k: 0.25 * np.minimum(k**-0.5, k * 6**-1.5),
}
GREATEST = {schedule: float(np.max(form(np.arange(1.0, 60.0)))) for schedule, form in FORMS.items()}
STEPS = (0, 1, 2, 3, 4, 5, 7, 8, 9, 10, 11, 24, 25, 46, 47, 48)


def near(ours, value, greatest, dtype):
    """A handful of roundings, of numbers up to the greatest of the schedule."""
    return abs(float(ours) - value) <= ELEMENTWISE_ROUNDINGS * UNIT_ROUNDOFF[dtype] * greatest


def representative(table):
    """One of each class: they differ in their formula alone."""
    first = {type(schedule): schedule for schedule in reversed(table)}
    return [pytest.param(s, marks=REPRESENTATIVE if first[type(s)] is s else (), id=str(s)) for s in table]


def assert_array_steps(backend, transform, xp, schedule, table, greatest):
    traced = transform(lambda step: schedule(step, xp=xp))
    dtype = "float64" if "float64" in xp.__array_namespace_info__().dtypes(kind="real floating") else "float32"
    for step, value in table.items():
        ours = backend.to_numpy(traced(xp.asarray(step, dtype=xp.int32)))
        assert ours.shape == ()
        assert ours.dtype == dtype
        assert near(ours, value, greatest, dtype), f"step {step}"
    if transform.traces:
        assert traced.compilations(xp.asarray(29, dtype=xp.int32)) == 0


@pytest.mark.original("A12", "A13")
@check("schedules")
@EAGER
@pytest.mark.parametrize("schedule", TABLE, ids=str)
def test_two_stages_with_python_steps(backend, schedule):
    for step, value in TABLE[schedule].items():
        for kind in (int, np.int64, np.int32):
            ours = schedule(kind(step))
            assert type(ours) is float
            assert near(ours, value, PEAK, "float64"), f"step {step}"


@pytest.mark.original("A12", "A13")
@check("schedules")
@pytest.mark.parametrize("schedule", representative(TABLE))
def test_two_stages_with_array_steps(backend, transform, xp, schedule):
    assert_array_steps(backend, transform, xp, schedule, TABLE[schedule], PEAK)


@pytest.mark.original("A12")
@check("schedules")
@EAGER
@pytest.mark.parametrize(
    ("total", "warmup", "stage"),
    [(0, 1, 1), (1, 1, 1), (2, 1, 2), (3, 1, 2), (6, 1, 4), (10, 1, 6), (20, 1, 11), (21, 2, 11), (40, 2, 21),
     (7500, 375, 3751), (10_000, 375, 5001), (20_000_002, 375, 10_000_002)],
)  # fmt: skip
def test_where_the_stages_begin(backend, total, warmup, stage):
    schedule = TwoStage(peak=PEAK, total_steps=total)
    assert (schedule.warmup_steps, schedule.stage_step) == (warmup, stage)
    assert schedule.final == pytest.approx(8e-4, rel=1e-15)


@check("schedules")
@EAGER
@pytest.mark.parametrize("schedule", FORMS, ids=str)
def test_closed_form_with_python_steps(backend, schedule):
    for step in range(60):
        value = float(FORMS[schedule](np.asarray(max(step, 1.0))))
        assert near(schedule(step), value, GREATEST[schedule], "float64"), f"step {step}"


@check("schedules")
@pytest.mark.parametrize("schedule", representative(FORMS))
def test_closed_form_with_array_steps(backend, transform, xp, schedule):
    table = {step: float(FORMS[schedule](np.asarray(max(step, 1.0)))) for step in STEPS}
    assert_array_steps(backend, transform, xp, schedule, table, GREATEST[schedule])


@check("schedules")
@EAGER
@pytest.mark.parametrize("schedule", FORMS, ids=str)
def test_a_whole_run_at_once(backend, xp, schedule):
    ours = backend.to_numpy(schedule(xp.arange(1, 60, dtype=xp.int32)))
    assert ours.shape == (59,)
    error = np.abs(ours - FORMS[schedule](np.arange(1.0, 60.0)))
    assert np.all(error <= ELEMENTWISE_ROUNDINGS * UNIT_ROUNDOFF[ours.dtype.name] * GREATEST[schedule])


@check("schedules")
@EAGER
def test_long_runs_and_late_steps_overflow_nothing(backend, xp):
    long = 2**40
    last = 2**31 - 1  # of the steps that an int32 counts
    expected = {
        TwoStage(peak=0.5, total_steps=long): 0.5,
        Cosine(initial_lr=0.5, num_steps=long): 0.25 * (1 + math.cos(math.pi * (last - 1) / long)),
        Cosine(initial_lr=0.5, num_steps=long, warmup_steps=long // 2): 0.5 * last / (long // 2),
        Linear(initial_lr=0.5, final_lr=0.0, num_steps=long): 0.5 * (1 - (last - 1) / long),
        Exponential(initial_lr=0.5, gamma=1 - 1e-9): 0.5 * math.exp((last - 1) * math.log1p(-1e-9)),
        StepDecay(initial_lr=0.5, step_size=long): 0.5,
        Noam(factor=1.0, warmup_steps=long, model_size=1): last * long**-1.5,
    }
    for schedule, value in expected.items():
        # 2^31 steps, each of which rounds the base of a power once
        assert schedule(last) == pytest.approx(value, rel=2**31 * UNIT_ROUNDOFF["float64"])
        ours = float(backend.to_numpy(schedule(xp.asarray(last, dtype=xp.int32))))
        assert ours == pytest.approx(value, rel=ELEMENTWISE_ROUNDINGS * UNIT_ROUNDOFF["float32"])
        assert math.isfinite(schedule(10**30))


@check("schedules")
@EAGER
def test_schedules_are_values(backend):
    assert TwoStage(peak=1, total_steps=np.int64(10)) == TwoStage(peak=1.0, total_steps=10)
    assert len({*FORMS, *FORMS}) == len(FORMS)
    assert [pickle.loads(pickle.dumps(schedule)) for schedule in FORMS] == list(FORMS)


ERRORS = [
    (Constant, {"lr": 0.0}, r"lr=0.0 is out of range; accepted: a finite number in \(0.0, inf\)"),
    (TwoStage, {"peak": -1.0, "total_steps": 5}, "peak=-1.0 is out of range"),
    (TwoStage, {"peak": 1.0, "total_steps": -1}, "total_steps=-1 is out of range; accepted: integers >= 0"),
    (TwoStage, {"peak": 1.0, "total_steps": 6, "warmup": 0}, "warmup=0 is out of range; accepted: integers >= 1"),
    (
        TwoStage,
        {"peak": 1.0, "total_steps": 6, "warmup": 5},
        "warmup=5 is .*; accepted: integers from 1 to 4",
    ),
    (Cosine, {"initial_lr": 1.5, "num_steps": 5}, r"initial_lr=1.5 is out of range; .* in \(0.0, 1.0\]"),
    (Cosine, {"initial_lr": 0.0, "num_steps": 5}, "initial_lr=0.0 is out of range"),
    (Cosine, {"initial_lr": 0.5, "num_steps": 0}, "num_steps=0 is out of range; accepted: integers >= 1"),
    (Cosine, {"initial_lr": 0.5, "num_steps": 5, "min_lr": 0.6}, r"min_lr=0.6 is out of range; .* in \[0.0, 0.5\]"),
    (Cosine, {"initial_lr": 0.5, "num_steps": 5, "min_lr": -0.1}, "min_lr=-0.1 is out of range"),
    (Cosine, {"initial_lr": 0.5, "num_steps": 5, "warmup_steps": -1}, "warmup_steps=-1 is out of range"),
    (
        Cosine,
        {"initial_lr": 0.5, "num_steps": 5, "warmup_steps": 5},
        "warmup_steps=5 .* integers from 0 to 4",
    ),
    (Linear, {"initial_lr": 1.5, "final_lr": 0.1, "num_steps": 5}, "initial_lr=1.5 is out of range"),
    (Linear, {"initial_lr": 0.5, "final_lr": 1.1, "num_steps": 5}, r"final_lr=1.1 is out of range; .* in \[0.0, 1.0\]"),
    (Linear, {"initial_lr": 0.5, "final_lr": -0.1, "num_steps": 5}, "final_lr=-0.1 is out of range"),
    (Linear, {"initial_lr": 0.5, "final_lr": 0.1, "num_steps": 0}, "num_steps=0 is out of range"),
    (Exponential, {"initial_lr": 2.0, "gamma": 0.5}, "initial_lr=2.0 is out of range"),
    (Exponential, {"initial_lr": 0.5, "gamma": 0.0}, r"gamma=0.0 is out of range; .* in \(0.0, 1.0\]"),
    (Exponential, {"initial_lr": 0.5, "gamma": 1.1}, "gamma=1.1 is out of range"),
    (StepDecay, {"initial_lr": 0.0, "step_size": 5}, "initial_lr=0.0 is out of range"),
    (StepDecay, {"initial_lr": 0.5, "step_size": 0}, "step_size=0 is out of range"),
    (StepDecay, {"initial_lr": 0.5, "step_size": 5, "gamma": 0.0}, "gamma=0.0 is out of range"),
    (Noam, {"factor": 0.0, "warmup_steps": 5, "model_size": 8}, "factor=0.0 is out of range"),
    (Noam, {"factor": 1.0, "warmup_steps": 0, "model_size": 8}, "warmup_steps=0 is out of range"),
    (Noam, {"factor": 1.0, "warmup_steps": 5, "model_size": 0}, "model_size=0 is out of range"),
]
GOOD = {
    Constant: {"lr": 0.5},
    TwoStage: {"peak": 0.5, "total_steps": 5},
    Cosine: {"initial_lr": 0.5, "num_steps": 5, "min_lr": 0.1, "warmup_steps": 2},
    Linear: {"initial_lr": 0.5, "final_lr": 0.1, "num_steps": 5},
    Exponential: {"initial_lr": 0.5, "gamma": 0.5},
    StepDecay: {"initial_lr": 0.5, "step_size": 5, "gamma": 0.5},
    Noam: {"factor": 0.5, "warmup_steps": 5, "model_size": 8},
}
FIELDS = [(kind, name, value) for kind, fields in GOOD.items() for name, value in fields.items()]


@check("schedules")
@EAGER
@pytest.mark.parametrize(("kind", "fields", "message"), ERRORS)
def test_a_field_out_of_range_is_named(backend, kind, fields, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        kind(**fields)


@check("schedules")
@EAGER
@pytest.mark.parametrize(("kind", "name", "value"), FIELDS)
def test_no_field_takes_what_is_no_finite_number(backend, kind, name, value):
    integral = isinstance(value, int)
    for wrong in (math.nan, math.inf, -math.inf):
        with pytest.raises(TypeError if integral else ValueError, match=f"^{name}=.*; accepted: "):
            kind(**{**GOOD[kind], name: wrong})
    for wrong in ("1", True, np.ones(()), [1], None if kind is not TwoStage else "1", *((1.0,) if integral else ())):
        with pytest.raises(TypeError, match=f"^{name}=.* is not a"):
            kind(**{**GOOD[kind], name: wrong})


@check("schedules")
@EAGER
def test_a_step_is_an_integer(backend, xp):
    schedule = Constant(lr=0.5)
    for wrong in (1.0, True, np.float64(1.0)):
        with pytest.raises(TypeError, match=r"^step=.* is not an integer; accepted: integers, and arrays of them"):
            schedule(wrong)
    with pytest.raises(TypeError, match=r"^step has dtype .*float32; accepted: integer dtypes"):
        schedule(xp.asarray(1.0, dtype=xp.float32))


@check("schedules")
@EAGER
def test_steps_of_a_run(backend):
    assert count_steps(steps_per_epoch=250, epochs=4, max_iters=100) == 1000
    assert count_steps(steps_per_epoch=250, epochs=0, max_iters=100) == 250
    assert count_steps(steps_per_epoch=250, epochs=None, max_iters=100) == 100
    assert count_steps(steps_per_epoch=250, max_iters=0) == 1
    assert count_steps(steps_per_epoch=1, epochs=MOST_STEPS, max_iters=1) == MOST_STEPS
    assert count_steps(steps_per_epoch=np.int64(2**40), epochs=np.int64(2**20), max_iters=1) == 2**60  # in exact maths
    with pytest.raises(ValueError, match=r"^epochs=8589934592 of 1073741824 steps overflow; accepted: up to 92233"):
        count_steps(steps_per_epoch=2**30, epochs=2**33, max_iters=1)
    for wrong in ({"steps_per_epoch": -1}, {"epochs": -1}, {"max_iters": -1}):
        with pytest.raises(ValueError, match=f"^{next(iter(wrong))}=-1 is out of range; accepted: integers >= 0"):
            count_steps(**{"steps_per_epoch": 1, "epochs": 1, "max_iters": 1, **wrong})
    with pytest.raises(TypeError, match=r"^epochs=1.5 is not an integer"):
        count_steps(steps_per_epoch=1, epochs=1.5, max_iters=1)
