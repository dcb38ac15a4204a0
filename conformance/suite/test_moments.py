"""Adam's direction: recorded numbers, closed forms, and a bias correction that is right from the first step."""

from fractions import Fraction

import numpy as np
import pytest

from zeropower import adaptive_moment
from zeropower.conformance.check import EAGER, REPRESENTATIVE, check
from zeropower.conformance.laws import rounded
from zeropower.conformance.tolerances import UNIT_ROUNDOFF, elementwise, tensor_error

WIDE = ("float64", "float32")  # a 16-bit second moment cannot decay, and is not asked to
GRADS = (0.5, -0.25, 0.1)
# Directions of three steps in float64, computed with an independent program.
REFERENCE = [
    (0.95, 1e-8, (0.99999998, 0.2683694412417256, 0.32128507074337437)),
    (0.999, 1e-5, (0.9999800003999921, 0.2663303009661272, 0.31523394831347484)),
]


def textbook(grads, beta_1=0.9, beta_2=0.95, eps=1e-8):
    """Kingma and Ba's algorithm 1, in float64: the last direction and both moments."""

    def bias(beta, t):
        return float(1 - Fraction(beta) ** t)  # in float64, 1 - 0.999^2 is wrong by a hundred units of roundoff

    first = second = direction = np.zeros_like(grads[0], dtype=np.float64)
    for t, g in enumerate(np.asarray(grads, dtype=np.float64), start=1):
        first = beta_1 * first + (1 - beta_1) * g
        second = beta_2 * second + (1 - beta_2) * g**2
        direction = first / bias(beta_1, t) / (np.sqrt(second / bias(beta_2, t)) + eps)
    return direction, first, second


@check("adaptive_moment", dtypes=WIDE)
@EAGER
@pytest.mark.original("B2", "B9")
@pytest.mark.parametrize(("beta_2", "eps", "expected"), REFERENCE)
def test_reference_directions(backend, dtype, xp, beta_2, eps, expected):
    moments = (None, None)
    for t, (g, wanted) in enumerate(zip(GRADS, expected, strict=True), start=1):
        g = backend.from_numpy(np.asarray(g), dtype)
        direction, *moments = adaptive_moment(g, *moments, t, beta_2=beta_2, eps=eps, xp=xp)
        recorded = UNIT_ROUNDOFF["float64"] / (1 - beta_2)  # they took 1 - beta^t as it stands
        assert tensor_error(backend.to_numpy(direction), np.asarray(wanted)) <= elementwise(dtype) + recorded


@check("adaptive_moment", dtypes=WIDE)
@pytest.mark.original("B2")
@pytest.mark.parametrize("kind", ["int", pytest.param("array", marks=REPRESENTATIVE)])
def test_every_step_is_the_textbook_s(backend, transform, dtype, xp, kind):
    grads = np.random.default_rng(0).standard_normal((3, 4, 5)).astype(dtype)
    run = transform(adaptive_moment, beta_2=0.999, xp=xp)
    state = (None, None, None)
    for t, g in enumerate(grads, start=1):
        step = t if kind == "int" else xp.asarray(t, dtype=xp.int32)
        state = run(backend.from_numpy(g, dtype), *state[1:], step)
        for ours, exact in zip(state, textbook(grads[:t], beta_2=0.999), strict=True):
            assert tensor_error(backend.to_numpy(ours), exact) <= elementwise(dtype)
    if transform.traces and kind == "array":
        again = [backend.from_numpy(x, dtype) for x in grads]
        assert run.compilations(*again, xp.asarray(9, dtype=xp.int32)) == 0


@check("adaptive_moment", dtypes=WIDE)
@EAGER
@pytest.mark.original("B1")
def test_no_moments_are_zeros(backend, dtype, xp):
    g = np.random.default_rng(0).standard_normal((4, 5))
    zeros = backend.from_numpy(np.zeros((4, 5)), dtype)
    g = backend.from_numpy(g, dtype)
    ours = adaptive_moment(g, None, None, 1, xp=xp)
    for none, zero in zip(ours, adaptive_moment(g, zeros, zeros, 1, xp=xp), strict=True):
        assert np.array_equal(backend.to_numpy(none), backend.to_numpy(zero))


@check("adaptive_moment", dtypes=WIDE)
@EAGER
@pytest.mark.original("B2")
@pytest.mark.parametrize("t", [1, 2, 10, 1000, 100_000])
@pytest.mark.parametrize("array", [False, True], ids=["int", "array"])
def test_constant_gradient_gives_its_sign_at_any_step(backend, dtype, xp, t, array):
    # (1 - beta^t) g and (1 - beta^t) g² are the moments after t steps of g: the correction takes just that away
    g, before, eps = 0.25, t - 1, 1e-3
    first = backend.from_numpy(np.asarray(-np.expm1(before * np.log(0.9)) * g), dtype)
    second = backend.from_numpy(np.asarray(-np.expm1(before * np.log(0.999)) * g**2), dtype)
    step = xp.asarray(t, dtype=xp.int32) if array else t
    x = backend.from_numpy(np.asarray(g), dtype)
    direction, *_ = adaptive_moment(x, first, second, step, beta_2=0.999, eps=eps, xp=xp)
    assert tensor_error(backend.to_numpy(direction), np.asarray(g / (g + eps))) <= elementwise(dtype)


