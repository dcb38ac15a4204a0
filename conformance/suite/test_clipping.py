"""Clipping: the formula at any scale, one tensor or all, and Muon's direction, which does not see it."""

import re
from decimal import Decimal

import numpy as np
import pytest

from zeropower import MuonRecipe, muon_direction
from zeropower.clipping import clip, clip_by_global_norm, clip_by_norm, clip_by_value, norm_factor, require_clip
from zeropower.conformance import tolerances
from zeropower.conformance.check import EAGER, REPRESENTATIVE, check
from zeropower.conformance.laws import rounded
from zeropower.conformance.oracles import matrices, orthogonalized, quintics
from zeropower.conformance.tolerances import UNIT_ROUNDOFF, matrix_errors, tensor_error

WIDE = ("float64", "float32")
LARGEST_POWER = {"float64": 1024, "float32": 128, "bfloat16": 128, "float16": 16}  # of two, and just out of range
SHAPES = pytest.mark.parametrize("shape", [(), (7,), (6, 10), (2, 3, 4, 5), (60, 70)], ids=str)
EMPTY = pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 2, 4)], ids=str)


def wide(dtype):
    return "float64" if dtype == "float64" else "float32"


def random(shape, seed=0):
    return np.asarray(np.random.default_rng(seed).standard_normal(shape))


def exact_factor(max_norm, *grads):
    """The formula in decimals: 28 digits, and no norm too large for them."""
    norm = sum(Decimal(value) ** 2 for g in grads for value in g.flat).sqrt()
    return min(Decimal(max_norm) / (norm + Decimal("1e-6")), Decimal(1))


def scaled(g, factor):
    return np.asarray([float(Decimal(value) * factor) for value in g.flat]).reshape(g.shape)


def unwritten(backend, array, before):
    return np.array_equal(backend.to_numpy(array).astype(np.float64), before)


# ---- the norm of one tensor ----

# In float64, computed with an independent program: (max_norm, clipped (3, 4)).
REFERENCE = [
    (1.0, (0.599999880000024, 0.799999840000032)),
    (5.0, (2.99999940000012, 3.99999920000016)),
    (10.0, (3.0, 4.0)),
]


@check("clipping", dtypes=WIDE)
@pytest.mark.original("I2")
@pytest.mark.parametrize(("max_norm", "expected"), REFERENCE, ids=str)
def test_reference_clips(backend, transform, dtype, xp, max_norm, expected):
    array = backend.from_numpy(np.asarray([3.0, 4.0]), dtype)
    ours = backend.to_numpy(transform(clip_by_norm, max_norm=max_norm, xp=xp)(array))
    assert tensor_error(ours, np.asarray(expected)) <= tolerances.norm(2, dtype)


@check("clipping")
@pytest.mark.original("I1", "I2")
@SHAPES
@pytest.mark.parametrize("share", [0.01, 0.9, 1.5])
def test_norm_is_that_of_the_whole_tensor(backend, transform, dtype, xp, shape, share):
    g, array = rounded(random(shape), backend, dtype)
    max_norm = share * float(np.linalg.norm(g))
    factor = transform(norm_factor, max_norm=max_norm, xp=xp)(array)
    ours = transform(clip_by_norm, max_norm=max_norm, xp=xp)(array)
    exact = exact_factor(max_norm, g)
    assert factor.shape == ()
    assert factor.dtype == backend.from_numpy(g, wide(dtype)).dtype
    assert tensor_error(backend.to_numpy(factor), np.asarray(float(exact))) <= tolerances.norm(g.size, wide(dtype))
    assert (ours.shape, ours.dtype) == (array.shape, array.dtype)
    assert tensor_error(backend.to_numpy(ours), scaled(g, exact)) <= tolerances.norm(g.size, dtype)
    assert (share < 1) or np.array_equal(backend.to_numpy(ours).astype(np.float64), g)
    assert unwritten(backend, array, g)


@check("clipping")
@pytest.mark.original("I2")
def test_norm_at_the_threshold_is_still_scaled(backend, transform, dtype, xp):
    g, array = rounded(np.asarray([3.0, -4.0]) * 2.0**-10, backend, dtype)  # a norm that every dtype has
    factor = transform(norm_factor, max_norm=5 * 2.0**-10, xp=xp)(array)
    exact = 1 / (1 + 1e-6 / (5 * 2.0**-10))
    assert tensor_error(backend.to_numpy(factor), np.asarray(exact)) <= tolerances.norm(g.size, wide(dtype))
    assert 1 - exact > 100 * tolerances.norm(g.size, wide(dtype))


