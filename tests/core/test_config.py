"""Configurations: what is refused, in which order and words."""

import math

import numpy as np
import pytest

from zeropower.config import MuonHybridConfig, OptimizerConfig

FIELDS = "name, learning_rate, weight_decay, weight_decay_final, lr_schedule, schedule_mode, grad_clip_norm, "
BASE = {"learning_rate": 1e-3, "weight_decay": 0.1}
MUON = {"enabled": True}
HYBRID = {**BASE, "name": "muon_hybrid_exp", "muon": MUON}


def config(**fields) -> OptimizerConfig:
    return OptimizerConfig.from_dict({**BASE, **fields})


def refused(error, message, **fields):
    with pytest.raises(error) as caught:
        OptimizerConfig.from_dict({**BASE, **fields})
    assert str(caught.value) == message


POSITIVE, AT_LEAST_ZERO = "a finite number > 0", "a finite number >= 0"
RANGES = [
    ("learning_rate", [0.0, -1.0], POSITIVE),
    ("weight_decay", [-0.1], AT_LEAST_ZERO),
    ("weight_decay_final", [-0.1], AT_LEAST_ZERO),
    ("grad_clip_norm", [0.0, -1.0], POSITIVE),
    ("grad_clip_value", [0.0, -1.0], POSITIVE),
]


@pytest.mark.original("K1", "K3")
@pytest.mark.parametrize(("name", "values", "accepted"), RANGES, ids=[name for name, *_ in RANGES])
def test_numbers_out_of_range(name, values, accepted):
    for value in (*values, math.nan, math.inf, -math.inf):
        refused(ValueError, f"optimizer.{name}={value!r} is out of range; accepted: {accepted}", **{name: value})
    for base in (BASE, HYBRID):  # also before what the hybrid lacks
        with pytest.raises(ValueError, match=f"^optimizer.{name}="):
            OptimizerConfig.from_dict({**base, name: values[0], "muon": {"enabled": False}})


@pytest.mark.original("K1")
def test_both_clips_are_refused():
    refused(
        ValueError,
        "optimizer.grad_clip_norm=1.0 and optimizer.grad_clip_value=0.5 are mutually exclusive; "
        "accepted: one of them at most",
        grad_clip_norm=1.0,
        grad_clip_value=0.5,
    )
    assert config(grad_clip_value=0.5).grad_clip_value == 0.5


WHEN = 'when optimizer.name = "muon_hybrid_exp"'
OF_MUON = [
    ({"enabled": False}, f"enabled=False is not accepted {WHEN}; accepted: true"),
    ({"momentum": 0.0}, "momentum=0.0 is out of range; accepted: a finite number in (0, 1)"),
    ({"momentum": 1.0}, "momentum=1.0 is out of range; accepted: a finite number in (0, 1)"),
    ({"momentum": math.nan}, "momentum=nan is out of range; accepted: a finite number in (0, 1)"),
    ({"momentum": math.inf}, "momentum=inf is out of range; accepted: a finite number in (0, 1)"),
    ({"ns_steps": 0}, "ns_steps=0 is out of range; accepted: integers >= 1"),
    ({"ns_steps": -1}, "ns_steps=-1 is out of range; accepted: integers >= 1"),
    ({"target_modules": []}, "target_modules=[] is empty; accepted: at least one name, or no list"),
]


@pytest.mark.original("K1", "K2", "K3", "R6")
@pytest.mark.parametrize(("fields", "message"), OF_MUON, ids=str)
def test_a_hybrid_that_cannot_be_built(fields, message):
    refused(ValueError, f"optimizer.muon.{message}", name="muon_hybrid_exp", muon={**MUON, **fields})
    with pytest.raises(ValueError, match=r"^optimizer\.muon\."):
        OptimizerConfig(**BASE, name="muon_hybrid_exp", muon=MuonHybridConfig(**{**MUON, **fields}))


@pytest.mark.original("K1")
def test_a_hybrid_needs_its_table():
    refused(ValueError, f"optimizer.muon must be set {WHEN}", name="muon_hybrid_exp")


@pytest.mark.original("K1", "K3")
def test_ranges_of_muon_matter_to_the_hybrid_alone():
    idle = {"enabled": False, "momentum": 1.5, "ns_steps": 0, "target_modules": []}
    assert config(muon=idle).muon.target_modules == ()
    assert config(name="bitnet_published", muon=idle).muon.momentum == 1.5
    refused(
        ValueError,
        "optimizer.muon.momentum=nan is out of range; accepted: a finite number",
        muon={"momentum": math.nan},
    )


