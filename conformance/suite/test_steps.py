"""One step of Muon and of AdamW against written-out formulas, over several gradients: one cannot tell momentum."""

import math
from dataclasses import replace

import numpy as np
import pytest

from zeropower import (
    CONV,
    DIALECTS,
    GENERIC,
    HEADS,
    MERGED_HEADS,
    AdamWRecipe,
    AdamWState,
    MuonRecipe,
    MuonState,
    adamw_step,
    muon_direction,
    muon_step,
    weight_decay_for_step,
)
from zeropower.conformance import tolerances
from zeropower.conformance.check import EAGER, REPRESENTATIVE, check
from zeropower.conformance.laws import rounded
from zeropower.conformance.oracles import matrices, orthogonalized, quintics
from zeropower.conformance.tolerances import elementwise, matrix_errors, tensor_error

WIDE = ("float64", "float32")
BETA = 0.9


def followed(grads, form, nesterov):
    """What momentum says to follow after some gradients, and its buffer, as explicit sums over the gradients."""
    t = len(grads)
    total = sum(BETA ** (t - k) * g for k, g in enumerate(grads, start=1))
    share = 1 - BETA
    if form == "heavy_ball":
        return (BETA * total + grads[-1] if nesterov else total), total
    buffer = share * total
    if form == "ema_added":
        return (grads[-1] + buffer if nesterov else buffer), buffer
    if form == "ema":
        return (BETA * buffer + share * grads[-1] if nesterov else buffer), buffer
    here, ahead = 1 - BETA**t, 1 - BETA ** (t + 1)
    return (BETA * buffer / ahead + share * grads[-1] / here if nesterov else buffer / here), buffer


def scale(rule, fan_out, fan_in):
    return {
        "original": max(1, fan_out / fan_in) ** 0.5,
        "rms_one": max(fan_out, fan_in) ** 0.5,
        "match_rms_adamw": 0.2 * max(fan_out, fan_in) ** 0.5,
        "spectral_unclamped": (fan_out / fan_in) ** 0.5,
        "rsqrt_in": fan_in**-0.5,
        "none": 1.0,
    }[rule]


# ---- Muon ----


@check("steps", dtypes=WIDE)
@pytest.mark.original("C1", "C2", "C3")
@pytest.mark.parametrize("nesterov", [True, False], ids=["nesterov", "plain"])
@pytest.mark.parametrize("form", ["ema", "heavy_ball", "ema_corrected", "ema_added"])
def test_momentum_is_that_of_its_name(backend, transform, dtype, xp, form, nesterov):
    recipe = MuonRecipe(momentum=BETA, momentum_form=form, nesterov=nesterov, method="standard", scale="none")
    grads, arrays = zip(*(rounded(matrices((6, 10), seed), backend, dtype) for seed in range(3)), strict=True)

    def run(grad, buffer, step):
        state = None if buffer is None else MuonState(buffer)
        return muon_direction(grad, state, recipe, step=step, xp=xp)

    run, buffer = transform(run), None
    for t, array in enumerate(arrays, start=1):
        direction, (buffer, _) = run(array, buffer, xp.asarray(t, dtype=xp.int32))
        follow, exact_buffer = followed(grads[:t], form, nesterov)
        exact = orthogonalized(follow, quintics("keller", 5))
        assert tensor_error(backend.to_numpy(buffer), exact_buffer) <= elementwise(dtype)
        bound = tolerances.iteration(follow, quintics("keller", 5), dtype)
        assert matrix_errors(backend.to_numpy(direction), exact) <= 2 * bound


