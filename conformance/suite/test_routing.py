"""Routing sees paths and shapes, whoever's arrays they are."""

import numpy as np
import pytest

from zeropower import IN_OUT, OUT_IN, ParamInfo, RoutePlan, Rule, route_params
from zeropower.conformance.check import check

MODEL = {  # path -> shape, optimizer
    "transformer.wte.weight": ((32, 8), "adamw"),
    "model.embed_tokens.weight": ((32, 8), "adamw"),
    "blocks.0.attn.q.weight": ((8, 8), "muon"),
    "blocks.0.attn.q.bias": ((8,), "adamw"),
    "blocks.0.mlp.up.weight": ((16, 8), "muon"),
    "blocks.0.ln_1.weight": ((8,), "adamw"),
    "blocks.0.attn.q_norm.scale": ((2, 8), "adamw"),
    "blocks.0.gain.weight": ((8, 1), "adamw"),
    "blocks.0.gain.scale": ((1, 8, 1), "adamw"),
    "blocks.0.conv.weight": ((8, 4, 3), "adamw"),
    "output_projection.kernel": ((8, 8), "muon"),
    "lm_head.weight": ((32, 8), "adamw"),
    "output.weight": ((32, 8), "adamw"),
    "temperature": ((), "adamw"),
}


@check("routing")
def test_default_rules_send_hidden_matrices_to_muon(backend):
    arrays = {path: backend.from_numpy(np.zeros(shape), "float32") for path, (shape, _) in MODEL.items()}
    plan = route_params(arrays)
    assert {path: route.optimizer for path, route in plan.items()} == {path: name for path, (_, name) in MODEL.items()}
    assert {path: route.shape for path, route in plan.items()} == {path: shape for path, (shape, _) in MODEL.items()}
    assert all(route.reason for route in plan.values())
    assert [route.layout for route in plan.values() if route.optimizer == "muon"] == [OUT_IN] * 3


@check("routing")
def test_arrays_shapes_and_infos_give_equal_plans(backend):
    arrays = {path: backend.from_numpy(np.zeros(shape), "float32") for path, (shape, _) in MODEL.items()}
    shapes = {path: shape for path, (shape, _) in MODEL.items()}
    infos = {path: ParamInfo(shape) for path, shape in shapes.items()}
    assert route_params(arrays) == route_params(shapes) == route_params(infos)
    slashed = route_params({path.replace(".", "/"): array for path, array in arrays.items()})
    assert [route.optimizer for route in slashed.values()] == [name for _, name in MODEL.values()]


@check("routing")
def test_plan_is_a_value(backend):
    arrays = {path: backend.from_numpy(np.zeros(shape), "float32") for path, (shape, _) in MODEL.items()}
    plan = route_params(arrays, layout=IN_OUT)
    assert RoutePlan.from_json(plan.to_json()) == plan
    assert hash(RoutePlan.from_json(plan.to_json())) == hash(plan)
    assert plan != route_params(arrays)
    printed = str(plan).splitlines()
    assert all(any(path in line and route.reason in line for line in printed) for path, route in plan.items())


@check("routing")
@pytest.mark.original("H13")
def test_own_rules_come_first_and_none_is_dropped(backend):
    x = backend.from_numpy(np.zeros((4, 6)), "float32")
    rules = (Rule(optimizer="adamw", reason="mine", last=("kernel",)),)
    assert route_params({"a/kernel": x}, rules=rules)["a/kernel"].reason == "mine"
    with pytest.raises(ValueError, match="a/other"):
        route_params({"a/kernel": x, "a/other": x}, rules=rules)
