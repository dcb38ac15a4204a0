"""The two-stage weight decay against its table."""

import numpy as np
import pytest

from zeropower import (
    AdamWRecipe,
    MuonRecipe,
    adamw_direction,
    adamw_step,
    muon_direction,
    muon_step,
    weight_decay_for_step,
)
from zeropower.conformance.check import EAGER, REPRESENTATIVE, check
from zeropower.conformance.laws import rounded
from zeropower.conformance.tolerances import UNIT_ROUNDOFF, elementwise, tensor_error

TOLERANCE = 1e-7  # of the table; float64 agrees to a few units of roundoff, float32 to one

# (initial, final, second_stage_start, total_steps) -> value by step, in exact arithmetic. Where the second stage
# starts is rounded half away from zero, which the totals 2, 6, 10 and 14 and the quarter of 11 tell from half to even.
TABLE = {
    (0.1, 0.0, 0.5, 10): {
        **dict.fromkeys(range(7), 0.1), 7: 0.075, 8: 0.05, 9: 0.025, 10: 0.0, 11: 0.0, 12: 0.0,
    },
    (0.1, 0.0, 0.5, 2): {1: 0.1, 2: 0.1, 3: 0.1},
    (0.1, 0.0, 0.5, 4): {1: 0.1, 2: 0.1, 3: 0.1, 4: 0.0},
    (0.1, 0.0, 0.5, 6): {1: 0.1, 2: 0.1, 3: 0.1, 4: 0.1, 5: 0.05, 6: 0.0},
    (0.1, 0.0, 0.5, 14): {8: 0.1, 9: 0.1 * 5 / 6, 14: 0.0},
    (0.1, 0.01, 0.5, 10): {7: 0.0775, 10: 0.01},
    (0.1, 0.2, 0.5, 10): {6: 0.1, 10: 0.2},
    (0.1, 0.0, 0.0, 5): {1: 0.1, 2: 0.075, 5: 0.0},
    (0.1, 0.0, 1.0, 5): {1: 0.1, 5: 0.1},
    (0.1, 0.0, 7.0, 5): {1: 0.1, 5: 0.1},
    (0.1, 0.0, -3.0, 5): {1: 0.1, 2: 0.075, 5: 0.0},
    (0.1, 0.0, 0.5, 1): {0: 0.1, 1: 0.1, 5: 0.1},
    (0.1, 0.0, 0.5, 0): {0: 0.1, 1: 0.1, 5: 0.1},
    (0.1, 0.1, 0.5, 100): {1: 0.1, 90: 0.1, 100: 0.1},
    (0.1, 0.0, 0.5, 101): {51: 0.1, 52: 0.098, 101: 0.0},
    (0.1, 0.0, 0.25, 11): {4: 0.1, 5: 0.0857142857, 11: 0.0},
    # beyond 2^24, where float32 cannot count: the second stage starts at step 10_000_002
    (0.1, 0.0, 0.5, 20_000_002): {10_000_002: 0.1, 15_000_002: 0.05, 20_000_002: 0.0},
}  # fmt: skip


@check("weight_decay")
@EAGER
@pytest.mark.original("A1", "A2", "A3", "A4", "A5", "A6", "A7", "A8", "A9", "R3", "R4")
@pytest.mark.parametrize("arguments", list(TABLE), ids=str)
def test_table_with_python_steps(backend, xp, arguments):
    for step, value in TABLE[arguments].items():
        ours = weight_decay_for_step(*arguments, step)
        assert isinstance(ours, float)
        assert abs(ours - value) <= TOLERANCE, f"step {step}"


@check("weight_decay")
@pytest.mark.original("A1", "A2", "A3", "A4", "A5", "A6", "A7", "A8", "A9", "R3", "R4")
@pytest.mark.parametrize(
    "arguments", [pytest.param(a, marks=REPRESENTATIVE if i == 0 else ()) for i, a in enumerate(TABLE)], ids=str
)
def test_table_with_array_steps(backend, transform, xp, arguments):
    def run(step):
        return weight_decay_for_step(*arguments, step, xp=xp)

    traced = transform(run)
    for step, value in TABLE[arguments].items():
        ours = traced(xp.asarray(step, dtype=xp.int32))
        assert ours.shape == ()
        assert abs(float(backend.to_numpy(ours)) - value) <= TOLERANCE, f"step {step}"
    if transform.traces:
        assert traced.compilations(xp.asarray(3, dtype=xp.int32)) == 0


