"""Recipes are values, and unsound ones cannot be built."""

import pickle

import pytest

from zeropower import DIALECTS, AdamWRecipe, Dialect, MuonRecipe
from zeropower.coefficients import after_division
from zeropower.dialects import get_dialect
from zeropower.restarts import SOUND, tried_to_blow_up


def test_recipes_compare_hash_and_pickle_whatever_sequence_was_given():
    recipe = MuonRecipe(coefficients=[[3.4445, -4.7750, 2.0315]], steps=5)
    assert recipe == MuonRecipe(coefficients=(3.4445, -4.7750, 2.0315))
    assert hash(recipe) == hash(pickle.loads(pickle.dumps(recipe)))
    assert recipe.triples == MuonRecipe(coefficients="keller").triples


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"steps": 0}, "steps=0 is out of range; accepted: integers >= 1"),
        ({"momentum": 1.0}, r"momentum=1.0 is out of range; accepted: a finite number in \[0.0, 1.0\)"),
        ({"momentum": float("nan")}, "momentum=nan"),
        ({"momentum_form": "sgd"}, "momentum_form='sgd' is not known; accepted: 'ema', 'heavy_ball'"),
        ({"normalize": "spectral"}, "normalize='spectral' is not known"),
        ({"eps": -1e-7}, "eps=-1e-07 is out of range"),
        ({"compute_dtype": "float8"}, "compute_dtype='float8' is not known"),
        ({"scale": "rms"}, "scale='rms' is not known"),
        ({"method": "fast"}, "method='fast' is not known"),
        ({"restarts": (-1,)}, "restarts=.* accepted: 'auto' or 0-based steps"),
    ],
)
def test_a_wrong_field_is_named(fields, message):
    with pytest.raises(ValueError, match=message):
        MuonRecipe(**fields)


def test_coefficients_that_rounding_can_blow_up_are_refused():
    # The Polar Express triples without a safety factor: 1.001 ends at 6e20 after five steps.
    raw = (
        (8.28721201814563, -23.595886519098837, 17.300387312530933),
        (4.107059111542203, -2.9478499167379106, 0.5448431082926601),
        (3.9486908534822946, -2.908902115962949, 0.5518191394370137),
        (3.3184196573706015, -2.488488024314874, 0.51004894012372),
        (2.300652019954817, -1.6689039845747493, 0.4188073119525673),
    )
    with pytest.raises(ValueError, match=r"blow up beyond .*\(a safety factor 1\.\d+ times as large would do\)"):
        MuonRecipe(coefficients=raw)


def test_coefficients_that_reverse_a_direction_are_refused():
    with pytest.raises(ValueError, match="turn a singular value in"):
        MuonRecipe(coefficients=(0.5, -1.5, 0.0), steps=1)


@pytest.mark.parametrize("fields", [{"beta_1": 1.0}, {"beta_2": -0.1}, {"eps": float("inf")}])
def test_a_wrong_field_of_adamw_is_named(fields):
    with pytest.raises(ValueError, match=next(iter(fields))):
        AdamWRecipe(**fields)


def test_dialects_are_found_by_name_or_given():
    assert get_dialect("torch") is DIALECTS["torch"]
    own = Dialect(muon=MuonRecipe(), adamw=AdamWRecipe(), lr=1e-3, weight_decay=0.0)
    assert get_dialect(own) is own
    with pytest.raises(ValueError, match="dialect='troch' is not known; accepted: 'zeropower', 'keller', 'torch'"):
        get_dialect("troch")


@pytest.mark.original("E8", "R13")
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_restarts_that_blow_up_are_refused(dtype):
    steps = {"float16": 7, "bfloat16": 6, "float32": 12}[dtype]  # measured: singular values of 33, 10 and 3e8
    recipe = {"coefficients": "keller", "restarts": (2,), "compute_dtype": dtype}
    MuonRecipe(steps=5, **recipe)
    with pytest.raises(ValueError, match=rf"restarts=\(2,\) blow up in {dtype} with these .* {steps} steps; accepted"):
        MuonRecipe(steps=steps, **recipe)
    MuonRecipe(steps=steps, **{**recipe, "restarts": tuple(range(1, steps))})  # the standard loop, in effect
    MuonRecipe(steps=steps, method="standard", **recipe)  # which has none


def test_plans_of_the_dialects_have_been_tried():
    assert not any(tried_to_blow_up(*plan) for plan in SOUND)
    given = [dialect.muon for dialect in DIALECTS.values() if dialect.muon.restarts != "auto"]
    plans = {(after_division(each.triples, each.safety), each.restarts, each.compute_dtype) for each in given}
    assert plans == SOUND