@check("steps", dtypes=WIDE)
@EAGER
@pytest.mark.original("C4")
@pytest.mark.parametrize("nesterov", [True, False], ids=["nesterov", "plain"])
def test_the_average_is_a_share_of_the_heavy_ball(backend, dtype, xp, nesterov):
    """From zero and with one ``momentum``: both follow the same direction, and buffers differ by ``1 - momentum``."""
    ema, heavy = (
        MuonRecipe(momentum=BETA, momentum_form=form, nesterov=nesterov, method="standard")
        for form in ("ema", "heavy_ball")
    )
    averaged = summed = None
    for seed in range(4):
        g, grad = rounded(matrices((6, 10), seed), backend, dtype)
        left, averaged = muon_direction(grad, averaged, ema, xp=xp)
        right, summed = muon_direction(grad, summed, heavy, xp=xp)
        shares = backend.to_numpy(averaged[0]), (1 - BETA) * backend.to_numpy(summed[0])
        assert tensor_error(*shares) <= elementwise(dtype)
        bound = tolerances.iteration(shares[0] + g, quintics("keller", 5), dtype)
        assert matrix_errors(backend.to_numpy(left), backend.to_numpy(right)) <= 2 * bound


@check("steps", dtypes=WIDE)
@EAGER
@pytest.mark.original("F1", "F6")
@pytest.mark.parametrize("shape", [(6, 10), (10, 6), (2, 6, 10)], ids=str)
@pytest.mark.parametrize("rule", ["original", "match_rms_adamw", "rms_one", "spectral_unclamped", "rsqrt_in", "none"])
def test_scale_follows_the_fans(backend, dtype, xp, rule, shape):
    recipe = MuonRecipe(
        scale=rule,
        scale_factor=3.0,
        method="standard",
        normalize="schatten4",
        coefficients="polar_express",
        steps=6,
    )
    g, grad = rounded(matrices(shape), backend, dtype)
    p, param = rounded(matrices(shape, seed=1), backend, dtype)
    ours, _ = muon_step(param, grad, None, recipe, lr=0.5, weight_decay=0.1, xp=xp)
    triples = quintics("polar_express", 6)
    step = 0.5 * 3.0 * scale(rule, *shape[-2:]) * orthogonalized(g, triples, normalize="schatten4")
    bound = np.max(tolerances.iteration(g, triples, dtype, normalize="schatten4")) + elementwise(dtype)
    error = np.linalg.norm(backend.to_numpy(ours) - (p * (1 - 0.5 * 0.1) - step))
    assert error <= bound * np.linalg.norm(step) + elementwise(dtype) * np.linalg.norm(p)


# One step in float64 from w_i = 0.01 (i + 1) with gradients sin(0.17 i), i = 0 .. 23, computed with independent
# programs: a Rust optimizer that splits heads (two iterations), the same merging them, and a PyTorch one that flattens
# convolutions (five iterations).
HEADWISE = replace(DIALECTS["burn-dragon"].muon, steps=2)
REFERENCE = {
    "heads": (
        HEADWISE, HEADS, 1e-3, 0.1,
        [0.01024545977693333, 0.02006117401169581, 0.02987506691025058, 0.0396924751966257],
        [0.20994719880797882, 0.2200482587511177, 0.23014729310170856, 0.24024141782278977],
    ),
    "merged": (
        HEADWISE, MERGED_HEADS, 1e-3, 0.1,
        [0.01014709606339803, 0.02002161330719754, 0.02989544976834246, 0.03977221397000686],
        [0.2098970742740258, 0.22000436227666773, 0.23011089024258374, 0.240213558090389],
    ),
    "flattened": (
        replace(DIALECTS["diffsinger"].muon, compute_dtype="float64"), CONV, 1e-3, 0.1,
        [0.01003610987365102, 0.01978182837206016, 0.02953377919927788, 0.03929908489812511],
        [0.21035414724531365, 0.220563292580282, 0.23075556365730862, 0.2409253883811435],
    ),
}  # fmt: skip


