"""Weight decay of the hybrid in two stages: of both parts, or of one, along either clock."""

import io

import pytest
import torch
from torch import nn

from zeropower import weight_decay_for_step
from zeropower.torch import MuonAdamW

LR, FIRST, FINAL, TOTAL = 0.5, 0.1, 0.02, 6


def pairs():
    shapes = {"a": (4, 6), "b": (4, 6), "gain": (6,)}
    return [(name, nn.Parameter(torch.ones(shape, dtype=torch.float64))) for name, shape in shapes.items()]


def optimizer_of(params, **options):
    return MuonAdamW(params, LR, FIRST, **options)


def decays(optimizer, params, steps, skipped=None):
    """Return what each parameter loses in each step to decay alone: a zero gradient moves nothing else."""
    found = {name: [] for name, _ in params}
    for step in steps:
        for name, param in params:
            param.grad = None if step in (skipped or {}).get(name, ()) else torch.zeros_like(param)
        before = {name: param.detach().clone() for name, param in params}
        optimizer.step()
        for name, param in params:
            found[name].append((1 - (param.detach() / before[name]).mean().item()) / LR)
    return found


def expected(*, steps=TOTAL + 1, final=FINAL):
    return [weight_decay_for_step(FIRST, final, 0.5, TOTAL, step) for step in range(1, steps + 1)]


CONSTANT = pytest.approx([FIRST] * (TOTAL + 1))
STAGED = pytest.approx(expected())
TWO_STAGES = {"weight_decay_final": FINAL, "total_steps": TOTAL}


@pytest.mark.original("G4", "R2")
@pytest.mark.parametrize(
    ("options", "muon", "adamw"),
    [
        ({}, CONSTANT, CONSTANT),
        (TWO_STAGES, STAGED, STAGED),
        ({"adamw_args": TWO_STAGES}, CONSTANT, STAGED),
        ({"muon_args": TWO_STAGES}, STAGED, CONSTANT),
        ({**TWO_STAGES, "muon_args": {"weight_decay_final": None}}, CONSTANT, STAGED),
        ({**TWO_STAGES, "adamw_args": {"weight_decay_final": 0.1}}, STAGED, CONSTANT),
    ],
    ids=["none", "both", "adamw", "muon", "not muon", "adamw to the same"],
)
def test_each_part_has_its_stages(options, muon, adamw):
    params = pairs()
    found = decays(optimizer_of(params, **options), params, range(TOTAL + 1))
    assert found["a"] == found["b"] == muon
    assert found["gain"] == adamw


@pytest.mark.original("B5", "R1")
@pytest.mark.parametrize("clock", ["global", "parameter"])
def test_a_parameter_that_comes_late(clock):
    params = pairs()
    optimizer = optimizer_of(params, clock=clock, **TWO_STAGES)
    late = {"b": range(3), "gain": range(2)}
    found = decays(optimizer, params, range(8), skipped=late)
    assert found["a"] == pytest.approx(expected(steps=8))
    for name, missed in late.items():
        start = len(missed)
        assert found[name][:start] == pytest.approx([0.0] * start)
        own = expected(steps=8)[start:] if clock == "global" else expected(steps=8 - start)
        assert found[name][start:] == pytest.approx(own)


@pytest.mark.original("J5")
@pytest.mark.parametrize("clock", ["global", "parameter"])
def test_a_resumed_run_goes_on_along_its_clock(clock):
    params, same = pairs(), pairs()
    late = {"b": range(3), "gain": range(1)}
    decays(optimizer_of(params, clock=clock, **TWO_STAGES), params, range(8), skipped=late)
    first = optimizer_of(same, clock=clock, **TWO_STAGES)
    decays(first, same, range(4), skipped=late)
    file = io.BytesIO()
    torch.save(first.state_dict(), file)
    file.seek(0)
    second = optimizer_of(same, clock="global")  # options come from the checkpoint
    second.load_state_dict(torch.load(file, weights_only=True))
    decays(second, same, range(4, 8), skipped=late)
    for (name, param), (_, other) in zip(params, same, strict=True):
        assert torch.equal(param, other), name


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"weight_decay_final": 0.0}, TypeError, "total_steps=None is not an integer"),
        ({"weight_decay_final": 0.0, "total_steps": 0}, ValueError, "total_steps=0 is out of range"),
        ({**TWO_STAGES, "clock": "wall"}, ValueError, "clock='wall' is not known; accepted: 'global', 'parameter'"),
        ({"muon_args": {"weight_decay_final": -1.0, "total_steps": 3}}, ValueError, "weight_decay_final=-1"),
        ({"adamw_args": {"clocks": 3}}, TypeError, "clocks=3 is no option of adamw_args"),
    ],
    ids=str,
)
def test_bad_stages_are_refused(options, error, text):
    with pytest.raises(error, match=text):
        optimizer_of(pairs(), **options)
