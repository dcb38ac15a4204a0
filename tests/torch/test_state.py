"""Saving and loading: exact, without aliases, without casts."""

import copy
import io
import json
import pickle

import pytest
import torch
from torch import nn

from zeropower import DIALECTS, Dialect
from zeropower.torch import BitNetAdamW, Muon, MuonAdamW

CORRECTED = Dialect(muon=DIALECTS["optax"].muon, adamw=DIALECTS["optax"].adamw, lr=0.01, weight_decay=0.1)

OPTIMIZERS = {
    "muon": lambda model: Muon([model.up.weight, model.down.weight], lr=0.01),
    "muon with a count": lambda model: Muon([model.up.weight, model.down.weight], dialect=CORRECTED),
    "adamw": lambda model: BitNetAdamW(model.parameters(), 0.01, total_steps=8),
    "adamw by parameter": lambda model: BitNetAdamW(model.named_parameters(), 0.01, total_steps=8, clock="parameter"),
    "muon_adamw": lambda model: MuonAdamW(model, 0.01, adamw_args={"lr": 0.002}),
}


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.up, self.gain, self.down = nn.Linear(6, 10), nn.LayerNorm(10), nn.Linear(10, 6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(self.gain(self.up(x)))


@pytest.fixture(params=OPTIMIZERS.values(), ids=OPTIMIZERS)
def build(request):
    return request.param


def train(model: nn.Module, optimizer: torch.optim.Optimizer, steps: range) -> None:
    for step in steps:
        optimizer.zero_grad()
        x = torch.randn(4, 6, generator=torch.Generator().manual_seed(step)).to(model.up.weight.dtype)
        loss = (
            model.up(x).square().sum() if step % 3 == 2 else model(x).square().sum()
        )  # at times some have no gradient
        loss.backward()
        optimizer.step()


def flat(model: nn.Module) -> torch.Tensor:
    return torch.cat([param.detach().flatten() for param in model.parameters()])


def tensors_of(state_dict: dict) -> list[torch.Tensor]:
    return [v for entry in state_dict["state"].values() for v in entry.values() if isinstance(v, torch.Tensor)]


def through_disk(state_dict: dict) -> dict:
    buffer = io.BytesIO()
    torch.save(state_dict, buffer)
    buffer.seek(0)
    return torch.load(buffer, weights_only=True)


def twin(model: nn.Module) -> Net:
    other = Net().to(model.up.weight.dtype)
    other.load_state_dict(model.state_dict())
    return other


@pytest.mark.original("J5")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_a_resumed_run_is_the_uninterrupted_one(build, dtype):
    whole = Net().to(dtype)
    train(whole, build(whole), range(8))
    part = Net().to(dtype)
    optimizer = build(part)
    train(part, optimizer, range(4))
    resumed = twin(part)
    other = build(resumed)
    other.load_state_dict(through_disk(optimizer.state_dict()))
    train(resumed, other, range(4, 8))
    assert torch.equal(flat(resumed), flat(whole))


@pytest.mark.original("J6", "R12")
def test_loading_neither_changes_nor_keeps_its_argument(build):
    model = Net()
    optimizer = build(model)
    train(model, optimizer, range(3))
    saved = optimizer.state_dict()
    before = copy.deepcopy(saved)
    other_model = twin(model)
    other = build(other_model)
    for _ in range(2):
        other.load_state_dict(saved)
    train(other_model, other, range(3, 6))
    assert str(saved) == str(before)
    mine = {tensor.data_ptr() for tensor in tensors_of(saved)}
    assert mine.isdisjoint(tensor.data_ptr() for tensor in tensors_of(other.state_dict()))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_state_of_16_bit_parameters_stays_in_float32(build, dtype):
    model = Net().to(dtype)
    optimizer = build(model)
    train(model, optimizer, range(2))
    saved = through_disk(optimizer.state_dict())
    other = build(twin(model))
    other.load_state_dict(saved)
    pairs = list(zip(tensors_of(other.state_dict()), tensors_of(saved), strict=True))
    assert pairs
    for found, expected in pairs:
        assert found.dtype == torch.float32
        assert torch.equal(found, expected)


@pytest.mark.original("J12", "R12")
@pytest.mark.parametrize("how", [copy.deepcopy, lambda pair: pickle.loads(pickle.dumps(pair))], ids=["copy", "pickle"])
def test_copies_go_on_as_the_original(build, how):
    model = Net()
    optimizer = build(model)
    train(model, optimizer, range(3))
    other_model, other = how((model, optimizer))
    assert getattr(other, "plan", None) == getattr(optimizer, "plan", None)
    train(model, optimizer, range(3, 6))
    train(other_model, other, range(3, 6))
    assert torch.equal(flat(other_model), flat(model))
    extra = nn.Parameter(torch.ones(4, 6))
    other.add_param_group({"params": [("extra", extra)] if "param_names" in other.param_groups[0] else [extra]})


def test_state_appears_with_the_first_gradient_or_when_asked_for(build):
    model = Net()
    optimizer = build(model)
    params = {param for group in optimizer.param_groups for param in group["params"]}
    assert not optimizer.state
    model.up(torch.ones(1, 6)).sum().backward()
    optimizer.step()
    assert set(optimizer.state) == {p for p in params if p.grad is not None}
    optimizer.init_state()
    assert set(optimizer.state) == params
    fresh = build(Net()).state_dict()  # saving asks for it
    assert {index: set(entry) for index, entry in fresh["state"].items()} == {
        index: set(entry) for index, entry in optimizer.state_dict()["state"].items()
    }


def test_initial_state_has_no_effect(build):
    models = Net(), Net()
    optimizers = [build(model) for model in models]
    optimizers[0].init_state()
    for model, optimizer in zip(models, optimizers, strict=True):
        train(model, optimizer, range(4))
    assert torch.equal(flat(models[0]), flat(models[1]))


def test_a_checkpoint_without_state_loads(build):
    model = Net()
    optimizer = build(model)
    train(model, optimizer, range(2))
    optimizer.load_state_dict({**optimizer.state_dict(), "state": {}})
    assert not optimizer.state


def test_hooks_see_what_is_saved_and_loaded(build):
    optimizer = build(Net())
    seen = []
    optimizer.register_state_dict_post_hook(lambda _, saved: seen.append(len(saved["state"])))
    optimizer.register_load_state_dict_pre_hook(lambda _, saved: {**saved, "state": {0: saved["state"][0]}})
    optimizer.register_load_state_dict_post_hook(lambda loaded: seen.append(len(loaded.state)))
    saved = optimizer.state_dict()
    optimizer.load_state_dict(saved)
    assert seen == [len(saved["state"]), 1]


def broken(saved: dict, **changes) -> dict:
    return {**copy.deepcopy(saved), **changes}


def test_what_does_not_fit_is_refused_before_anything_changes(build):
    model = Net()
    optimizer = build(model)
    train(model, optimizer, range(2))
    saved = optimizer.state_dict()
    first = saved["state"][0]
    (name, *_) = (key for key, value in first.items() if isinstance(value, torch.Tensor))
    groups = saved["param_groups"]
    cases = [
        ({"state": {**saved["state"], 0: {"exp": first[name]}}}, "the state of parameter .* holds exp; accepted: "),
        ({"state": {**saved["state"], 0: {**first, name: torch.ones(3)}}}, rf"{name} of parameter .* has shape \(3,\)"),
        ({"state": {**saved["state"], 99: first}}, r"state of unknown parameters \[99\]"),
        ({"param_groups": groups[:-1]}, r"state_dict has groups of .* parameters; accepted: "),
        ({"param_groups": [{**groups[0], "lr": -1.0}, *groups[1:]]}, "lr=-1.0 is out of range"),
    ]
    before = str(optimizer.state_dict())
    for changes, text in cases:
        with pytest.raises(ValueError, match=text):
            optimizer.load_state_dict(broken(saved, **changes))
        assert str(optimizer.state_dict()) == before


def test_a_plan_that_differs_is_refused():
    model = Net()
    saved = MuonAdamW(model).state_dict()
    renamed = MuonAdamW([(f"other.{name}", param) for name, param in model.named_parameters()])
    with pytest.raises(ValueError, match=r"parameter 'up.weight' in state_dict; accepted: 'other.up.weight'"):
        renamed.load_state_dict(saved)
    wrapped = MuonAdamW([(f"_orig_mod.{name}", param) for name, param in model.named_parameters()])
    wrapped.load_state_dict(saved)
    as_json = json.loads(json.dumps(saved["param_groups"]))  # lists for tuples
    wrapped.load_state_dict({**saved, "param_groups": as_json})
    saved["param_groups"][0]["optimizer"] = "adamw"
    with pytest.raises(ValueError, match="optimizer='adamw' in state_dict; accepted: 'muon'"):
        MuonAdamW(model).load_state_dict(saved)


def test_adamw_loads_a_checkpoint_of_torch():
    model = Net()
    theirs = torch.optim.AdamW(model.parameters(), lr=0.03, betas=(0.8, 0.9))
    train(model, theirs, range(2))
    ours = BitNetAdamW(model.parameters(), 0.01, total_steps=8, weight_decay_final=0.01)
    ours.load_state_dict(theirs.state_dict())
    (group,) = ours.param_groups
    assert (group["lr"], group["betas"], group["total_steps"]) == (0.03, (0.8, 0.9), 8)
    expected = twin(model)
    other = torch.optim.AdamW(expected.parameters(), lr=0.03, betas=(0.8, 0.9))
    other.load_state_dict(theirs.state_dict())
    train(model, ours, range(2, 4))
    train(expected, other, range(2, 4))
    torch.testing.assert_close(flat(model), flat(expected), rtol=1e-5, atol=1e-7)
    theirs = torch.optim.AdamW(model.parameters(), lr=0.03, maximize=True)
    with pytest.raises(ValueError, match="maximize=True is not supported by BitNetAdamW; accepted: False"):
        ours.load_state_dict(theirs.state_dict())
