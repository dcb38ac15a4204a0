"""The two original systems as dialects, and what their routes, layouts and recipes decide."""

import numpy as np
import pytest

from zeropower import CONV, DIALECTS, HEADS, MERGED_HEADS, OUT_IN, ParamInfo, muon_step, route_params
from zeropower.dialect_rules import BURN_DRAGON_TARGETS, burn_dragon_rules
from zeropower.recipes import computed_in

BURN, SINGER = DIALECTS["burn-dragon"], DIALECTS["diffsinger"]
# BDH with 4 heads, width 256 and latent width 1024
BDH = {
    "encoder": (4, 256, 256),
    "encoder_v": (4, 256, 256),
    "decoder": (1024, 256),
    "lm_head": (256, 256),
    "rwkv_time_decay": (4, 256),
    "embed.weight": (256, 256),
}


@pytest.mark.original("H1", "H2", "H3", "H7", "H12")
def test_bdh_is_routed_as_its_optimizer_does():
    plan = route_params(BDH, rules=BURN.rules)
    assert plan.paths("muon") == ["encoder", "encoder_v", "decoder", "lm_head"]
    assert plan["encoder"].layout == plan["decoder"].layout == OUT_IN
    linear = route_params({"lm_head.weight": (256, 256)}, rules=BURN.rules)  # its name is "weight"
    assert linear.paths("muon") == []


@pytest.mark.original("H3")
def test_default_targets_are_ten():
    assert len(set(BURN_DRAGON_TARGETS)) == 10
    shapes = dict.fromkeys(BURN_DRAGON_TARGETS, (4, 6))
    assert route_params(shapes, rules=BURN.rules).paths("muon") == list(BURN_DRAGON_TARGETS)


@pytest.mark.original("H4", "H5", "H6", "F5")
def test_own_targets_replace_the_default_and_ranks_come_first():
    params = {
        "mixer": (3, 4),
        "encoder": (4, 6),
        "a/mixer": (2, 3, 4),
        "b/mixer": (5,),
        "c/mixer": (2, 2, 3, 4),
        "": (3, 4),
    }
    plan = route_params(params, rules=burn_dragon_rules(["mixer"]))
    assert plan.paths("muon") == ["mixer", "a/mixer"]


@pytest.mark.original("H7", "R9")
def test_a_target_may_be_a_module_around_the_parameter():
    shapes = {"lm_head.weight": (6, 8), "lm_head.bias": (6,), "my_lm_head.weight": (6, 8), "deep/*/kernel": (6, 8)}
    assert route_params(shapes, rules=burn_dragon_rules(["lm_head", "*"])).paths("muon") == []
    rules = burn_dragon_rules(["lm_head", "*"], match="component")
    assert route_params(shapes, rules=rules).paths("muon") == ["lm_head.weight", "deep/*/kernel"]
    accepted = r"^match='first' is not known; accepted: 'last', 'component'"
    with pytest.raises(ValueError, match=accepted):
        burn_dragon_rules(match="first")


@pytest.mark.original("F2", "F3", "F7")
def test_heads_split_or_merge():
    split = route_params({"encoder": (4, 6, 5)}, rules=burn_dragon_rules())["encoder"].layout
    merged = route_params({"encoder": (4, 6, 5)}, rules=burn_dragon_rules(split_heads=False))["encoder"].layout
    assert split.matrix_shape((4, 6, 5)) == (4, 6, 5)
    assert merged.matrix_shape((4, 6, 5)) == (1, 24, 5)
    x = np.random.default_rng(0).standard_normal((1, 6, 5))
    one, _ = muon_step(x, x, None, BURN.muon, lr=0.1, layout=split)
    other, _ = muon_step(x, x, None, BURN.muon, lr=0.1, layout=merged)
    np.testing.assert_allclose(one, other, rtol=1e-12)


@pytest.mark.original("F5", "F8")
@pytest.mark.parametrize("shape", [(5,), (2, 3, 4, 5)])
def test_headwise_muon_takes_two_or_three_axes(shape):
    for layout in (HEADS, MERGED_HEADS):
        with pytest.raises(ValueError, match="does not fit the shape"):
            layout.fans(shape)
    assert CONV.fans((2, 3, 4, 5)) == (2, 60)


@pytest.mark.original("F4")
def test_kernels_are_flattened_over_everything_but_the_output():
    assert CONV.matrix_shape((8, 3, 5)) == (1, 8, 15)
    assert CONV.at(4).fan_in == (-3, -2, -1)
    assert CONV.at(2) == OUT_IN


@pytest.mark.original("H8", "H10")
def test_excluded_classes_take_their_subtree_along():
    inside = ParamInfo((8, 8), ancestor_types=("Linear", "Block", "AdamWLinear", "Net"))
    outside = ParamInfo((8, 8), ancestor_types=("Linear", "Net"))
    plan = route_params({"a": inside, "b": outside, "kernel": (8, 3, 5), "bias": (8,)}, rules=SINGER.rules)
    assert plan.paths("muon") == ["b", "kernel"]
    assert plan["kernel"].layout.fans((8, 3, 5)) == (8, 15)


@pytest.mark.original("B6", "E8", "R15", "R19")
def test_defaults_are_those_of_the_originals():
    assert (BURN.adamw.beta_1, BURN.adamw.beta_2, BURN.adamw.eps) == (0.9, 0.999, 1e-5)
    assert (BURN.muon.momentum, BURN.muon.momentum_form, BURN.muon.nesterov) == (0.95, "heavy_ball", True)
    assert (BURN.muon.steps, BURN.muon.eps, BURN.muon.eps_mode) == (5, 1e-7, "clamp")
    assert (SINGER.lr, SINGER.weight_decay, SINGER.adamw_weight_decay) == (5e-4, 0.1, 0.0)
    assert (SINGER.muon.momentum_form, SINGER.muon.scale, SINGER.muon.restarts) == ("ema", "rms_one", (2,))
    gain = route_params({"weight_g": (8, 1, 1)}, rules=SINGER.rules)  # the original orthogonalises it
    assert gain.paths("adamw") == ["weight_g"]


@pytest.mark.original("R14")
def test_restarts_are_found_anew_where_a_coarser_dtype_is_substituted():
    assert computed_in(SINGER.muon, "float16") is SINGER.muon
    assert computed_in(SINGER.muon, "float32") is SINGER.muon
    assert computed_in(SINGER.muon, "bfloat16").restarts == "auto"
    assert computed_in(BURN.muon, "bfloat16") is BURN.muon