@pytest.mark.original("K1")
def test_the_first_failure_wins():
    wrong = {
        "name": "muon_hybrid_exp",
        "learning_rate": 0.0,
        "weight_decay": -1.0,
        "weight_decay_final": -1.0,
        "grad_clip_norm": 0.0,
        "grad_clip_value": 0.0,
        "lr_schedule": {"type": "exponential", "gamma": 2.0},
        "muon": {"enabled": False, "momentum": 1.0, "ns_steps": 0, "target_modules": []},
    }
    steps = [
        ("learning_rate", lambda table: table.update(learning_rate=1.0)),
        ("weight_decay", lambda table: table.update(weight_decay=0.0)),
        ("weight_decay_final", lambda table: table.update(weight_decay_final=0.0)),
        ("grad_clip_norm", lambda table: table.update(grad_clip_norm=1.0)),
        ("grad_clip_value", lambda table: table.update(grad_clip_value=1.0)),
        ("grad_clip_norm=1.0 and", lambda table: table.pop("grad_clip_value")),
        ("muon.enabled", lambda table: table["muon"].update(enabled=True)),
        ("muon.momentum", lambda table: table["muon"].update(momentum=0.5)),
        ("muon.ns_steps", lambda table: table["muon"].update(ns_steps=1)),
        ("muon.target_modules", lambda table: table["muon"].pop("target_modules")),
        ("lr_schedule.gamma", lambda table: table.pop("lr_schedule")),
    ]
    for name, mend in steps:
        with pytest.raises(ValueError, match=f"^optimizer.{name}"):
            OptimizerConfig.from_dict(wrong)
        mend(wrong)
    assert OptimizerConfig.from_dict(wrong).muon.enabled


KINDS = "'adamw', 'bitnet_published', 'muon_hybrid_exp'"
MODES = "'bdh_reference', 'bitnet_b158_reference', 'hybrid'"
TYPES = "'constant', 'cosine', 'linear', 'exponential', 'step', 'noam'"


@pytest.mark.original("K6")
@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"name": "sgd"}, f"optimizer.name='sgd' is not known; accepted: {KINDS}"),
        ({"name": None}, f"optimizer.name=None is not known; accepted: {KINDS}"),
        ({"schedule_mode": "bdh"}, f"optimizer.schedule_mode='bdh' is not known; accepted: {MODES}"),
        ({"schedule_mode": 3}, f"optimizer.schedule_mode=3 is not known; accepted: {MODES}"),
        ({"lr_schedule": "warm"}, f"optimizer.lr_schedule.type='warm' is not known; accepted: {TYPES}"),
        ({"lr_schedule": {"type": 3}}, f"optimizer.lr_schedule.type=3 is not known; accepted: {TYPES}"),
        (
            {"muon": {"adjust_lr_fn": "original"}},
            "optimizer.muon.adjust_lr_fn='original' is not known; accepted: 'match_rms_adamw'",
        ),
    ],
    ids=str,
)
def test_unknown_names_of_choices(fields, message):
    refused(ValueError, message, **fields)


NUMBERS = "learning_rate", "weight_decay", "weight_decay_final", "grad_clip_norm", "grad_clip_value"


@pytest.mark.parametrize("value", [True, "1e-3", [1.0], {}, np.ones(()), 1j], ids=repr)
def test_what_is_no_number(value):
    for name in NUMBERS:
        refused(TypeError, f"optimizer.{name}={value!r} is not a number; accepted: a finite number", **{name: value})
    for name in ("initial_lr", "min_lr"):
        message = f"optimizer.lr_schedule.{name}={value!r} is not a number; accepted: a finite number"
        refused(TypeError, message, lr_schedule={"type": "cosine", name: value})
    message = f"optimizer.muon.momentum={value!r} is not a number; accepted: a finite number"
    refused(TypeError, message, muon={"momentum": value})


@pytest.mark.parametrize("value", [True, "5", 5.0, [5]], ids=repr)
def test_what_is_no_integer(value):
    of_muon = f"optimizer.muon.ns_steps={value!r} is not an integer; accepted: an integer"
    refused(TypeError, of_muon, muon={"ns_steps": value})
    for kind, name in (
        ("cosine", "warmup_steps"),
        ("linear", "num_iters"),
        ("step", "step_size"),
        ("noam", "model_size"),
    ):
        message = f"optimizer.lr_schedule.{name}={value!r} is not an integer; accepted: an integer"
        final = {"final_lr": 0.1} if kind == "linear" else {}
        refused(TypeError, message, lr_schedule={"type": kind, **final, name: value})


@pytest.mark.parametrize("name", ["enabled", "nesterov", "split_decoder_heads"])
@pytest.mark.parametrize("value", [1, "true", None], ids=repr)
def test_what_is_no_truth_value(name, value):
    message = f"optimizer.muon.{name}={value!r} is not a truth value; accepted: true, false"
    refused(TypeError, message, muon={name: value})


ACCEPTED_OF_MUON = "enabled, momentum, nesterov, ns_steps, adjust_lr_fn, split_decoder_heads, target_modules"


