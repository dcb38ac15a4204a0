"""A module that changes after the optimizer was built: routed anew, and said."""

import copy
import gc
import warnings

import pytest
import torch
from torch import nn

from zeropower.torch import MuonAdamW


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.up, self.down = nn.Linear(6, 10), nn.Linear(10, 6)


def built(**options):
    model = Net()
    optimizer = MuonAdamW(model, 0.1, adamw_args={"lr": 0.02}, **options)
    backward(model)
    optimizer.step()
    return model, optimizer


def backward(model):
    for param in model.parameters():
        param.grad = torch.ones_like(param) if param.requires_grad else None


def names(optimizer):
    return {group["optimizer"]: group["param_names"] for group in optimizer.param_groups}


def test_an_unchanged_module_says_nothing():
    model, optimizer = built()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(3):
            optimizer.step()
    assert names(optimizer) == {"muon": ["up.weight", "down.weight"], "adamw": ["up.bias", "down.bias"]}
    assert model.up.weight in optimizer.state


def test_what_is_added_is_routed_with_fresh_state_into_the_groups_there_are():
    model, optimizer = built()
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
    optimizer.step()
    scheduler.step()
    kept = optimizer.state[model.up.weight]["momentum_buffer"].clone()
    model.gate = nn.Linear(6, 3)
    model.gate.weight.grad = torch.ones(3, 6)
    before = model.gate.weight.clone()
    with pytest.warns(UserWarning, match="the module has changed: gate.weight goes to muon, gate.bias goes to adamw"):
        optimizer.step()
    assert names(optimizer)["muon"] == ["up.weight", "down.weight", "gate.weight"]
    assert optimizer.plan["gate.weight"].reason == "hidden matrix"
    assert not torch.equal(model.gate.weight, before)
    assert not torch.equal(optimizer.state[model.up.weight]["momentum_buffer"], kept)  # it went on
    scheduler.step()
    assert [group["lr"] for group in optimizer.param_groups] == pytest.approx([0.025, 0.005])


def test_a_part_that_is_new_becomes_a_group():
    model = Net()
    model.up.bias = model.down.bias = None
    optimizer = MuonAdamW(model, 0.1, adamw_args={"lr": 0.02})
    model.gain = nn.Parameter(torch.ones(6))
    with pytest.warns(UserWarning, match="gain goes to adamw"):
        optimizer.step()
    assert [(group["optimizer"], group["lr"]) for group in optimizer.param_groups] == [("muon", 0.1), ("adamw", 0.02)]


def test_what_is_replaced_starts_anew_and_what_is_gone_is_forgotten():
    model, optimizer = built()
    old = [model.down.weight, model.up.bias]
    model.down = nn.Linear(10, 8, bias=False)
    model.up.bias = None
    backward(model)
    with pytest.warns(UserWarning, match="down.weight goes to muon") as caught:
        optimizer.step()
    assert "up.bias is gone" in str(caught[0].message)
    assert names(optimizer) == {"muon": ["up.weight", "down.weight"], "adamw": []}
    assert optimizer.plan["down.weight"].shape == (8, 10)
    assert all(param not in optimizer.state for param in old)
    assert model.down.weight in optimizer.state
    optimizer.load_state_dict(optimizer.state_dict())
    optimizer.step()


@pytest.mark.original("H9")
def test_what_is_thawed_is_said():
    model = Net()
    model.down.requires_grad_(requires_grad=False)
    optimizer = MuonAdamW(model, 0.1)
    assert not optimizer.plan["down.weight"].trainable
    backward(model)
    optimizer.step()
    model.down.requires_grad_(requires_grad=True)
    backward(model)
    with pytest.warns(UserWarning, match="down.weight goes to muon, down.bias goes to adamw"):
        optimizer.step()
    assert optimizer.plan["down.weight"].trainable
    assert model.down.weight in optimizer.state


def test_what_the_user_adds_is_not_added_again():
    model, optimizer = built()
    model.gate = nn.Linear(6, 3)
    optimizer.add_param_group({"params": [(f"gate.{n}", p) for n, p in model.gate.named_parameters()], "lr": 1.0})
    count = len(optimizer.param_groups)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        optimizer.step()
    assert len(optimizer.param_groups) == count


def test_what_is_outside_the_module_stays():
    _, optimizer = built()
    extra = nn.Parameter(torch.ones(3, 4))
    optimizer.add_param_group({"params": [("extra", extra)]})
    extra.grad = torch.ones_like(extra)
    optimizer.step()
    assert not torch.equal(extra, torch.ones_like(extra))


def test_an_addition_that_is_refused_changes_nothing():
    model, optimizer = built()
    before = copy.deepcopy(names(optimizer)), model.up.weight.clone()
    model.phase = nn.Parameter(torch.ones(3, 4, dtype=torch.complex64))
    with pytest.raises(TypeError, match=r"phase' has dtype torch\.complex64"):
        optimizer.step()
    assert names(optimizer) == before[0]
    assert torch.equal(model.up.weight, before[1])
    with pytest.raises(TypeError, match=r"phase' has dtype torch\.complex64"):  # and again, not once
        optimizer.step()


def test_the_module_may_die_and_copies_follow_none():
    model, optimizer = built()
    copied = copy.deepcopy(optimizer)
    model.gate = nn.Linear(6, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        copied.step()
    del model
    gc.collect()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        optimizer.step()
