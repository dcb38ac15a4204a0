"""Configurations: defaults, and what is read from mappings and files."""

from dataclasses import FrozenInstanceError
from pathlib import Path

import numpy as np
import pytest

from zeropower.config import MuonHybridConfig, OptimizerConfig, read_config
from zeropower.schedule_config import LrScheduleConfig

BASE = {"learning_rate": 1e-3, "weight_decay": 0.1}
HYBRID = {**BASE, "name": "muon_hybrid_exp", "muon": {"enabled": True}}


def config(**fields) -> OptimizerConfig:
    return OptimizerConfig.from_dict({**BASE, **fields})


@pytest.mark.original("K4")
def test_defaults_are_those_of_the_original():
    assert config() == OptimizerConfig(
        name="adamw",
        learning_rate=1e-3,
        weight_decay=0.1,
        weight_decay_final=None,
        lr_schedule=None,
        schedule_mode="bdh_reference",
        grad_clip_norm=None,
        grad_clip_value=None,
        muon=None,
    )
    assert MuonHybridConfig() == MuonHybridConfig(
        enabled=False,
        momentum=0.95,
        nesterov=True,
        ns_steps=5,
        adjust_lr_fn="match_rms_adamw",
        split_decoder_heads=True,
        target_modules=None,
    )
    assert config(muon={}).muon == MuonHybridConfig()
    assert LrScheduleConfig(type="cosine") == LrScheduleConfig(type="cosine", min_lr=0.0, warmup_steps=0)
    assert LrScheduleConfig(type="step").gamma == 0.1


def test_numbers_are_kept_as_python_numbers():
    read = config(learning_rate=np.float32(0.5), weight_decay=1, muon={"ns_steps": np.int64(3), "momentum": 0})
    assert (type(read.learning_rate), type(read.weight_decay)) == (float, float)
    assert (type(read.muon.ns_steps), type(read.muon.momentum)) == (int, float)
    assert hash(read) == hash(config(learning_rate=0.5, weight_decay=1.0, muon={"ns_steps": 3, "momentum": 0.0}))
    with pytest.raises(FrozenInstanceError):
        read.learning_rate = 1.0


FULL = {
    "name": "muon_hybrid_exp",
    "learning_rate": 1e-3,
    "weight_decay": 0.1,
    "weight_decay_final": 0.01,
    "lr_schedule": {"type": "cosine", "min_lr": 1e-4, "warmup_steps": 3, "initial_lr": 0.01, "num_iters": 10},
    "schedule_mode": "hybrid",
    "grad_clip_norm": 1.0,
    "muon": {
        "enabled": True,
        "momentum": 0.9,
        "nesterov": False,
        "ns_steps": 3,
        "adjust_lr_fn": "match_rms_adamw",
        "split_decoder_heads": False,
        "target_modules": ["decoder", "encoder"],
    },
}
TOML = """\
[optimizer]
name = "muon_hybrid_exp"
learning_rate = 1e-3
weight_decay = 0.1
weight_decay_final = 0.01
lr_schedule = {type = "cosine", min_lr = 1e-4, warmup_steps = 3, initial_lr = 0.01, num_iters = 10}
schedule_mode = "hybrid"
grad_clip_norm = 1
[optimizer.muon]
enabled = true
momentum = 0.9
nesterov = false
ns_steps = 3
adjust_lr_fn = "match_rms_adamw"
split_decoder_heads = false
target_modules = ["encoder", "decoder", "encoder"]
[model]
width = 64
"""


@pytest.mark.parametrize(
    "table", [BASE, HYBRID, FULL, {**BASE, "lr_schedule": {"type": "linear", "final_lr": 0.0}}], ids=range(4)
)
def test_there_and_back(table):
    read = OptimizerConfig.from_dict(table)
    assert OptimizerConfig.from_dict(read.to_dict()) == read
    assert read.to_dict().items() >= {key: value for key, value in table.items() if not isinstance(value, dict)}.items()
    assert OptimizerConfig.from_dict(FULL).to_dict() == FULL


def test_toml_is_read_from_its_table_or_from_the_whole_file(tmp_path):
    file = tmp_path / "run.toml"
    file.write_text(TOML)
    expected = OptimizerConfig.from_dict(FULL)
    assert OptimizerConfig.from_toml(file) == expected
    assert expected.muon.target_modules == ("decoder", "encoder")
    file.write_text('learning_rate = 1\nweight_decay = 0\nlr_schedule = "constant"\n')
    read = OptimizerConfig.from_toml(str(file))
    assert read == config(learning_rate=1.0, weight_decay=0.0, lr_schedule="constant")
    assert read.lr_schedule == LrScheduleConfig(type="constant")


def test_a_configuration_is_read_from_whatever_describes_it(tmp_path):
    file = tmp_path / "run.toml"
    file.write_text(TOML)
    expected = OptimizerConfig.from_dict(FULL)
    assert read_config(expected) is expected
    assert read_config(FULL) == read_config(file) == read_config(str(file)) == expected
    made = {**FULL, "muon": expected.muon, "lr_schedule": expected.lr_schedule}
    assert read_config(made) == expected
    with pytest.raises(
        TypeError, match=r"^source=3 is no configuration; accepted: OptimizerConfig, a mapping, a path$"
    ):
        read_config(3)


@pytest.mark.parametrize(
    ("content", "error", "message"),
    [
        (None, FileNotFoundError, r"run.toml cannot be read \(No such file or directory\); accepted: a TOML file$"),
        (
            "learning_rate = ",
            ValueError,
            r"run.toml is not valid TOML: Invalid value .*; accepted: a TOML file$",
        ),
        (
            b"a = '\xff'",
            ValueError,
            r"run.toml is not valid TOML: .* can't decode byte 0xff .*; accepted: a TOML file$",
        ),
        (
            "optimizer = 3",
            TypeError,
            r"run\.toml: optimizer=3 is not a table; accepted: a table of name",
        ),
        ("[model]\nwidth = 3", ValueError, r"run\.toml: optimizer.model is not known; accepted: name, learning_rate"),
        (
            "learning_rate = nan\nweight_decay = 0",
            ValueError,
            r"run\.toml: optimizer.learning_rate=nan is out of range; accepted: ",
        ),
    ],
    ids=["missing", "malformed", "no text", "no table", "other tables", "nan"],
)
def test_files_that_cannot_be_read_are_named(tmp_path, content, error, message):
    file: Path = tmp_path / "run.toml"
    if content is not None:
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(error, match=message):
        OptimizerConfig.from_toml(file)
    with pytest.raises(OSError, match="cannot be read"):
        OptimizerConfig.from_toml(tmp_path)
