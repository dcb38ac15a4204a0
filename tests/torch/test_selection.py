"""zeropower.torch.get_params_for_muon: breadth-first, without excluded subtrees."""

import pytest
import torch
from torch import nn

from zeropower.torch import Muon, get_params_for_muon


class Head(nn.Linear):
    pass


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv1d(4, 8, 3)
        self.gain = nn.Parameter(torch.ones(8))


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.block = Block()
        self.tokens = nn.Embedding(10, 4)
        self.up = nn.Linear(4, 8)
        self.head = Head(8, 10)
        self.mixer = nn.Parameter(torch.ones(4, 4))
        self.frozen = nn.Linear(4, 4).requires_grad_(False)


def names(model, params):
    known = {id(param): name for name, param in model.named_parameters()}
    return [known[id(param)] for param in params]


@pytest.mark.original("H8", "H9", "H10")
def test_modules_are_searched_breadth_first():
    model = Net()
    assert names(model, get_params_for_muon(model)) == ["mixer", "up.weight", "head.weight", "block.conv.weight"]


@pytest.mark.original("H8")
def test_excluded_classes_take_their_subclasses_and_subtrees_along():
    model = Net()
    assert names(model, get_params_for_muon(model, exclude=(nn.Embedding, nn.Linear, Block))) == ["mixer"]
    assert names(model, get_params_for_muon(model, exclude=(Head,)))[1:3] == ["tokens.weight", "up.weight"]
    assert get_params_for_muon(nn.Embedding(3, 4)) == []


@pytest.mark.original("H11", "R15")
def test_an_excluded_owner_keeps_a_shared_parameter():
    model = Net()
    model.head.weight = nn.Parameter(torch.ones(10, 4))
    model.tokens.weight = model.head.weight
    assert "head.weight" not in names(model, get_params_for_muon(model))
    model = Net()
    model.up.weight = model.mixer = nn.Parameter(torch.ones(4, 4))
    assert names(model, get_params_for_muon(model)).count("mixer") == 1


def test_the_selection_trains_with_the_dialect_it_comes_from():
    model = Net()
    optimizer = Muon(get_params_for_muon(model), dialect="diffsinger", compute_dtype="float32")
    model.block.conv.weight.grad = torch.ones_like(model.block.conv.weight)
    before = model.block.conv.weight.clone()
    optimizer.step()
    assert not torch.equal(model.block.conv.weight, before)


@pytest.mark.parametrize("wrong", [int, "Embedding", nn.Embedding(2, 2)], ids=str)
def test_only_classes_of_modules_can_be_excluded(wrong):
    with pytest.raises(TypeError, match=r"exclude holds .*; accepted: subclasses of torch\.nn\.Module"):
        get_params_for_muon(Net(), exclude=[wrong])
