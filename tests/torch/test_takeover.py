"""Runs that change to this implementation half way."""

import pytest
import torch

from zeropower import OUT_IN
from zeropower.conformance.peers.lift import full_precision
from zeropower.torch import Muon, renamed_state

SHAPES = [(6, 10), (10, 6), (6, 10)]
RATES = {"lr": 0.02, "weight_decay": 0.1}


def problem():
    generator = torch.Generator().manual_seed(0)
    start = [torch.randn(shape, generator=generator, dtype=torch.float64) for shape in SHAPES]
    grads = [[torch.randn(s, generator=generator, dtype=torch.float64) for s in SHAPES] for _ in range(10)]
    return start, grads


def train(optimizer, params, grads):
    for step in grads:
        for param, grad in zip(params, step, strict=True):
            param.grad = grad.clone()
        optimizer.step()


def parameters(start):
    return [torch.nn.Parameter(x.clone()) for x in start]


def heavy_ball(params, grads):
    """What Dion and Moonlight keep of a momentum of 0.95."""
    buffers = [torch.zeros_like(param) for param in params]
    for step in grads:
        for buffer, grad in zip(buffers, step, strict=True):
            buffer.mul_(0.95).add_(grad)
    return buffers


def test_a_run_of_torch_goes_on():
    """In float64, with the 16-bit casts of PyTorch's Muon lifted: ten steps of it are five of it and five of ours."""
    start, grads = problem()
    theirs, half = parameters(start), parameters(start)
    whole, first = (torch.optim.Muon(params, **RATES) for params in (theirs, half))
    with full_precision():
        train(whole, theirs, grads)
        train(first, half, grads[:5])
    ours = Muon(half, **RATES, compute_dtype="float64")
    ours.load_state_dict(first.state_dict())
    train(ours, half, grads[5:])
    for param, wanted in zip(half, theirs, strict=True):
        torch.testing.assert_close(param, wanted, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", ["momentum", "momentum_buffer"])
def test_a_heavy_ball_of_another_name_goes_on(name):
    start, grads = problem()
    whole, half = parameters(start), parameters(start)
    options = {**RATES, "dialect": "moonlight", "layout": OUT_IN, "compute_dtype": "float64"}
    train(Muon(whole, **options), whole, grads)
    first = Muon(half, **options)
    train(first, half, grads[:5])
    theirs = {
        "state": {i: {name: b, "use_muon": True} for i, b in enumerate(heavy_ball(half, grads[:5]))},
        "param_groups": [{"params": [0, 1, 2], "lr": 1.0, "wd": 0.5, "mu": 0.5}],
    }
    second = Muon(half, **options)
    second.load_state_dict(renamed_state(theirs, {name: "momentum_buffer"}))
    assert second.param_groups[0]["lr"] == 0.02
    train(second, half, grads[5:])
    for param, wanted in zip(half, whole, strict=True):
        torch.testing.assert_close(param, wanted, rtol=1e-12, atol=1e-12)


def test_a_momentum_of_another_form_is_converted():
    """Both forms follow one direction, so the run goes on as if nothing had happened."""
    start, grads = problem()
    whole, half = parameters(start), parameters(start)
    options = {**RATES, "compute_dtype": "float64"}
    train(Muon(whole, dialect="zeropower", **options), whole, grads)
    train(Muon(half, dialect="zeropower", **options), half, grads[:5])
    theirs = {
        "state": {i: {"momentum": b} for i, b in enumerate(heavy_ball(half, grads[:5]))},
        "param_groups": [{"params": [0, 1, 2]}],
    }
    before = theirs["state"][0]["momentum"].clone()
    second = Muon(half, dialect="zeropower", **options)
    forms = {"momentum_form": ("heavy_ball", "ema"), "momentum": 0.95}
    second.load_state_dict(renamed_state(theirs, {"momentum": "momentum_buffer"}, **forms))
    assert torch.equal(theirs["state"][0]["momentum"], before)
    train(second, half, grads[5:])
    for param, wanted in zip(half, whole, strict=True):
        torch.testing.assert_close(param, wanted, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"momentum_form": ("heavy_ball", "sgd"), "momentum": 0.9},
            "momentum_form='sgd' is not known; accepted: 'ema'",
        ),
        ({"momentum_form": ("heavy_ball", "ema")}, "momentum=None; accepted with momentum_form: the decay"),
        ({"momentum_form": ("heavy_ball", "ema"), "momentum": 1.0}, "momentum=1.0 is out of range"),
    ],
)
def test_a_conversion_needs_forms_and_a_decay(options, message):
    with pytest.raises(ValueError, match=message):
        renamed_state({"state": {}, "param_groups": []}, {}, **options)