# What float32 arithmetic gives for some of them.
FLOAT32 = {
    (0.1, 0.0, 0.5, 10): {
        1: 0.10000000149011612, 7: 0.07500000298023224, 8: 0.05000000074505806, 9: 0.02499999850988388, 10: 0.0,
    },
    (0.1, 0.01, 0.5, 10): {10: 0.009999997913837433},
}  # fmt: skip


@check("weight_decay")
@EAGER
@pytest.mark.original("A14", "R4")
@pytest.mark.parametrize("arguments", list(FLOAT32), ids=str)
def test_a_run_in_float32_decays_alike(backend, xp, arguments):
    for step, value in FLOAT32[arguments].items():
        array = weight_decay_for_step(*arguments, xp.asarray(step, dtype=xp.int32), xp=xp)
        for ours in (weight_decay_for_step(*arguments, step), float(backend.to_numpy(array))):
            assert abs(ours - value) <= 4 * UNIT_ROUNDOFF["float32"] * 0.1, f"step {step}"


@check("weight_decay")
@EAGER
@pytest.mark.original("A11")
@pytest.mark.parametrize("start", [0.0, 0.3, 0.5, 1.0])
@pytest.mark.parametrize("final", [0.0, 0.05, 0.3])
def test_decay_is_monotone_between_its_ends(backend, start, final):
    values = [weight_decay_for_step(0.1, final, start, 37, step) for step in range(40)]
    changes = np.diff(values)
    assert np.all(changes <= 0) or np.all(changes >= 0)
    roundoff = 4 * UNIT_ROUNDOFF["float64"]
    assert min(0.1, final) - roundoff <= min(values) <= max(values) <= max(0.1, final) + roundoff


@check("weight_decay")
@EAGER
@pytest.mark.original("A10")
@pytest.mark.parametrize(
    ("argument", "value", "error"),
    [
        ("initial", np.nan, ValueError),
        ("final", np.inf, ValueError),
        ("second_stage_start", np.nan, ValueError),
        ("total_steps", -1, ValueError),
        ("total_steps", 10.0, TypeError),
    ],
)
def test_wrong_schedule_is_named(backend, argument, value, error):
    arguments = {"initial": 0.1, "final": 0.0, "second_stage_start": 0.5, "total_steps": 10, argument: value}
    with pytest.raises(error, match=f"^{argument}="):
        weight_decay_for_step(**arguments, step=1)


@check("weight_decay")
@EAGER
@pytest.mark.original("A7")
def test_last_step_has_the_final_decay_exactly(backend, xp):
    for total in range(3, 60):
        assert weight_decay_for_step(0.1, 0.0, 0.5, total, total) == 0.0, f"total {total}"
        last = weight_decay_for_step(0.1, 0.0, 0.5, total, xp.asarray(total, dtype=xp.int32), xp=xp)
        assert float(backend.to_numpy(last)) == 0.0, f"total {total}"


@check("weight_decay")
@EAGER
def test_long_runs_and_small_integers_overflow_nothing(backend, xp):
    long = 2**40
    for name, step in (("int32", 2**31 - 1), ("int32", -(2**31)), ("uint8", 255), ("uint8", 0), ("int8", -128)):
        for start in (0.0, 0.5, 1.0):
            exact = 0.1 if start else 0.1 * (1 - (max(step, 1) - 1) / (long - 1))
            array = xp.asarray(step, dtype=getattr(xp, name))
            ours = float(backend.to_numpy(weight_decay_for_step(0.1, 0.0, start, long, array, xp=xp)))
            assert abs(ours - exact) <= 4 * UNIT_ROUNDOFF["float32"] * 0.1, f"{name} {step}, start {start}"


