"""Recipes are values, and unsound ones cannot be built."""

import ast
import pickle
import re

import pytest

from zeropower import DIALECTS, AdamWRecipe, Dialect, MuonRecipe, SecondMoment
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
    sound = [dialect.muon for dialect in DIALECTS.values() if not dialect.muon.unsound]
    given = [recipe for recipe in sound if recipe.restarts != "auto"]
    plans = {(after_division(each.triples, each.safety), each.restarts, each.compute_dtype) for each in given}
    assert plans == SOUND


# ---- a recipe as a whole ----


def test_frobenius_with_the_aol_table_is_refused():
    """Emerging-Optimizers' combination: the leading direction of a nearly rank-one gradient would be reversed."""
    message = r"coefficients=.* negative, from 0\.883\d on; .* \(a safety factor 1\.133 times as large would do\)"
    with pytest.raises(ValueError, match=message):
        MuonRecipe(coefficients="aol", steps=4)
    MuonRecipe(coefficients="aol", steps=4, safety=1.134)  # as the message says


def test_eight_float16_gram_steps_with_one_restart_are_refused():
    fields = {"steps": 8, "method": "gram", "compute_dtype": "float16"}
    with pytest.raises(ValueError, match=r"restarts=\(2,\) blow up in float16 .* 8 steps; .*, such as \(") as raised:
        MuonRecipe(restarts=(2,), **fields)
    suggested = re.search(r"such as (\(.*\))", str(raised.value))
    MuonRecipe(restarts=ast.literal_eval(suggested[1]), **fields)


@pytest.mark.parametrize("table", ["polar_express_raw", "cans"])
def test_tables_without_headroom_need_a_safety_factor(table):
    with pytest.raises(ValueError, match=r"blow up beyond a singular value of 1; accepted: bounded up to 1\.004"):
        MuonRecipe(coefficients=table)
    MuonRecipe(coefficients=table, safety=1.01)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"decay": "late"}, "decay='late' is not known; accepted: 'before', 'after', 'gradient', 'none'"),
        ({"decay_rate": "lr2"}, "decay_rate='lr2' is not known; accepted: 'lr', 'scaled_lr'"),
        ({"decay_mask": "cautious"}, "decay_mask='cautious' is not known; accepted: 'none', 'aligned'"),
        ({"decay": "gradient", "decay_mask": "aligned"}, "decay='gradient' with decay_rate='lr', decay_mask='aligned'"),
        ({"safety": 0.99}, r"safety=0\.99 is out of range; accepted: a finite number in \[1"),
        ({"cast": "first"}, "cast='first' is not known; accepted: 'after_norm', 'before_norm'"),
        ({"scale_factor": 0.0}, r"scale_factor=0\.0 is out of range"),
    ],
)
def test_a_wrong_axis_is_named(fields, message):
    with pytest.raises(ValueError, match=message):
        MuonRecipe(**fields)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"per": "row"}, r"second_moment\.per='row' is not known; accepted: 'fan_out', 'longer_side', 'element'"),
        ({"beta": 1.0}, r"second_moment\.beta=1\.0 is out of range"),
        ({"eps": -1.0}, r"second_moment\.eps=-1\.0 is out of range"),
        ({"rescale": "rms"}, r"second_moment\.rescale='rms' is not known; accepted: 'none', 'norm', 'orthogonal'"),
    ],
)
def test_a_wrong_second_moment_is_named(fields, message):
    with pytest.raises(ValueError, match=message):
        SecondMoment(**fields)


def test_an_unsound_dialect_warns_once_with_the_words_of_the_refusal():
    fields = {"coefficients": "aol", "steps": 4, "momentum": 0.123}
    with pytest.raises(ValueError, match="coefficients=") as refused:
        MuonRecipe(**fields)
    own = Dialect(muon=MuonRecipe(unsound=True, **fields), adamw=AdamWRecipe(), lr=1e-3, weight_decay=0.0)
    with pytest.warns(UserWarning, match="the dialect reproduces an unsound recipe: ") as warned:
        get_dialect(own)
    assert str(refused.value) in str(warned[0].message)
    assert get_dialect(own) is own  # a second warning would be an error here


def test_only_what_is_unsound_says_so():
    for name, dialect in DIALECTS.items():
        assert (dialect.muon.flaw() is not None) == dialect.muon.unsound, name


def test_rates_of_a_dialect_are_checked():
    with pytest.raises(ValueError, match=r"adamw_lr=-1 is out of range"):
        Dialect(muon=MuonRecipe(), adamw=AdamWRecipe(), lr=1e-3, weight_decay=0.0, adamw_lr=-1)
