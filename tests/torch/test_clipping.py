"""Clipping inside the optimizers: each parameter's gradient alone, before it enters any state."""

import pytest
import torch
from torch import nn

from zeropower.torch import AdamW, BitNetAdamW, Muon, MuonAdamW

OPTIMIZERS = {
    "muon": lambda pairs, **options: Muon(pairs[:2], lr=0.1, dialect="zeropower", **options),
    "adamw": lambda pairs, **options: AdamW(pairs, lr=0.1, **options),
    "bitnet": lambda pairs, **options: BitNetAdamW(pairs, lr=0.1, total_steps=9, **options),
    "muon_adamw": lambda pairs, **options: MuonAdamW(pairs, lr=0.1, **options),
}


@pytest.fixture(params=OPTIMIZERS.values(), ids=OPTIMIZERS)
def build(request):
    return request.param


def pairs():
    shapes = {"a": (4, 6), "b": (4, 6), "gain": (300_000,)}  # the last is worked on in pieces
    return [(name, nn.Parameter(torch.ones(shape))) for name, shape in shapes.items()]


def gradient(param, step, size):
    return size * torch.randn(param.shape, generator=torch.Generator().manual_seed(step))


def by_norm(grad):
    return grad * min(2.0 / (grad.double().norm().item() + 1e-6), 1.0)


def by_value(grad):
    return grad.clamp(-0.5, 0.5)


@pytest.mark.original("I1", "I2", "I3")
@pytest.mark.parametrize(("option", "clipped"), [({"clip_norm": 2.0}, by_norm), ({"clip_value": 0.5}, by_value)])
def test_each_gradient_is_clipped_before_it_is_averaged(build, option, clipped):
    params, same = pairs(), pairs()
    optimizer, reference = build(params, **option), build(same)
    for step in range(3):
        for (name, param), (_, other) in zip(params, same, strict=True):
            grad = gradient(param, step, size=0.01 if name == "b" and step == 1 else 3.0)
            param.grad, other.grad = grad, clipped(grad)
        optimizer.step()
        reference.step()
    for (name, param), (_, other) in zip(params, same, strict=True):
        assert (param - other).norm() <= 1e-5 * other.norm(), name


@pytest.mark.original("C5")
def test_gradients_are_not_written(build):
    params = pairs()
    optimizer = build(params, clip_norm=1e-3)
    for _, param in params:
        param.grad = torch.ones_like(param)
    optimizer.step()
    assert all(torch.equal(param.grad, torch.ones_like(param)) for _, param in params)


def test_a_part_of_the_hybrid_may_be_clipped_alone():
    params = pairs()
    optimizer = MuonAdamW(params, clip_value=0.5, adamw_args={"clip_norm": 1.0, "clip_value": None})
    assert [(group["clip_norm"], group["clip_value"]) for group in optimizer.param_groups] == [(None, 0.5), (1.0, None)]


@pytest.mark.original("I5", "R7")
@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"clip_norm": 1.0, "clip_value": 1.0}, ValueError, "mutually exclusive"),
        ({"clip_norm": 0.0}, ValueError, "clip_norm=0.0 is out of range"),
        ({"clip_value": float("nan")}, ValueError, "clip_value=nan is out of range"),
        ({"clip_value": "1"}, TypeError, "clip_value='1' is not a number"),
    ],
    ids=str,
)
def test_bad_clips_are_refused(build, options, error, text):
    with pytest.raises(error, match=text):
        build(pairs(), **options)


def test_a_clip_may_change_along_the_run(build):
    params = pairs()
    optimizer = build(params, clip_norm=1.0)
    for group in optimizer.param_groups:
        group["clip_norm"] = -1.0
    for _, param in params:
        param.grad = torch.ones_like(param)
    with pytest.raises(ValueError, match=r"clip_norm=-1\.0 is out of range"):
        optimizer.step()
    assert not optimizer.state
