"""Second moments of a direction against written-out formulas: NorMuon's, AdaMuon's and what lies between."""

import numpy as np
import pytest

from zeropower import OUT_IN, MatrixLayout, MuonRecipe, MuonState, SecondMoment, muon_direction
from zeropower.conformance.check import EAGER, REPRESENTATIVE, check
from zeropower.conformance.laws import rounded
from zeropower.conformance.oracles import matrices
from zeropower.conformance.tolerances import elementwise, tensor_error

WIDE = ("float64", "float32")
KINDS = {
    "normuon": {"per": "fan_out", "eps": 1e-10},
    "longer side": {"per": "longer_side", "beta": 0.9, "eps": 1e-3, "eps_mode": "clamp"},
    "adamuon": {"per": "element", "eps": 1e-2, "rescale": "orthogonal"},
    "corrected": {"per": "element", "eps": 1e-7, "bias_correction": True, "rescale": "none"},
    "rows corrected": {"per": "fan_out", "eps": 1e-2, "eps_mode": "clamp", "bias_correction": True},
}


def textbook(directions, per, beta=0.95, eps=1e-8, eps_mode="add", bias_correction=False, rescale="norm"):
    """The last direction and moment, for stacks (..., fan-out, fan-in)."""
    moment = 0.0
    for t, u in enumerate(directions, start=1):
        wide = u.shape[-2] < u.shape[-1]
        axis = {"fan_out": -1, "longer_side": -2 if wide else -1, "element": None}[per]
        mean = u**2 if axis is None else np.mean(u**2, axis=axis, keepdims=True)
        moment = beta * moment + (1 - beta) * mean
        v = moment / (1 - beta**t) if bias_correction else moment
        out = u / (np.sqrt(v) + eps if eps_mode == "add" else np.sqrt(np.maximum(v, eps)))
        norm = np.sqrt(np.sum(out**2, axis=(-2, -1), keepdims=True))
        norm = norm + eps if eps_mode == "add" else np.maximum(norm, eps)
        before = np.sqrt(np.sum(u**2, axis=(-2, -1), keepdims=True))
        factor = {"none": 1.0, "norm": before / norm, "orthogonal": min(u.shape[-2:]) ** 0.5 / norm}[rescale]
    return out * factor, moment


@check("second_moment", dtypes=WIDE)
@pytest.mark.parametrize(
    ("kind", "shape"),
    [
        pytest.param("corrected", (3, 4, 6), marks=REPRESENTATIVE),
        *((kind, shape) for kind in KINDS for shape in ((6, 10), (10, 6), (5, 5))),
    ],
    ids=str,
)
def test_every_step_is_the_formula_s(backend, transform, dtype, xp, kind, shape):
    how = SecondMoment(**KINDS[kind])
    values, arrays = zip(*(rounded(matrices(shape, seed), backend, dtype) for seed in range(3)), strict=True)

    def run(direction, moment, step):
        return how.apply(direction, moment, OUT_IN, step=step, xp=xp)

    run, moment = transform(run), None
    for t, array in enumerate(arrays, start=1):
        direction, moment = run(array, moment, xp.asarray(t, dtype=xp.int32))
        exact, exact_moment = textbook(values[:t], **KINDS[kind])
        assert direction.dtype == moment.dtype == array.dtype
        assert moment.shape == exact_moment.shape == how.shape(shape, OUT_IN)
        assert tensor_error(backend.to_numpy(direction), exact) <= elementwise(dtype)
        assert tensor_error(backend.to_numpy(moment), exact_moment) <= elementwise(dtype)


@check("second_moment", dtypes=WIDE)
@EAGER
@pytest.mark.parametrize("kind", KINDS)
def test_a_layout_says_what_is_fan_out(backend, dtype, xp, kind):
    """A parameter (in, a, b, out) has the moments of the matrix (out, in a b) that it is a view of."""
    how = SecondMoment(**KINDS[kind])
    layout = MatrixLayout(fan_out=(-1,), fan_in=(-4, -3, -2))
    x, array = rounded(np.random.default_rng(0).standard_normal((3, 2, 2, 5)), backend, dtype)
    ours, moment = how.apply(array, None, layout, step=1, xp=xp)
    exact, _ = textbook([np.moveaxis(x, -1, 0).reshape(5, 12)], **KINDS[kind])
    assert moment.shape == how.shape(x.shape, layout)
    error = tensor_error(np.moveaxis(backend.to_numpy(ours), -1, 0).reshape(5, 12), exact)
    assert error <= elementwise(dtype)


@check("second_moment", dtypes=WIDE)
@EAGER
@pytest.mark.parametrize("kind", KINDS)
def test_a_zero_direction_stays_zero(backend, dtype, xp, kind):
    zero = backend.from_numpy(np.zeros((2, 3, 4)), dtype)
    for eps in (KINDS[kind]["eps"], 0.0):
        how = SecondMoment(**{**KINDS[kind], "eps": eps})
        direction, moment = how.apply(zero, None, OUT_IN, step=1, xp=xp)
        assert not backend.to_numpy(direction).any()
        assert not backend.to_numpy(moment).any()


@check("second_moment", dtypes=WIDE)
@EAGER
def test_a_direction_keeps_its_second_moment(backend, dtype, xp):
    """The recipe's own comes between the iteration and the scale."""
    recipe = MuonRecipe(second_moment=SecondMoment(**KINDS["adamuon"]), method="standard")
    plain = MuonRecipe(method="standard", scale="none")
    (_, grad), (_, other) = (rounded(matrices((6, 10), seed), backend, dtype) for seed in (0, 1))
    state, plain_state, directions = None, None, []
    for each in (grad, other):
        direction, state = muon_direction(each, state, recipe, xp=xp)
        iterated, plain_state = muon_direction(each, plain_state, plain, xp=xp)
        directions.append(backend.to_numpy(iterated))
    exact, moment = textbook(directions, **KINDS["adamuon"])
    assert isinstance(state, MuonState)
    assert tensor_error(backend.to_numpy(direction), 0.2 * 10**0.5 * exact) <= elementwise(dtype)
    assert tensor_error(backend.to_numpy(state.moment_2), moment) <= elementwise(dtype)
    assert plain_state.moment_2 is None


@check("second_moment", dtypes=("float32",))
@EAGER
def test_a_corrected_moment_needs_the_step(backend, dtype, xp):
    array = backend.from_numpy(np.ones((2, 3)), dtype)
    with pytest.raises(ValueError, match=r"step=None; accepted with bias_correction=True"):
        SecondMoment(bias_correction=True).apply(array, None, OUT_IN, step=None, xp=xp)
