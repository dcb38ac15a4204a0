"""What is worked on together: everything once, like with like, within a bound."""

import pytest
import torch

from zeropower.torch import groups

BOUND = 100


@pytest.fixture(autouse=True)
def small_bound(monkeypatch):
    monkeypatch.setattr(groups, "_ELEMENTS_AT_ONCE", {"cpu": BOUND})


def with_gradients(*shapes: tuple[int, ...], dtype: torch.dtype = torch.float32) -> list[torch.Tensor]:
    params = [torch.zeros(shape, dtype=dtype) for shape in shapes]
    for param in params:
        param.grad = torch.zeros_like(param)
    return params


def test_stacks_are_of_equal_matrices_and_bounded():
    params = with_gradients(*[(4, 10), (10, 4), (4, 10)] * 3, (20, 20))
    odd = with_gradients((4, 10), dtype=torch.float64)
    found = list(groups.stacks([*params, *odd], key=lambda _: None))
    assert [len(stack) for stack in found] == [2, 2, 2, 2, 1, 1, 1]
    assert sorted(id(p) for stack in found for p in stack) == sorted(id(p) for p in [*params, *odd])
    for stack in found:
        assert len({(p.shape, p.dtype) for p in stack}) == 1
        assert len(stack) == 1 or sum(p.numel() for p in stack) <= BOUND


def test_what_has_another_key_is_stacked_apart():
    params = with_gradients((2, 3), (2, 3), (2, 3))
    counts = {params[0]: 1, params[1]: 2, params[2]: 1}
    found = list(groups.stacks(params, key=counts.__getitem__))
    assert [[counts[p] for p in stack] for stack in found] == [[1, 1], [2]]


def test_pieces_cover_every_element_once_and_are_bounded():
    params = with_gradients((7,), (30, 11), (), (40,), (0, 3), (3, 3), (50,))
    for param in params:
        param.copy_(torch.arange(param.numel()).reshape(param.shape))
    found = list(groups.pieces(params, key=lambda _: None, is_flat=torch.Tensor.is_contiguous))
    for batch in found:
        assert 0 < sum(piece.of(piece.param).numel() for piece in batch) <= BOUND
    for param in params:
        parts = [piece.of(param) for batch in found for piece in batch if piece.param is param]
        assert torch.equal(torch.cat([torch.empty(0), *parts]), param.flatten())
        assert all(part.data_ptr() >= param.data_ptr() for part in parts)
    assert len(found) <= 1 + sum(p.numel() for p in params) // BOUND * 2


def test_what_cannot_be_cut_comes_whole_and_alone():
    params = with_gradients((30, 11), (5,))
    params[0].data = params[0].data.T.contiguous().T
    found = list(groups.pieces(params, key=lambda _: None, is_flat=torch.Tensor.is_contiguous))
    whole = [batch for batch in found if batch[0].param is params[0]]
    assert [(len(batch), batch[0].part) for batch in whole] == [(1, None)]
    assert whole[0][0].of(params[0]) is params[0]