@check("steps", dtypes=("float64",))
@EAGER
@pytest.mark.original("F2", "F3", "F4", "F6", "G1", "G2", "C1", "C2", "C3", "E1")
@pytest.mark.parametrize("case", list(REFERENCE))
def test_reference_steps_of_muon(backend, dtype, xp, case):
    recipe, layout, lr, weight_decay, first, last = REFERENCE[case]
    i = np.arange(24, dtype=np.float64).reshape(2, 3, 4)
    param, grad = (backend.from_numpy(x, dtype) for x in (0.01 * (i + 1), np.sin(0.17 * i)))
    ours, _ = muon_step(param, grad, None, recipe, lr=lr, weight_decay=weight_decay, layout=layout, xp=xp)
    ours = backend.to_numpy(ours)
    assert tensor_error(ours[0, 0], np.asarray(first)) <= elementwise(dtype)
    assert tensor_error(ours[-1, -1], np.asarray(last)) <= elementwise(dtype)


@check("steps", dtypes=("float16",))
@EAGER
@pytest.mark.original("E10")
def test_reference_step_in_float16(backend, dtype, xp, kernels):
    recipe, layout, lr, weight_decay, first, last = REFERENCE["flattened"]
    i = np.arange(24, dtype=np.float64).reshape(2, 3, 4)
    param, grad = (backend.from_numpy(x, "float32") for x in (0.01 * (i + 1), np.sin(0.17 * i)))
    options = {"lr": lr, "weight_decay": weight_decay, "layout": layout, "compute_dtype": dtype, "kernels": kernels}
    ours = backend.to_numpy(muon_step(param, grad, None, recipe, xp=xp, **options)[0])
    # 5e-3 of an element of the direction, as in test_float16_gram_iteration_is_as_accurate_as_the_original_s
    bound = lr * 12**0.5 * 5e-3 * (4 if kernels is GENERIC else 1)
    assert np.max(np.abs(ours[0, 0] - first)) <= bound
    assert np.max(np.abs(ours[-1, -1] - last)) <= bound


@check("steps", dtypes=WIDE)
@REPRESENTATIVE
def test_rates_may_be_arrays_that_change(backend, transform, dtype, xp):
    recipe = MuonRecipe(method="gram", restarts=(2,))
    (p, param), (g, grad) = (rounded(matrices((6, 10), seed), backend, dtype) for seed in (1, 2))

    def step(param, grad, buffer, lr, weight_decay, momentum):
        return muon_step(
            param, grad, MuonState(buffer), recipe, lr=lr, weight_decay=weight_decay, momentum=momentum, xp=xp
        )

    run = transform(step)
    for rates in ((0.1, 0.2, 0.9), (0.05, 0.0, 0.8)):
        traced, _ = run(param, grad, grad, *(backend.from_numpy(np.asarray(r), dtype) for r in rates))
        lr, weight_decay, beta = rates
        follow = beta * (beta * g + (1 - beta) * g) + (1 - beta) * g
        exact = 0.2 * 10**0.5 * lr * orthogonalized(follow, quintics("keller", 5))
        bound = tolerances.iteration(follow, quintics("keller", 5), dtype, restarts=(2,)) + elementwise(dtype)
        error = np.linalg.norm(backend.to_numpy(traced) - (p * (1 - lr * weight_decay) - exact))
        assert error <= bound * np.linalg.norm(exact) + elementwise(dtype) * np.linalg.norm(p)
    if transform.traces:
        rates = [backend.from_numpy(np.asarray(r), dtype) for r in (0.3, 0.1, 0.5)]
        assert run.compilations(param, grad, grad, *rates) == 0


@check("steps")
@pytest.mark.original("C5")
def test_parameter_is_rounded_once(backend, transform, dtype, xp):
    recipe = MuonRecipe(method="standard", compute_dtype="float32" if dtype != "float64" else "float64")
    wide = "float64" if dtype == "float64" else "float32"
    values, arrays = zip(*(rounded(matrices((6, 10), seed), backend, dtype) for seed in (1, 2, 3)), strict=True)
    options = {"lr": 0.01, "weight_decay": 0.1, "xp": xp}

    def run(param, grad, buffer):
        return muon_step(param, grad, MuonState(buffer), recipe, **options)

    buffer = backend.from_numpy(values[2], wide)
    param, (momentum, _) = transform(run)(*arrays[:2], buffer)
    assert param.dtype == arrays[0].dtype
    assert momentum.dtype == buffer.dtype
    in_wide, _ = transform(run)(*(backend.from_numpy(x, wide) for x in values[:2]), buffer)
    once = backend.to_numpy(backend.from_numpy(backend.to_numpy(in_wide), dtype))
    assert np.array_equal(backend.to_numpy(param), once)
    for array, before in zip((*arrays[:2], buffer), values, strict=True):
        assert np.array_equal(backend.to_numpy(array), before.astype(wide))