@check("clipping")
def test_factor_of_the_smallest_float16_is_right(backend, transform, dtype, xp):
    g, array = rounded(np.random.default_rng(0).integers(-7, 8, (6, 10)) * 2.0**-24, backend, dtype)
    factor = transform(norm_factor, max_norm=1e-6, xp=xp)(array)  # squares in float16 would be zeros
    exact = float(exact_factor(1e-6, g))
    assert exact < 0.5
    assert tensor_error(backend.to_numpy(factor), np.asarray(exact)) <= tolerances.norm(g.size, wide(dtype))


@check("clipping")
@pytest.mark.parametrize("max_norm", [1e-3, 1.0, 1e3])
def test_largest_numbers_are_clipped_like_any(backend, transform, dtype, xp, max_norm):
    random = np.random.default_rng(0)
    mantissas = random.integers(4, 8, (6, 10)) / 8 * random.choice([-1.0, 1.0], (6, 10))
    g, array = rounded(np.ldexp(mantissas, LARGEST_POWER[dtype]), backend, dtype)
    exact = scaled(g, exact_factor(max_norm, g))
    together = transform(clip_by_global_norm, max_norm=max_norm, xp=xp)([array])
    for ours in (transform(clip_by_norm, max_norm=max_norm, xp=xp)(array), *together):
        # where a float16 is not normal, its roundings are those of the smallest one that is
        smallest = 2.0**-14 if dtype == "float16" else 0.0
        bound = tolerances.norm(g.size, dtype) * np.linalg.norm(np.maximum(np.abs(exact), smallest))
        assert np.linalg.norm(backend.to_numpy(ours) - exact) <= bound


# ---- zero, nothing and no number ----


@check("clipping")
def test_zero_gradient_stays_zero(backend, transform, dtype, xp):
    zero, array = rounded(np.zeros((3, 4)), backend, dtype)
    assert float(backend.to_numpy(transform(norm_factor, max_norm=1.0, xp=xp)(array))) == 1
    assert np.array_equal(backend.to_numpy(transform(clip_by_norm, max_norm=1.0, xp=xp)(array)), zero)
    assert np.array_equal(backend.to_numpy(transform(clip_by_value, limit=1.0, xp=xp)(array)), zero)


@check("clipping")
@EMPTY
def test_clipping_of_nothing_is_nothing(backend, transform, dtype, xp, shape):
    array = backend.from_numpy(np.zeros(shape), dtype)
    assert float(backend.to_numpy(transform(norm_factor, max_norm=1.0, xp=xp)(array))) == 1
    together = transform(clip_by_global_norm, max_norm=1.0, xp=xp)([array])
    by_norm, by_value = (
        transform(function, **options, xp=xp)(array)
        for function, options in ((clip_by_norm, {"max_norm": 1.0}), (clip_by_value, {"limit": 1.0}))
    )
    assert [(y.shape, y.dtype) for y in (*together, by_norm, by_value)] == [(array.shape, array.dtype)] * 3


@check("clipping")
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf], ids=str)
def test_bad_element_spoils_the_norm(backend, transform, dtype, xp, bad):
    array = backend.from_numpy(np.asarray([[1.0, bad], [0.0, 2.0]]), dtype)
    sound = backend.from_numpy(np.ones(3), dtype)
    with np.errstate(all="ignore"):
        factor = transform(norm_factor, max_norm=1.0, xp=xp)(array)
        ours = transform(clip_by_norm, max_norm=1.0, xp=xp)(array)
        together = transform(clip_by_global_norm, max_norm=1.0, xp=xp)([sound, array])
    for spoiled in (factor, ours, *together):
        assert np.isnan(backend.to_numpy(spoiled)).all()


# ---- values ----


@check("clipping")
@pytest.mark.original("I3")
@SHAPES
@pytest.mark.parametrize("limit", [0.1, 1, 1e5])
def test_values_are_clamped(backend, transform, dtype, xp, shape, limit):
    g, array = rounded(random(shape), backend, dtype)
    ours = transform(clip_by_value, limit=limit, xp=xp)(array)
    assert (ours.shape, ours.dtype) == (array.shape, array.dtype)
    values = backend.to_numpy(ours).astype(np.float64)
    exact = np.clip(g, -limit, limit)
    within = np.abs(g) <= limit
    assert np.array_equal(values[within], g[within])
    assert np.all(np.abs(values - exact) <= UNIT_ROUNDOFF[dtype] * np.abs(exact))
    assert unwritten(backend, array, g)


