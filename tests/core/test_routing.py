"""Rules in precedence, plans that print and survive JSON, and paths as models write them."""

import pytest

from zeropower import DEFAULT_RULES, IN_OUT, OUT_IN, MatrixLayout, ParamInfo, RoutePlan, Rule, route_params

MODEL = {
    "embed.weight": (256, 64),
    "blocks.0.attn.q.weight": (64, 64),
    "blocks.0.attn.q.bias": (64,),
    "blocks.0.norm.weight": (64,),
    "blocks.0.mlp.up.weight": (256, 64),
    "head.weight": (256, 64),
}


def optimizers(params, **options):
    return {path: route.optimizer for path, route in route_params(params, **options).items()}


def test_matrices_inside_go_to_muon_and_all_else_to_adamw():
    assert optimizers(MODEL) == {path: "muon" if ("q.weight" in path or "up" in path) else "adamw" for path in MODEL}


def test_the_separator_does_not_matter():
    slashed = {path.replace(".", "/"): shape for path, shape in MODEL.items()}
    assert list(optimizers(slashed).values()) == list(optimizers(MODEL).values())


@pytest.mark.parametrize("prefix", ["_orig_mod.", "module.", "module._orig_mod."])
def test_wrappers_do_not_hide_a_name(prefix):
    assert optimizers({prefix + "output.weight": (256, 64)}) == {prefix + "output.weight": "adamw"}


@pytest.mark.parametrize(
    ("path", "shape"),
    [
        ("transformer.wte.weight", (256, 64)),
        ("transformer.wpe.weight", (128, 64)),
        ("tok_embeddings.weight", (256, 64)),
        ("lm_head.weight", (256, 64)),
        ("output.weight", (256, 64)),
        ("classifier.weight", (10, 64)),
        ("attn/query/bias", (4, 16)),
        ("fc.weight", (1, 64)),
        ("fc.weight", (64, 1)),
        ("gamma", (64, 1, 1)),
        ("conv.weight", (64, 32, 3, 3)),
        ("norm1.weight", (4, 64)),
        ("scale", ()),
    ],
)
def test_what_is_no_hidden_matrix_goes_to_adamw(path, shape):
    assert optimizers({path: shape}) == {path: "adamw"}


@pytest.mark.parametrize("path", ["bert.attention.output.dense.weight", "patch_embed.proj.weight", "subhead.weight"])
def test_a_name_that_only_resembles_a_head_or_an_embedding_is_a_hidden_matrix(path):
    assert optimizers({path: (64, 48)}) == {path: "muon"}


def test_module_classes_decide_before_names():
    info = ParamInfo((256, 64), module_types=("MyEmbedding", "Embedding", "Module"))
    assert optimizers({"words.weight": info}) == {"words.weight": "adamw"}


@pytest.mark.original("H11")
def test_any_path_of_a_shared_parameter_counts():
    tied = ParamInfo((256, 64), aliases=("lm_head.weight",))
    assert optimizers({"inner.weight": tied}) == {"inner.weight": "adamw"}


def test_the_first_rule_that_matches_decides():
    mine = Rule(optimizer="muon", reason="on purpose", path=("head/*",))
    plan = route_params(MODEL, rules=(mine, *DEFAULT_RULES))
    assert (plan["head.weight"].optimizer, plan["head.weight"].reason) == ("muon", "on purpose")


@pytest.mark.original("H1", "H2", "H5", "H6")
def test_a_rule_by_last_component_matches_it_exactly():
    rule = Rule(optimizer="muon", reason="burn", last=("encoder", "lm_head"), ndim=(2, 3))
    rest = Rule(optimizer="adamw", reason="rest")
    shapes = {
        "a.encoder": (2, 3, 4),
        "lm_head": (4, 8),
        "lm_head.weight": (4, 8),
        "a.encoder_x": (4, 8),
        "b.encoder": (4,),
    }
    assert list(optimizers(shapes, rules=(rule, rest)).values()) == ["muon", "muon", "adamw", "adamw", "adamw"]
    assert optimizers({"": (4, 8)}, rules=(rule, rest)) == {"": "adamw"}


@pytest.mark.original("H13")
def test_an_uncovered_parameter_is_an_error():
    with pytest.raises(ValueError, match=r"no route for 'b' of shape \(4, 4\)"):
        route_params({"a": (4,), "b": (4, 4)}, rules=(Rule(optimizer="adamw", reason="vectors", max_ndim=1),))


def test_layouts_come_from_the_rule_or_the_default():
    experts = Rule(optimizer="muon", reason="experts", ndim=(3,), layout=OUT_IN)
    plan = route_params({"experts": (8, 64, 32), "w": (64, 32)}, rules=(experts, *DEFAULT_RULES), layout=IN_OUT)
    assert plan["experts"].layout == OUT_IN
    assert plan["w"].layout == IN_OUT
    assert plan["w"].layout.fans((64, 32)) == (32, 64)


def test_a_layout_that_does_not_fit_is_an_error():
    wrong = Rule(optimizer="muon", reason="wrong", layout=MatrixLayout(fan_out=(0,), fan_in=(3,)))
    with pytest.raises(ValueError, match="does not fit the shape"):
        route_params({"w": (4, 4)}, rules=(wrong,))


def test_a_plan_survives_json_and_compares():
    plan = route_params(MODEL)
    again = RoutePlan.from_json(plan.to_json())
    assert (again, hash(again), str(again)) == (plan, hash(plan), str(plan))
    assert again != route_params({**MODEL, "x": (2, 2)})


def test_the_table_names_every_parameter_with_its_reason():
    lines = str(route_params({**MODEL, "frozen.weight": ParamInfo((64, 64), trainable=False)})).splitlines()
    assert [line.split()[0] for line in lines[1:8]] == [*MODEL, "frozen.weight"]
    assert lines[7].endswith("hidden matrix (frozen)")
    assert lines[-2:] == ["muon: 3 parameters, 24,576 elements", "adamw: 4 parameters, 32,896 elements"]


def test_an_unknown_optimizer_is_refused():
    with pytest.raises(ValueError, match="optimizer='sgd' is not known; accepted: 'muon', 'adamw'"):
        Rule(optimizer="sgd", reason="no")