@check("steps")
@EAGER
@pytest.mark.original("R18")
def test_state_is_wide_from_the_first_step(backend, dtype, xp):
    wide = "float64" if dtype == "float64" else "float32"
    g, grad = rounded(matrices((6, 10)), backend, dtype)
    zeros = backend.from_numpy(np.zeros((6, 10)), dtype)
    _, muon = muon_step(zeros, grad, None, MuonRecipe(momentum=BETA), lr=0.1, xp=xp)
    _, adamw = adamw_step(zeros, grad, None, AdamWRecipe(), lr=0.1, step=1, xp=xp)
    exact = ((1 - BETA) * g, 0.1 * g, 0.05 * g**2)
    for ours, value in zip((muon.momentum, *adamw), exact, strict=True):
        assert ours.dtype == backend.from_numpy(g, wide).dtype
        assert tensor_error(backend.to_numpy(ours), value) <= elementwise(wide)


@check("steps", dtypes=WIDE)
@EAGER
@pytest.mark.original("G1", "G5")
def test_decay_takes_the_rate_before_the_scale(backend, dtype, xp):
    p, param = rounded(matrices((6, 10)), backend, dtype)
    zero = backend.from_numpy(np.zeros((6, 10)), dtype)
    muon, _ = muon_step(param, zero, None, MuonRecipe(), lr=0.5, weight_decay=0.25, xp=xp)
    adamw, _ = adamw_step(param, zero, None, AdamWRecipe(), lr=0.5, weight_decay=0.25, step=1, xp=xp)
    for ours in (muon, adamw):
        assert tensor_error(backend.to_numpy(ours), p * 0.875) <= elementwise(dtype)
    still, state = muon_step(param, param, None, MuonRecipe(), lr=0.0, weight_decay=0.25, xp=xp)
    assert np.array_equal(backend.to_numpy(still), p)
    assert backend.to_numpy(state.momentum).any()


@check("steps")
@EAGER
@pytest.mark.original("B3", "G3", "G5")
@pytest.mark.parametrize(("lr", "weight_decay", "size"), [(0.5, 0.0, 0.0), (0.0, 0.25, 0.0), (0.0, 0.25, 1.0)])
def test_no_rate_changes_no_bit(backend, dtype, xp, lr, weight_decay, size):
    p, param = rounded(matrices((6, 10)), backend, dtype)
    _, grad = rounded(size * p, backend, dtype)
    muon, kept = muon_step(param, grad, None, MuonRecipe(), lr=lr, weight_decay=weight_decay, xp=xp)
    adamw, moments = adamw_step(param, grad, None, AdamWRecipe(), lr=lr, weight_decay=weight_decay, step=1, xp=xp)
    for ours in (muon, adamw):
        assert np.array_equal(backend.to_numpy(ours), p)
    assert all(backend.to_numpy(buffer).any() == (size > 0) for buffer in (kept.momentum, *moments))


@check("steps", dtypes=WIDE)
@EAGER
@pytest.mark.original("B8")
def test_zero_gradients_only_decay(backend, dtype, xp):
    p, muon = rounded(matrices((6, 10)), backend, dtype)
    adamw, zero = muon, backend.from_numpy(np.zeros((6, 10)), dtype)
    kept = moments = None
    for step in range(1, 6):
        muon, kept = muon_step(muon, zero, kept, MuonRecipe(), lr=0.5, weight_decay=0.25, xp=xp)
        adamw, moments = adamw_step(adamw, zero, moments, AdamWRecipe(), lr=0.5, weight_decay=0.25, step=step, xp=xp)
        for ours in (muon, adamw):
            assert tensor_error(backend.to_numpy(ours), p * 0.875**step) <= step * elementwise(dtype)
    assert not any(backend.to_numpy(buffer).any() for buffer in (kept.momentum, *moments))