@check("adaptive_moment", dtypes=WIDE)
@EAGER
@pytest.mark.original("B8")
def test_zero_gradient_decays_the_moments_alone(backend, dtype, xp):
    zero = backend.from_numpy(np.zeros(3), dtype)
    direction, *_ = adaptive_moment(zero, None, None, 1, xp=xp)
    assert not backend.to_numpy(direction).any()
    m, moment_1 = rounded(np.array([1.0, -2.0, 0.5]), backend, dtype)
    v, moment_2 = rounded(np.array([1.0, 4.0, 0.5]), backend, dtype)
    _, first, second = adaptive_moment(zero, moment_1, moment_2, 7, beta_1=0.9, beta_2=0.999, xp=xp)
    assert tensor_error(backend.to_numpy(first), 0.9 * m) <= elementwise(dtype)
    assert tensor_error(backend.to_numpy(second), 0.999 * v) <= elementwise(dtype)


@check("adaptive_moment", dtypes=WIDE)
def test_decays_may_be_arrays(backend, transform, dtype, xp):
    grads = np.random.default_rng(0).standard_normal((3, 4, 5)).astype(dtype)
    grads[2] **= 2  # a second moment is not negative

    def run(g, m, v, beta_1, beta_2, eps, step):
        return adaptive_moment(g, m, v, step, beta_1=beta_1, beta_2=beta_2, eps=eps, xp=xp)

    arrays = [backend.from_numpy(x, dtype) for x in grads]
    scalars = [backend.from_numpy(np.asarray(x), dtype) for x in (0.9, 0.999, 1e-8)]
    traced = transform(run)(*arrays, *scalars, xp.asarray(5, dtype=xp.int32))
    for array, number in zip(traced, run(*arrays, 0.9, 0.999, 1e-8, 5), strict=True):
        # float32(0.999) is not 0.999, and 1 - 0.999^5 feels that two hundred times over
        bound = elementwise(dtype) / (1 - 0.999**5)
        assert tensor_error(backend.to_numpy(array), backend.to_numpy(number)) <= bound


@check("adaptive_moment")
def test_moments_keep_dtype_and_arguments(backend, transform, dtype, xp):
    values = np.random.default_rng(0).uniform(0.5, 1.0, (3, 4, 5))
    kept, arrays = zip(*(rounded(x, backend, dtype) for x in values), strict=True)
    outputs = transform(adaptive_moment, xp=xp)(*arrays, xp.asarray(3, dtype=xp.int32))
    assert [y.dtype for y in outputs] == [arrays[0].dtype] * 3
    assert [y.shape for y in outputs] == [arrays[0].shape] * 3
    assert all(np.array_equal(backend.to_numpy(x), before) for x, before in zip(arrays, kept, strict=True))


@check("adaptive_moment")
@EAGER
def test_half_a_state_and_no_step_are_refused(backend, xp):
    x = backend.from_numpy(np.ones(3), "float32")
    with pytest.raises(ValueError, match=r"^moment_1 and moment_2"):
        adaptive_moment(x, x, None, 1, xp=xp)
    with pytest.raises(ValueError, match=r"^moment_1 and moment_2"):
        adaptive_moment(x, None, x, 1, xp=xp)
    with pytest.raises(ValueError, match=r"^step=0"):
        adaptive_moment(x, None, None, 0, xp=xp)


# ---- variants ----

VARIANTS = {
    "uncorrected": {"eps_mode": "uncorrected"},
    "clamp": {"eps_mode": "clamp"},
    "root": {"eps_root": 0.1},
    "nadam": {"nesterov": True},
    "no correction": {"bias_correction": False},
    "all": {"eps_mode": "uncorrected", "eps_root": 1e-2, "nesterov": True},
}


def variant(grads, eps, eps_mode="corrected", eps_root=0.0, bias_correction=True, nesterov=False, beta=(0.9, 0.95)):
    """The last direction, in float64, from the moments of the textbook."""
    t = len(grads)
    _, first, second = textbook(grads, *beta)
    bias = [float(1 - Fraction(b) ** k) if bias_correction else 1.0 for b, k in ((beta[0], t), (beta[1], t))]
    ahead = float(1 - Fraction(beta[0]) ** (t + 1)) if bias_correction else 1.0
    mean = first / bias[0]
    if nesterov:
        mean = beta[0] * first / ahead + (1 - beta[0]) * grads[-1] / bias[0]
    if eps_mode == "uncorrected":
        return mean * bias[1] ** 0.5 / (np.sqrt(second + eps_root) + eps)
    root = np.sqrt(second / bias[1] + eps_root)
    return mean / (root + eps if eps_mode == "corrected" else np.maximum(root, eps))


@check("adaptive_moment", dtypes=WIDE)
@EAGER
@pytest.mark.parametrize("name", VARIANTS)
def test_variants_are_the_written_formulas(backend, dtype, xp, name):
    eps = 0.3  # so large that its place shows
    grads = np.random.default_rng(0).standard_normal((4, 4, 5)).astype(dtype).astype(np.float64)
    moments = (None, None)
    for t, g in enumerate(grads, start=1):
        array = backend.from_numpy(g, dtype)
        direction, *moments = adaptive_moment(array, *moments, t, eps=eps, xp=xp, **VARIANTS[name])
        exact = variant(grads[:t], eps, **VARIANTS[name])
        assert tensor_error(backend.to_numpy(direction), exact) <= elementwise(dtype)
    plain = variant(grads, eps)
    assert tensor_error(exact, plain) > 1e-2  # the variant shows


@check("adaptive_moment", dtypes=("float32",))
@EAGER
def test_an_unknown_place_of_eps_is_refused(backend, dtype, xp):
    array = backend.from_numpy(np.ones(3), dtype)
    with pytest.raises(
        ValueError, match=r"eps_mode='inside' is not known; accepted: 'corrected', 'uncorrected', 'clam"
    ):
        adaptive_moment(array, None, None, 1, eps_mode="inside", xp=xp)
