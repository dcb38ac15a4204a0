"""What configurations mean: the optimizer, its recipes and routes, and the schedule of the learning rate."""

from dataclasses import replace

import pytest

from zeropower import DIALECTS, AdamWRecipe, ParamInfo, route_params
from zeropower.config import OptimizerConfig
from zeropower.dialect_rules import BURN_DRAGON_TARGETS, burn_dragon_rules
from zeropower.resolution import Resolution, resolve, resolve_lr_schedule
from zeropower.schedules import Constant, Cosine, Exponential, Linear, Noam, StepDecay, TwoStage

BASE = {"learning_rate": 1e-3, "weight_decay": 0.1}
MUON = {"enabled": True}
HYBRID = {**BASE, "name": "muon_hybrid_exp", "muon": MUON}


def config(**fields) -> OptimizerConfig:
    return OptimizerConfig.from_dict({**BASE, **fields})


# ---- the schedule of the learning rate -----------------------------------------------------------------------------


@pytest.mark.original("K5")
@pytest.mark.parametrize("mode", ["bitnet_b158_reference", "hybrid"])
@pytest.mark.parametrize(
    "base", [BASE, {**BASE, "name": "bitnet_published"}, HYBRID], ids=["adamw", "bitnet", "hybrid"]
)
def test_without_a_schedule_the_mode_decides(base, mode):
    assert resolve_lr_schedule(OptimizerConfig.from_dict(base), 10) == Constant(lr=1e-3)
    staged = OptimizerConfig.from_dict({**base, "schedule_mode": mode})
    assert resolve_lr_schedule(staged, 10) == TwoStage(peak=1e-3, total_steps=10)
    assert resolve_lr_schedule(staged, 0, num_iters=5) == TwoStage(peak=1e-3, total_steps=1)


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ("constant", Constant(lr=1e-3)),
        ({"type": "constant", "initial_lr": 0.5}, Constant(lr=0.5)),
        ("cosine", Cosine(initial_lr=1e-3, num_steps=40)),
        (
            {"type": "cosine", "initial_lr": 0.5, "min_lr": 0.1, "warmup_steps": 3, "num_iters": 8},
            Cosine(initial_lr=0.5, num_steps=8, min_lr=0.1, warmup_steps=3),
        ),
        ({"type": "linear", "final_lr": 0}, Linear(initial_lr=1e-3, final_lr=0.0, num_steps=40)),
        ({"type": "linear", "final_lr": 0.1, "num_iters": 8}, Linear(initial_lr=1e-3, final_lr=0.1, num_steps=8)),
        ({"type": "exponential", "gamma": 0.9}, Exponential(initial_lr=1e-3, gamma=0.9)),
        ("step", StepDecay(initial_lr=1e-3, step_size=40)),
        ({"type": "step", "gamma": 0.5, "step_size": 3}, StepDecay(initial_lr=1e-3, step_size=3, gamma=0.5)),
        ("noam", Noam(factor=1e-3, warmup_steps=40, model_size=512)),
        (
            {"type": "noam", "initial_lr": 2.0, "warmup_steps": 4, "model_size": 64},
            Noam(factor=2.0, warmup_steps=4, model_size=64),
        ),
    ],
    ids=str,
)
def test_explicit_schedules(table, expected):
    read = config(lr_schedule=table, schedule_mode="hybrid")
    assert resolve_lr_schedule(read, 40) == expected
    overruled = replace(expected, num_steps=7) if isinstance(expected, Cosine | Linear) else expected
    assert resolve_lr_schedule(read, 40, num_iters=7) == overruled


def test_a_schedule_that_does_not_fit_the_run():
    read = config(lr_schedule={"type": "cosine", "warmup_steps": 20})
    message = r"^optimizer.lr_schedule.warmup_steps=20 is out of range; accepted: integers from 0 to 9$"
    with pytest.raises(ValueError, match=message):
        resolve_lr_schedule(read, 10)
    with pytest.raises(ValueError, match=r"^num_iters=0 is out of range; accepted: integers >= 1$"):
        resolve_lr_schedule(read, 100, num_iters=0)
    with pytest.raises(ValueError, match=r"^total_steps=-1 is out of range; accepted: integers >= 0$"):
        resolve_lr_schedule(read, -1)


# ---- resolution ----------------------------------------------------------------------------------------------------