# ---- AdamW ----

# In float64, computed with an independent program; the second is torch.optim.AdamW's.
ADAMW = [
    (
        AdamWRecipe(), lambda step: weight_decay_for_step(0.1, 0.0, 0.5, 3, step),
        [[0.8900000019999998, -1.8800000039999998], [0.8542630578558273, -1.8263203476719791],
         [0.8221345507814899, -1.8234927686312803]],
    ),
    (
        AdamWRecipe(beta_2=0.999), lambda step: 0.1,
        [[0.890000002, -1.880000004], [0.8544662986878463, -1.8266394209842804]],
    ),
]  # fmt: skip
GRADS = [[0.5, -0.25], [-0.25, 0.1], [0.1, 0.1]]


@check("steps", dtypes=WIDE)
@EAGER
@pytest.mark.original("B3", "B7", "B9")
@pytest.mark.parametrize(("recipe", "decay", "expected"), ADAMW, ids=["two stages", "constant"])
def test_reference_steps_of_adamw(backend, dtype, xp, recipe, decay, expected):
    param, state = backend.from_numpy(np.asarray([1.0, -2.0]), dtype), None
    for t, (g, wanted) in enumerate(zip(GRADS, expected, strict=False), start=1):
        grad = backend.from_numpy(np.asarray(g), dtype)
        param, state = adamw_step(param, grad, state, recipe, lr=0.1, weight_decay=decay(t), step=t, xp=xp)
        assert tensor_error(backend.to_numpy(param), np.asarray(wanted)) <= t * elementwise(dtype)


@check("steps")
@REPRESENTATIVE
@pytest.mark.original("C5")
def test_adamw_step_keeps_dtypes_and_arguments(backend, transform, dtype, xp):
    wide = "float64" if dtype == "float64" else "float32"
    values = np.random.default_rng(0).uniform(0.5, 1.0, (4, 3, 5))
    dtypes = (dtype, dtype, wide, wide)
    kept, arrays = zip(*(rounded(x, backend, d) for x, d in zip(values, dtypes, strict=True)), strict=True)

    def run(param, grad, moment_1, moment_2, step):
        state = AdamWState(moment_1, moment_2)
        return adamw_step(param, grad, state, AdamWRecipe(), lr=0.01, weight_decay=0.1, step=step, xp=xp)

    param, state = transform(run)(*arrays, xp.asarray(3, dtype=xp.int32))
    assert [y.dtype for y in (param, *state)] == [arrays[0].dtype, arrays[2].dtype, arrays[2].dtype]
    p, g, m, v = kept
    first, second = 0.9 * m + 0.1 * g, 0.95 * v + 0.05 * g**2
    step = 0.01 * first / (1 - 0.9**3) / (np.sqrt(second / (1 - 0.95**3)) + 1e-8)
    assert tensor_error(backend.to_numpy(param), p * (1 - 0.001) - step) <= elementwise(dtype)
    assert all(np.array_equal(backend.to_numpy(x), before) for x, before in zip(arrays, kept, strict=True))


# ---- refusals ----


@check("steps")
@EAGER
def test_vectors_and_missing_steps_are_refused(backend, xp):
    vector = backend.from_numpy(np.ones(5), "float32")
    matrix = backend.from_numpy(np.ones((3, 5)), "float32")
    with pytest.raises(ValueError, match="does not fit"):
        muon_direction(vector, None, MuonRecipe(), xp=xp)
    with pytest.raises(ValueError, match=r"^step=None"):
        muon_direction(matrix, None, MuonRecipe(momentum_form="ema_corrected"), xp=xp)
    assert math.isfinite(float(backend.to_numpy(xp.sum(muon_direction(matrix, None, MuonRecipe(), xp=xp)[0]))))