@check("clipping")
@pytest.mark.original("I3")
def test_infinite_values_become_the_limit_and_nan_stays(backend, transform, dtype, xp):
    array = backend.from_numpy(np.asarray([np.nan, np.inf, -np.inf, 3.0, -0.5]), dtype)
    with np.errstate(all="ignore"):
        ours = backend.to_numpy(transform(clip_by_value, limit=2.0, xp=xp)(array))
    assert np.array_equal(ours, [np.nan, 2.0, -2.0, 2.0, -0.5], equal_nan=True)


# ---- all tensors together ----


@check("clipping")
@pytest.mark.original("I6")
@pytest.mark.parametrize("share", [0.3, 1.5])
def test_global_norm_gives_all_one_factor(backend, transform, xp, share):
    shapes = ((6, 10), (), (3,), (0, 2), (2, 3, 4))
    dtypes = [backend.dtypes[i % len(backend.dtypes)] for i in range(len(shapes))]
    pairs = [rounded(random(shape, i), backend, dtypes[i]) for i, shape in enumerate(shapes)]
    grads, arrays = [g for g, _ in pairs], [array for _, array in pairs]
    max_norm = share * float(np.linalg.norm(np.concatenate([g.ravel() for g in grads])))
    outputs = transform(clip_by_global_norm, max_norm=max_norm, xp=xp)(arrays)
    exact = exact_factor(max_norm, *grads)
    bound = max(tolerances.norm(sum(g.size for g in grads), wide(dtype)) for dtype in dtypes)
    assert len(outputs) == len(arrays)
    for ours, g, array, dtype in zip(outputs, grads, arrays, dtypes, strict=True):
        assert (ours.shape, ours.dtype) == (array.shape, array.dtype)
        assert tensor_error(backend.to_numpy(ours), scaled(g, exact)) <= bound + UNIT_ROUNDOFF[dtype]
        assert (share < 1) or np.array_equal(backend.to_numpy(ours).astype(np.float64), g)
        assert unwritten(backend, array, g)


@check("clipping")
@EAGER
@pytest.mark.original("I6")
def test_global_norm_of_one_is_its_norm_and_of_none_is_none(backend, dtype, xp):
    array = backend.from_numpy(random((6, 10)), dtype)
    (together,) = clip_by_global_norm([array], 0.5, xp=xp)
    assert np.array_equal(backend.to_numpy(together), backend.to_numpy(clip_by_norm(array, 0.5, xp=xp)))
    assert clip_by_global_norm([], 0.5) == []


# ---- options ----


def every_clip(grad, other, bound, xp):
    together = clip_by_global_norm([grad, other], bound, xp=xp)
    return norm_factor(grad, bound, xp=xp), clip(grad, norm=bound, xp=xp), clip(grad, value=bound, xp=xp), *together


@check("clipping")
@REPRESENTATIVE
def test_bounds_may_be_arrays_that_change(backend, transform, dtype, xp):
    pairs = [rounded(random((6, 10), seed), backend, dtype) for seed in (0, 1)]
    (g, grad), (h, other) = pairs
    run = transform(every_clip, xp=xp)
    for bound in (0.5, 1.25, 100.0):
        factor, *outputs = run(grad, other, backend.from_numpy(np.asarray(bound), backend.dtypes[0]))
        one, both = exact_factor(bound, g), exact_factor(bound, g, h)
        exact = (scaled(g, one), np.clip(g, -bound, bound), scaled(g, both), scaled(h, both))
        error = tensor_error(backend.to_numpy(factor), np.asarray(float(one)))
        assert error <= tolerances.norm(g.size, wide(dtype))
        for ours, wanted in zip(outputs, exact, strict=True):
            assert (ours.shape, ours.dtype) == (grad.shape, grad.dtype)
            assert tensor_error(backend.to_numpy(ours), wanted) <= tolerances.norm(2 * g.size, dtype)
    if transform.traces:
        assert run.compilations(grad, other, backend.from_numpy(np.asarray(2.0), backend.dtypes[0])) == 0
    assert all(unwritten(backend, array, before) for before, array in pairs)


