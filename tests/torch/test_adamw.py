"""zeropower.torch.BitNetAdamW: AdamW, and its decay of two stages."""

import pytest
import torch

from zeropower.torch import BitNetAdamW

# more elements than are worked on at once, a few that are joined, and one that lies in memory by columns
SHAPES = [(600, 500), (5,), (3, 4), (), (2, 3, 4), (0, 3), (7, 6)]


def weights(dtype: torch.dtype = torch.float64) -> list[torch.nn.Parameter]:
    generator = torch.Generator().manual_seed(0)
    values = [torch.randn(shape, generator=generator).to(dtype) for shape in SHAPES]
    values[-1] = values[-1].T.contiguous().T
    return [torch.nn.Parameter(value) for value in values]


def train(optimizer: torch.optim.Optimizer, steps: int = 6) -> list[torch.Tensor]:
    params = [param for group in optimizer.param_groups for param in group["params"]]
    generator = torch.Generator().manual_seed(1)
    for step in range(steps):
        for index, param in enumerate(params):
            grad = torch.randn(param.shape, generator=generator).to(param.dtype)
            param.grad = None if (step + index) % 4 == 3 else grad
        optimizer.step()
    return [param.detach() for param in params]


@pytest.mark.original("B6", "B7")
@pytest.mark.parametrize(
    "options", [{}, {"betas": (0.7, 0.999), "eps": 1e-3, "weight_decay": 0.3}, {"betas": (0.0, 0.9)}], ids=str
)
def test_it_is_adamw_where_the_decay_is_constant(options):
    decay = options.get("weight_decay", 0.1)
    ours = BitNetAdamW(weights(), 0.01, total_steps=4, **options, weight_decay_final=decay)
    theirs = torch.optim.AdamW(weights(), 0.01, **{"betas": (0.9, 0.95), "weight_decay": 0.1, **options})
    for found, expected in zip(train(ours), train(theirs), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-14)


@pytest.mark.original("R18")
def test_moments_are_float32_for_bfloat16_parameters():
    params = weights(torch.bfloat16)
    optimizer = BitNetAdamW(params, 0.01, total_steps=6)
    train(optimizer)
    state = optimizer.state[params[0]]
    assert state["exp_avg"].dtype == state["exp_avg_sq"].dtype == torch.float32
    assert params[0].dtype == torch.bfloat16


def decays(steps: int, *, clock: str = "global", skipped: tuple[int, ...] = (), **options) -> list[float]:
    """The weight decay of each step, read off a parameter whose gradient is zero."""
    param = torch.nn.Parameter(torch.ones(1, dtype=torch.float64))
    optimizer = BitNetAdamW([param], 0.5, clock=clock, **options)
    found = []
    for step in range(1, steps + 1):
        before = param.item()
        param.grad = None if step in skipped else torch.zeros_like(param)
        optimizer.step()
        found.append((1 - param.item() / before) / 0.5)
    return found


# Computed in float64 from the definition: half away from zero, so that 2 of 2 and 6 of 10 have not begun to fall.
REFERENCE = [
    ((0.1, 0.0, 0.5, 10), [0.1] * 6 + [0.075, 0.05, 0.025, 0.0, 0.0, 0.0]),
    ((0.1, 0.0, 0.5, 2), [0.1, 0.1, 0.1]),
    ((0.1, 0.0, 0.5, 4), [0.1, 0.1, 0.1, 0.0]),
    ((0.1, 0.0, 0.5, 6), [0.1] * 4 + [0.05, 0.0]),
    ((0.1, 0.01, 0.5, 10), [0.1] * 6 + [0.0775, 0.055, 0.0325, 0.01]),
    ((0.1, 0.2, 0.5, 10), [0.1] * 6 + [0.125, 0.15, 0.175, 0.2]),
    ((0.1, 0.0, 0.0, 5), [0.1, 0.075, 0.05, 0.025, 0.0]),
    ((0.1, 0.0, 1.0, 5), [0.1] * 5),
    ((0.1, 0.0, 7.0, 5), [0.1] * 5),
    ((0.1, 0.0, 0.5, 1), [0.1] * 3),
    ((0.1, 0.0, 0.25, 11), [0.1] * 4 + [0.6 / 7, 0.5 / 7]),
]


@pytest.mark.original("B4", "R3")
@pytest.mark.parametrize("clock", ["global", "parameter"])
@pytest.mark.parametrize(("schedule", "expected"), REFERENCE, ids=str)
def test_the_decay_of_each_step(schedule, expected, clock):
    names = ("weight_decay", "weight_decay_final", "second_stage_start", "total_steps")
    found = decays(len(expected), clock=clock, **dict(zip(names, schedule, strict=True)))
    assert found == pytest.approx(expected, rel=1e-12, abs=1e-15)


def test_the_final_decay_is_zero_by_default():
    assert decays(5, total_steps=4) == pytest.approx([0.1, 0.1, 0.1, 0.0, 0.0], abs=1e-15)


@pytest.mark.original("B5", "R1")
@pytest.mark.parametrize(
    ("clock", "expected"),
    [("global", [0.1, 0.0, 0.0, 0.1, 0.05, 0.0]), ("parameter", [0.1, 0.0, 0.0, 0.1, 0.1, 0.1])],
)
def test_clocks_differ_where_gradients_are_missing(clock, expected):
    found = decays(6, clock=clock, skipped=(2, 3), weight_decay=0.1, total_steps=6)
    assert found == pytest.approx(expected, abs=1e-15)


def test_a_group_that_comes_later_joins_the_global_clock():
    first, later = (torch.nn.Parameter(torch.ones(1, dtype=torch.float64)) for _ in range(2))
    optimizer = BitNetAdamW([first], 0.5, total_steps=6)
    for _ in range(4):
        optimizer.step()
    optimizer.add_param_group({"params": [later]})
    for param in (first, later):
        param.grad = torch.zeros_like(param)
    optimizer.step()
    assert first.item() == later.item() == pytest.approx(1 - 0.5 * 0.05)


@pytest.mark.parametrize("betas", [0.9, (0.9,), (0.9, 0.9, 0.9), None], ids=str)
def test_betas_are_a_pair(betas):
    with pytest.raises(TypeError, match=r"betas=.* is not a pair; accepted: \(beta_1, beta_2\)"):
        BitNetAdamW(weights(), 0.1, betas, total_steps=5)


@pytest.mark.original("A10")
@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"betas": (1.0, 0.9)}, r"betas\[0\]=1.0 is out of range"),
        ({"betas": (0.9, -0.1)}, r"betas\[1\]=-0.1 is out of range"),
        ({"eps": -1.0}, "eps=-1.0 is out of range"),
        ({"weight_decay_final": float("inf")}, "weight_decay_final=inf is out of range"),
        ({"second_stage_start": float("nan")}, "second_stage_start=nan is out of range"),
        ({"total_steps": 0}, "total_steps=0 is out of range; accepted: integers >= 1"),
        ({"clock": "wall"}, "clock='wall' is not known; accepted: 'global', 'parameter'"),
    ],
    ids=str,
)
def test_options_out_of_range(options, text):
    with pytest.raises(ValueError, match=text):
        BitNetAdamW(weights(), 0.1, **{"total_steps": 5, **options})
