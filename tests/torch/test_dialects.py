"""Dialects in PyTorch's containers: state, groups, saving, rates of the two parts."""

from dataclasses import replace

import pytest
import torch

from zeropower import CONV, DIALECTS
from zeropower.torch import Muon, MuonAdamW

NAMES = list(DIALECTS)
SHAPES = {"blocks.0.weight": (8, 12), "blocks.1.weight": (8, 12), "blocks.2.weight": (12, 8), "bias": (8,)}


def problem():
    generator = torch.Generator().manual_seed(0)
    start = {name: torch.randn(shape, generator=generator) for name, shape in SHAPES.items()}
    grads = [{n: torch.randn(s, generator=generator) for n, s in SHAPES.items()} for _ in range(6)]
    return start, grads


def build(start, dialect, **options):
    named = [(name, torch.nn.Parameter(value.clone())) for name, value in start.items()]
    return MuonAdamW(named, dialect=dialect, muon_args={"compute_dtype": "float32"}, **options), dict(named)


def train(optimizer, params, grads):
    for step in grads:
        for name, param in params.items():
            param.grad = step[name].clone()
        optimizer.step()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.filterwarnings("ignore:the dialect reproduces an unsound recipe")
def test_a_saved_run_goes_on_bit_by_bit(name, tmp_path):
    start, grads = problem()
    whole, params = build(start, name)
    train(whole, params, grads)
    first, half = build(start, name)
    train(first, half, grads[:3])
    torch.save(first.state_dict(), tmp_path / "state.pt")
    second, rest = build({n: p.detach() for n, p in half.items()}, name)
    second.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
    train(second, rest, grads[3:])
    assert all(torch.equal(rest[n], params[n]) for n in SHAPES)


@pytest.mark.parametrize("name", ["normuon", "modded-nanogpt", "timm-adamuon"])
def test_a_second_moment_goes_through_a_record(name):
    start, grads = problem()
    whole, params = build(start, name)
    train(whole, params, grads)
    first, half = build(start, name)
    train(first, half, grads[:3])
    second, rest = build({n: p.detach() for n, p in half.items()}, name)
    second.load_record(first.to_record())
    train(second, rest, grads[3:])
    assert all(torch.equal(rest[n], params[n]) for n in SHAPES)
    plain, _ = build(start, "keller")
    with pytest.raises(ValueError, match=r"record holds moment_2, momentum of .*; accepted: momentum"):
        plain.load_record(first.to_record())


def test_a_second_moment_has_the_shape_of_its_means():
    start, grads = problem()
    sizes = {"normuon": [(8, 1), (8, 1), (12, 1)], "modded-nanogpt": [(1, 12), (1, 12), (12, 1)]}
    for name, shapes in sizes.items():
        optimizer, params = build(start, name)
        train(optimizer, params, grads[:1])
        kept = [optimizer.state[params[n]]["second_moment_buffer"] for n in SHAPES if n != "bias"]
        assert [tuple(buffer.shape) for buffer in kept] == shapes


def test_the_second_moment_of_a_kernel_follows_its_layout():
    weight = torch.nn.Parameter(torch.ones(6, 3, 2, 2))
    weight.grad = torch.randn(6, 3, 2, 2, generator=torch.Generator().manual_seed(0))
    optimizer = Muon([weight], dialect="normuon", layout=CONV, compute_dtype="float32")
    optimizer.step()
    assert optimizer.state[weight]["second_moment_buffer"].shape == (6, 1, 1, 1)


def test_the_two_parts_have_the_rates_of_their_dialect():
    start, _ = problem()
    optimizer, _ = build(start, "modded-nanogpt")
    rates = {group["optimizer"]: (group["lr"], group["weight_decay"]) for group in optimizer.param_groups}
    assert rates == {"muon": (0.023, 1.2), "adamw": (pytest.approx(0.008), 0.005)}
    doubled, _ = build(start, "modded-nanogpt", lr=0.046, weight_decay=0.1)
    rates = {group["optimizer"]: (group["lr"], group["weight_decay"]) for group in doubled.param_groups}
    assert rates == {"muon": (0.046, 0.1), "adamw": (pytest.approx(0.016), 0.1)}  # the ratio stays


def test_a_clip_of_a_dialect_is_a_default():
    start, _ = problem()
    clipped = replace(DIALECTS["zeropower"], clip_norm=0.5)
    assert {group["clip_norm"] for group in build(start, clipped)[0].param_groups} == {0.5}
    assert {group["clip_norm"] for group in build(start, clipped, clip_norm=2.0)[0].param_groups} == {2.0}
    assert {group["clip_norm"] for group in build(start, clipped, clip_value=2.0)[0].param_groups} == {None}
    weight = torch.nn.Parameter(torch.ones(2, 3))
    assert Muon([weight], dialect=clipped).param_groups[0]["clip_norm"] == 0.5


def test_the_momentum_may_change_with_every_step():
    """As the schedule of modded-nanogpt has it."""
    start, grads = problem()
    momenta = [0.85, 0.86, 0.9, 0.95, 0.95, 0.9]
    whole, params = build(start, "keller")
    constant, others = build(start, "keller")
    for beta, step in zip(momenta, grads, strict=True):
        for group in whole.param_groups:
            if group["optimizer"] == "muon":
                group["momentum"] = beta
        train(whole, params, [step])
    train(constant, others, grads)
    buffer = torch.zeros(8, 12)
    for beta, step in zip(momenta, grads, strict=True):
        buffer = beta * buffer + (1 - beta) * step["blocks.0.weight"]
    kept = whole.state[params["blocks.0.weight"]]["momentum_buffer"]
    torch.testing.assert_close(kept, buffer, rtol=1e-6, atol=1e-6)
    assert not torch.allclose(params["blocks.0.weight"], others["blocks.0.weight"], rtol=1e-3)