@check("clipping")
@EAGER
def test_clip_does_what_is_asked_for(backend, dtype, xp):
    array = backend.from_numpy(random((6, 10)), dtype)
    assert clip(array, xp=xp) is array
    pairs = [
        (clip(array, norm=0.5), clip_by_norm(array, 0.5, xp=xp)),
        (clip(array, value=0.5), clip_by_value(array, 0.5, xp=xp)),
    ]
    for ours, wanted in pairs:
        assert np.array_equal(backend.to_numpy(ours), backend.to_numpy(wanted))


@check("clipping")
@EAGER
@pytest.mark.original("I4", "I5", "R7")
def test_both_clips_are_refused(backend, xp):
    message = "clip_norm=1.0 and clip_value=0.5 are mutually exclusive; accepted: one of them"
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        require_clip(1.0, 0.5)
    with pytest.raises(ValueError, match="mutually exclusive"):
        clip(backend.from_numpy(np.ones(3), "float32"), norm=1.0, value=0.5, xp=xp)


BAD_BOUNDS = pytest.mark.parametrize(
    ("bound", "error"),
    [(np.nan, ValueError), (np.inf, ValueError), (0.0, ValueError), (-1, ValueError), ("1", TypeError),
     (True, TypeError), ([1.0], TypeError)],
    ids=str,
)  # fmt: skip


@check("clipping")
@EAGER
@BAD_BOUNDS
def test_wrong_bound_is_named(backend, xp, bound, error):
    array = backend.from_numpy(np.ones(3), "float32")
    calls = {
        "clip_norm": lambda: require_clip(bound, None),
        "clip_value": lambda: require_clip(None, bound),
        "max_norm": lambda: clip_by_norm(array, bound, xp=xp),
        "limit": lambda: clip_by_value(array, bound, xp=xp),
    }
    for name, call in calls.items():
        with pytest.raises(error, match=f"^{name}="):
            call()
    with pytest.raises(error, match=r"^max_norm="):
        norm_factor(array, bound, xp=xp)
    with pytest.raises(error, match=r"^max_norm="):
        clip_by_global_norm([array], bound, xp=xp)


@check("clipping")
@EAGER
def test_wrong_gradients_are_named(backend, xp):
    array = backend.from_numpy(np.ones((2, 3)), "float32")
    whole = xp.astype(array, xp.int32)
    for function in (norm_factor, clip_by_norm, clip_by_value):
        with pytest.raises(TypeError, match=r"^grad has dtype .*int32; accepted: real floating"):
            function(whole, 1.0, xp=xp)
    with pytest.raises(TypeError, match=r"^grads\[1\] has dtype .*int32; accepted: real floating"):
        clip_by_global_norm([array, whole], 1.0, xp=xp)
    with pytest.raises(TypeError, match=r"^grads is one array of shape \(2, 3\); accepted: a sequence"):
        clip_by_global_norm(array, 1.0, xp=xp)


# ---- in front of Muon ----


@check("clipping")
@pytest.mark.original("I7")
@pytest.mark.parametrize("max_norm", [1e-2, 0.7])
def test_first_direction_of_muon_does_not_see_the_norm_clip(backend, transform, dtype, xp, max_norm):
    g, array = rounded(matrices((8, 8)), backend, dtype)

    def run(grad):
        return muon_direction(clip(grad, norm=max_norm, xp=xp), None, MuonRecipe(), xp=xp)[0]

    exact = 0.2 * 8**0.5 * orthogonalized(g, quintics("keller", 5))
    assert max_norm < np.linalg.norm(g)
    ours = backend.to_numpy(transform(run)(array))
    assert matrix_errors(ours, exact) <= 2 * tolerances.iteration(g, quintics("keller", 5), dtype)


@check("clipping", dtypes=WIDE)
@pytest.mark.original("I7", "R17")
def test_first_direction_of_muon_survives_a_huge_neighbour(backend, transform, dtype, xp):
    (g, array), (_, huge) = rounded(matrices((8, 8)), backend, dtype), rounded(np.full(5, 1e12), backend, dtype)

    def run(grad, neighbour):
        clipped, _ = clip_by_global_norm([grad, neighbour], 1.0, xp=xp)
        return clipped, muon_direction(clipped, None, MuonRecipe(), xp=xp)[0]

    clipped, direction = (backend.to_numpy(y) for y in transform(run)(array, huge))
    exact = 0.2 * 8**0.5 * orthogonalized(g, quintics("keller", 5))
    assert np.linalg.norm(clipped) < 1e-7  # a floor of the norm as small as usual would still be above it
    assert matrix_errors(direction, exact) <= 2 * tolerances.iteration(g, quintics("keller", 5), dtype)
