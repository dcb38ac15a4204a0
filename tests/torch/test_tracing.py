"""Core functions inside torch.compile(fullgraph=True), with the adapter's products."""

from functools import partial

import array_api_compat.torch as xp
import pytest
import torch

import zeropower
from zeropower.torch.backend import BACKEND

FUNCTIONS = {
    "ns_iterate": zeropower.ns_iterate,
    "gram_ns": zeropower.gram_ns,  # looks up its restarts
    "orthogonalize": zeropower.orthogonalize,
}
TRACED = ["compile-aot_eager"]  # inductor takes minutes: the conformance suite has its rows


def matrices(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("transform", TRACED)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_iterations_compile_to_one_graph(transform, name):
    function = partial(FUNCTIONS[name], kernels=BACKEND.kernels["torch"], xp=xp)
    compiled = BACKEND.transforms[transform](lambda x: function(x))
    for x in (matrices(2, 8, 20), matrices(20, 8)):
        assert_same(compiled(x), function(x))
        count = BACKEND.compilations()
        compiled(x)
        assert BACKEND.compilations() == count


@pytest.mark.parametrize("transform", TRACED)
def test_strips_give_way_to_whole_products(transform):
    gram = BACKEND.kernels["torch"].gram
    x = matrices(512, 8)
    assert_same(BACKEND.transforms[transform](lambda x: gram(x))(x), gram(x))


@pytest.mark.parametrize("transform", TRACED)
def test_adam_and_decay_compile_with_a_step_tensor(transform):
    def step(grad, moment_1, moment_2, count):
        decay = zeropower.weight_decay_for_step(0.1, 0.0, 0.5, 10, count, xp=xp)
        return *zeropower.adaptive_moment(grad, moment_1, moment_2, count, xp=xp), decay

    grad, count = matrices(4, 6), torch.tensor(7)
    arguments = (grad, grad * 0.5, grad * grad, count)
    compiled = BACKEND.transforms[transform](step)
    for found, expected in zip(compiled(*arguments), step(*arguments), strict=True):
        assert_same(found, expected)
    total = BACKEND.compilations()
    compiled(*arguments[:3], torch.tensor(8))
    assert BACKEND.compilations() == total


@pytest.mark.parametrize("transform", BACKEND.slow)
def test_inductor(transform):
    if reason := BACKEND.unavailable.get(transform):
        pytest.skip(reason)
    function = partial(zeropower.orthogonalize, kernels=BACKEND.kernels["torch"], xp=xp)
    x = matrices(2, 20, 8)
    assert_same(BACKEND.transforms[transform](lambda x: function(x))(x), function(x))


def assert_same(found: torch.Tensor, expected: torch.Tensor) -> None:
    """Four times the response of five float32 steps to inputs that are wrong by their roundoff: about 1e-5."""
    assert found.dtype == expected.dtype
    assert (found - expected).norm() <= 1e-5 * expected.norm()