PLAIN = AdamWRecipe(beta_1=0.9, beta_2=0.999, eps=1e-5)
PUBLISHED = AdamWRecipe(beta_1=0.9, beta_2=0.95, eps=1e-8)
MODE_NAMES = ("bdh_reference", "bitnet_b158_reference", "hybrid")
# (name, mode, weight_decay_final) -> (kind, recipe of AdamW, its final decay)
RESOLUTIONS = {
    **{("bitnet_published", mode, None): ("bitnet_adamw", PUBLISHED, 0.0) for mode in MODE_NAMES},
    **{("bitnet_published", mode, 0.02): ("bitnet_adamw", PUBLISHED, 0.02) for mode in MODE_NAMES},
    ("adamw", "bdh_reference", None): ("adamw", PLAIN, None),
    ("adamw", "bdh_reference", 0.02): ("adamw", PLAIN, None),
    ("adamw", "bitnet_b158_reference", None): ("adamw", PLAIN, None),
    ("adamw", "bitnet_b158_reference", 0.02): ("bitnet_adamw", PLAIN, 0.02),
    ("adamw", "hybrid", None): ("adamw", PLAIN, None),
    ("adamw", "hybrid", 0.2): ("bitnet_adamw", PLAIN, 0.2),
    ("adamw", "hybrid", 0.0): ("bitnet_adamw", PLAIN, 0.0),
    ("muon_hybrid_exp", "bdh_reference", None): ("muon_hybrid", PLAIN, None),
    ("muon_hybrid_exp", "bdh_reference", 0.02): ("muon_hybrid", PLAIN, None),
    ("muon_hybrid_exp", "bitnet_b158_reference", None): ("muon_hybrid", PLAIN, None),
    ("muon_hybrid_exp", "bitnet_b158_reference", 0.02): ("muon_hybrid", PLAIN, 0.02),
    ("muon_hybrid_exp", "hybrid", None): ("muon_hybrid", PLAIN, None),
    ("muon_hybrid_exp", "hybrid", 0.02): ("muon_hybrid", PLAIN, 0.02),
}


@pytest.mark.original("K5")
@pytest.mark.parametrize("row", RESOLUTIONS, ids=str)
def test_the_table_of_resolutions(row):
    name, mode, final = row
    kind, adamw, weight_decay_final = RESOLUTIONS[row]
    hybrid = kind == "muon_hybrid"
    read = config(name=name, schedule_mode=mode, weight_decay_final=final, muon=MUON if hybrid else None)
    assert resolve(read, 10) == Resolution(
        kind=kind,
        lr=1e-3,
        weight_decay=0.1,
        adamw=adamw,
        weight_decay_final=weight_decay_final,
        second_stage_start=0.5,
        total_steps=10,
        clock="parameter",
        muon=DIALECTS["burn-dragon"].muon if hybrid else None,
        rules=burn_dragon_rules() if hybrid else None,
        clip_norm=None,
        clip_value=None,
    )


@pytest.mark.original("K5")
def test_what_the_hybrid_takes_from_its_table():
    own = {
        "momentum": 0.9,
        "nesterov": False,
        "ns_steps": 3,
        "split_decoder_heads": False,
        "target_modules": ["encoder", "decoder"],
    }
    found = resolve(OptimizerConfig.from_dict({**HYBRID, "muon": {**MUON, **own}}), 100)
    recipe = DIALECTS["burn-dragon"].muon
    assert found.muon == replace(recipe, momentum=0.9, nesterov=False, steps=3)
    assert found.rules == burn_dragon_rules(["encoder", "decoder"], split_heads=False)
    assert found.rules[0].last == ("decoder", "encoder")
    assert set(resolve(OptimizerConfig.from_dict(HYBRID), 1).rules[0].last) == set(BURN_DRAGON_TARGETS)


def test_clips_are_handed_on_and_a_run_has_a_step():
    assert resolve(config(grad_clip_norm=1.0), 5).clip_norm == 1.0
    assert resolve(config(grad_clip_value=0.5), 5).clip_value == 0.5
    assert resolve(config(), 0).total_steps == 1
    with pytest.raises(ValueError, match=r"^total_steps=-1 is out of range; accepted: integers >= 0$"):
        resolve(config(), -1)
    with pytest.raises(TypeError, match=r"^total_steps=1.5 is not an integer"):
        resolve(config(), 1.5)


def test_targets_may_name_any_component_of_a_path():
    """In frameworks where layers hold the matrices, the last component is ``weight`` and names nothing."""
    hybrid = OptimizerConfig.from_dict(HYBRID)
    shapes = {"layers.0.lm_head.weight": ParamInfo((8, 8)), "layers.0.norm.weight": ParamInfo((8, 8))}
    plans = [route_params(shapes, rules=resolve(hybrid, 10, match=match).rules) for match in ("last", "component")]
    assert [[route.optimizer for route in plan.values()] for plan in plans] == [["adamw", "adamw"], ["muon", "adamw"]]