@pytest.mark.parametrize(
    ("error", "fields", "message"),
    [
        (TypeError, {"muon": 3}, f"optimizer.muon=3 is not a table; accepted: a table of {ACCEPTED_OF_MUON}"),
        (ValueError, {"muon": {"beta": 1}}, f"optimizer.muon.beta is not known; accepted: {ACCEPTED_OF_MUON}"),
        (ValueError, {"lr": 1e-3}, f"optimizer.lr is not known; accepted: {FIELDS}grad_clip_value, muon"),
        (ValueError, {3: 1e-3}, f"optimizer.3 is not known; accepted: {FIELDS}grad_clip_value, muon"),
        (
            TypeError,
            {"muon": {"target_modules": "encoder"}},
            "optimizer.muon.target_modules='encoder' is not a list; accepted: a list of names",
        ),
        (
            TypeError,
            {"muon": {"target_modules": 3}},
            "optimizer.muon.target_modules=3 is not a list; accepted: a list of names",
        ),
        (
            TypeError,
            {"muon": {"target_modules": ["encoder", 3]}},
            "optimizer.muon.target_modules has 3, which is no text; accepted: a list of names",
        ),
        (
            ValueError,
            {"weight_decay": 10**400},
            f"optimizer.weight_decay={10**400} is out of range; accepted: a finite number",
        ),
    ],
    ids=range(8),
)  # fmt: skip
def test_what_no_table_or_list_can_be(error, fields, message):
    with pytest.raises(error) as caught:
        OptimizerConfig.from_dict({**BASE, **fields})
    assert str(caught.value) == message


def test_what_must_be_given_and_how():
    for name in BASE:
        with pytest.raises(ValueError, match=f"^optimizer.{name} must be set; accepted: a table with it, of name, "):
            OptimizerConfig.from_dict({key: value for key, value in BASE.items() if key != name})
        refused(TypeError, f"optimizer.{name}=None is not a number; accepted: a finite number", **{name: None})
    with pytest.raises(TypeError, match=r"^optimizer=\[\] is not a table; accepted: a table of name, learning_rate, "):
        OptimizerConfig.from_dict([])
    for name, kind in (("muon", "MuonHybridConfig"), ("lr_schedule", "LrScheduleConfig")):
        with pytest.raises(TypeError, match=rf"^optimizer.{name}={{}} is not accepted; accepted: {kind}, None$"):
            OptimizerConfig(**BASE, **{name: {}})


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({}, "type must be set; accepted: a table with it, of type, initial_lr, min_lr"),
        ({"type": "linear"}, 'final_lr must be set when optimizer.lr_schedule.type = "linear"'),
        ({"type": "exponential"}, 'gamma must be set when optimizer.lr_schedule.type = "exponential"'),
        (
            {"type": "cosine", "gamma": 0.5},
            'gamma=0.5 is not known when optimizer.lr_schedule.type = "cosine"; '
            "accepted: type, initial_lr, min_lr, warmup_steps, num_iters",
        ),
        (
            {"type": "constant", "num_iters": 5},
            'num_iters=5 is not known when optimizer.lr_schedule.type = "constant"; accepted: type, initial_lr',
        ),
        ({"type": "constant", "decay": 5}, "decay is not known; accepted: type, initial_lr, min_lr, warmup_steps, "),
        ({"type": "constant", "initial_lr": 0.0}, "initial_lr=0.0 is out of range; accepted: a finite number in (0"),
        ({"type": "cosine", "initial_lr": 1.5}, "initial_lr=1.5 is out of range; accepted: a finite number in (0"),
        ({"type": "cosine", "min_lr": 0.1}, "min_lr=0.1 is out of range; accepted: a finite number in [0.0, 0.001]"),
        ({"type": "cosine", "min_lr": math.nan}, "min_lr=nan is out of range"),
        ({"type": "cosine", "num_iters": 0}, "num_iters=0 is out of range; accepted: integers >= 1"),
        ({"type": "cosine", "num_iters": 5, "warmup_steps": 5}, "warmup_steps=5 is out of range; accepted: "),
        ({"type": "linear", "final_lr": 1.5}, "final_lr=1.5 is out of range; accepted: a finite number in [0.0, 1.0]"),
        ({"type": "exponential", "gamma": 1.5}, "gamma=1.5 is out of range; accepted: a finite number in (0.0, 1.0]"),
        ({"type": "step", "gamma": math.inf}, "gamma=inf is out of range"),
        ({"type": "step", "step_size": 0}, "step_size=0 is out of range; accepted: integers >= 1"),
        ({"type": "noam", "initial_lr": -1.0}, "initial_lr=-1.0 is out of range"),
        ({"type": "noam", "warmup_steps": 0}, "warmup_steps=0 is out of range; accepted: integers >= 1"),
        ({"type": "noam", "model_size": -1}, "model_size=-1 is out of range; accepted: integers >= 1"),
    ],
    ids=str,
)  # fmt: skip
def test_a_schedule_that_cannot_be_built(table, message):
    with pytest.raises(ValueError, match=r"^optimizer\.lr_schedule\.") as caught:
        config(lr_schedule=table)
    assert str(caught.value).startswith(f"optimizer.lr_schedule.{message}")


def test_the_learning_rate_is_named_where_a_schedule_takes_it():
    assert config(learning_rate=2.0).learning_rate == 2.0
    for kind in ("constant", "step", "noam"):
        assert config(learning_rate=2.0, lr_schedule=kind).learning_rate == 2.0
    message = "optimizer.learning_rate=2.0 is out of range; accepted: a finite number in (0.0, 1.0]"
    refused(ValueError, message, learning_rate=2.0, lr_schedule="cosine")