@check("weight_decay")
@EAGER
def test_decay_at_a_step_that_is_no_integer(backend, xp):
    for wrong in (1.0, True, np.float64(1.0)):
        with pytest.raises(TypeError, match=r"^step=.* is not an integer; accepted: integers, and arrays of them"):
            weight_decay_for_step(0.1, 0.0, 0.5, 10, wrong)
    with pytest.raises(TypeError, match=r"^step has dtype .*float32; accepted: integer dtypes"):
        weight_decay_for_step(0.1, 0.0, 0.5, 10, xp.asarray(1.0, dtype=xp.float32), xp=xp)


# ---- how a decay acts ----

LR, DECAY = 0.25, 0.5
SCALE = 0.2 * 10**0.5  # of the shape below
RATES = {
    "lr": LR * DECAY,
    "scaled_lr": LR * SCALE * DECAY,
    "lr_squared": LR * LR * DECAY,
    "lr_times_scaled_lr": LR * LR * SCALE * DECAY,
    "independent": DECAY,
}
MASKS = {
    "none": lambda p, d: np.ones_like(p, dtype=bool),
    "aligned": lambda p, d: p * d >= 0,
    "strictly_aligned": lambda p, d: p * d > 0,
    "same_sign_bit": lambda p, d: np.signbit(p) == np.signbit(d),
}


def after(param, direction, order, rate, mask):
    """The parameter after a decay and a step."""
    lost = np.where(MASKS[mask](param, direction), RATES[rate], 0.0)
    if order == "before":
        return param * (1 - lost) - LR * direction
    return (param - LR * direction) * (1 - lost)


def parameter_and_gradient(backend, dtype):
    random = np.random.default_rng(0)
    (p, _), (g, grad) = (rounded(random.standard_normal((6, 10)), backend, dtype) for _ in range(2))
    p[0, 0], p[0, 1] = 0.0, -0.0
    return p, backend.from_numpy(p, dtype), g, grad


@check("weight_decay", dtypes=("float64", "float32"))
@EAGER
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("order", ["before", "after"])
def test_decay_is_its_formula(backend, dtype, xp, order, rate, mask):
    p, param, _, grad = parameter_and_gradient(backend, dtype)
    fields = {"decay": order, "decay_rate": rate, "decay_mask": mask}
    muon, adamw = MuonRecipe(method="standard", **fields), AdamWRecipe(**fields)
    direction, _ = muon_direction(grad, None, muon, xp=xp)
    ours, _ = muon_step(param, grad, None, muon, lr=LR, weight_decay=DECAY, xp=xp)
    exact = after(p, backend.to_numpy(direction).astype(np.float64), order, rate, mask)
    assert tensor_error(backend.to_numpy(ours), exact) <= elementwise(dtype)
    if "scaled" not in rate:  # of a vector, the scale is one
        direction, _ = adamw_direction(grad, None, adamw, 1, xp=xp)
        ours, _ = adamw_step(param, grad, None, adamw, lr=LR, weight_decay=DECAY, step=1, xp=xp)
        exact = after(p, backend.to_numpy(direction).astype(np.float64), order, rate, mask)
        assert tensor_error(backend.to_numpy(ours), exact) <= elementwise(dtype)


@check("weight_decay", dtypes=("float64", "float32"))
@EAGER
@pytest.mark.parametrize("order", ["gradient", "none"])
def test_decay_may_join_the_gradient_or_not_be(backend, dtype, xp, order):
    p, param, g, grad = parameter_and_gradient(backend, dtype)
    seen = backend.from_numpy(g + DECAY * p if order == "gradient" else g, dtype)
    steps = (
        (muon_step, MuonRecipe(method="standard", decay=order), MuonRecipe(method="standard"), {}),
        (adamw_step, AdamWRecipe(decay=order), AdamWRecipe(), {"step": 1}),
    )
    for step, recipe, plain, options in steps:
        ours, _ = step(param, grad, None, recipe, lr=LR, weight_decay=DECAY, xp=xp, **options)
        exact, _ = step(param, seen, None, plain, lr=LR, weight_decay=0.0, xp=xp, **options)
        # the gradient was rounded once more, and the iteration answers to that
        assert tensor_error(backend.to_numpy(ours), backend.to_numpy(exact)) <= 8 * elementwise(dtype)
