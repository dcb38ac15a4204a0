"""zeropower.torch's scheduler: the learning rates of real steps, groups with their ratios, saving and loading."""

import copy
import io

import pytest
import torch
from torch import nn

from zeropower.schedules import Constant, Cosine, Exponential, Linear, Noam, StepDecay, TwoStage
from zeropower.torch import BitNetAdamW, Muon, MuonAdamW
from zeropower.torch.schedules import lr_scheduler

PEAK = 1.2e-3
RUNS = {
    TwoStage(peak=PEAK, total_steps=6, warmup=2): [6e-4, PEAK, PEAK, PEAK, 1.0e-3, 8e-4, 8e-4],
    TwoStage(peak=PEAK, total_steps=10): [PEAK] * 6 + [1.1e-3, 1.0e-3, 9e-4, 8e-4, 8e-4],
    TwoStage(peak=PEAK, total_steps=1): [PEAK] * 3,
}
OPTIMIZERS = {
    "sgd": lambda pairs, lr: torch.optim.SGD([param for _, param in pairs], lr=lr, momentum=0.5),
    "muon": lambda pairs, lr: Muon(pairs, lr=lr),
    "adamw": lambda pairs, lr: BitNetAdamW(pairs, lr=lr, total_steps=20),
    "muon_adamw": lambda pairs, lr: MuonAdamW(pairs, lr=lr, adamw_args={"lr": 3 * lr}),
}


def pairs() -> list[tuple[str, nn.Parameter]]:
    generator = torch.Generator().manual_seed(0)
    return [(name, nn.Parameter(torch.randn(4, 6, generator=generator))) for name in ("a", "b", "embed")]


def train(params, optimizer, scheduler, steps) -> None:
    for step in steps:
        generator = torch.Generator().manual_seed(step)
        for _, param in params:
            param.grad = torch.randn(param.shape, generator=generator)
        optimizer.step()
        scheduler.step()


@pytest.mark.original("A12", "A13")
@pytest.mark.parametrize("lr", [1.0, 0.3, torch.tensor(0.3, dtype=torch.float64)], ids=str)
@pytest.mark.parametrize("schedule", RUNS, ids=str)
def test_each_step_has_the_rate_of_the_original(schedule, lr):
    param = nn.Parameter(torch.zeros(1, dtype=torch.float64))
    optimizer = torch.optim.SGD([param], lr=lr)
    scheduler = lr_scheduler(optimizer, schedule)
    found = []
    for _ in RUNS[schedule]:
        before = param.item()
        param.grad = torch.ones_like(param)
        optimizer.step()
        scheduler.step()
        found.append(before - param.item())
    assert found == pytest.approx(RUNS[schedule], rel=1e-12)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_every_optimizer_gets_the_rates(name):
    schedule = TwoStage(peak=PEAK, total_steps=6, warmup=2)
    params = pairs()
    optimizer = OPTIMIZERS[name](params, 0.1)
    scheduler = lr_scheduler(optimizer, schedule)
    for step, rate in enumerate(RUNS[schedule]):
        ratios = [3 if group.get("optimizer") == "adamw" else 1 for group in optimizer.param_groups]
        assert [group["lr"] for group in optimizer.param_groups] == pytest.approx([ratio * rate for ratio in ratios])
        assert scheduler.get_last_lr() == [group["lr"] for group in optimizer.param_groups]
        train(params, optimizer, scheduler, [step])


def test_a_group_with_another_rate_keeps_its_ratio():
    (_, first), (_, second), (_, third) = pairs()
    groups = [{"params": [first]}, {"params": [second], "lr": 0.02}, {"params": [third], "lr": 0.0}]
    optimizer = torch.optim.SGD(groups, lr=0.1)
    scheduler = lr_scheduler(optimizer, Linear(initial_lr=0.5, final_lr=0.25, num_steps=1))
    assert [group["lr"] for group in optimizer.param_groups] == pytest.approx([0.5, 0.1, 0.0])
    optimizer.step()
    scheduler.step()
    assert [group["lr"] for group in optimizer.param_groups] == pytest.approx([0.25, 0.05, 0.0])


def save(value) -> io.BytesIO:
    file = io.BytesIO()
    torch.save(value, file)
    file.seek(0)
    return file


SCHEDULES = [
    Constant(lr=0.3),
    TwoStage(peak=0.3, total_steps=8),
    Cosine(initial_lr=0.3, num_steps=6, min_lr=0.1, warmup_steps=2),
    Linear(initial_lr=0.3, final_lr=0.1, num_steps=7),
    Exponential(initial_lr=0.3, gamma=0.9),
    StepDecay(initial_lr=0.3, step_size=3, gamma=0.5),
    Noam(factor=0.3, warmup_steps=4, model_size=8),
]


@pytest.mark.parametrize(
    ("name", "schedule"),
    [*((name, SCHEDULES[1]) for name in OPTIMIZERS), *(("adamw", schedule) for schedule in SCHEDULES)],
    ids=str,
)
def test_a_resumed_run_is_bit_equal(name, schedule):
    whole = pairs()
    optimizer = OPTIMIZERS[name](whole, 0.1)
    scheduler = lr_scheduler(optimizer, schedule)
    train(whole, optimizer, scheduler, range(4))
    saved = save({
        "params": [p.data for _, p in whole],
        "optimizer": optimizer.state_dict(),
        "rates": scheduler.state_dict(),
    })
    train(whole, optimizer, scheduler, range(4, 9))

    state = torch.load(saved, weights_only=True)
    resumed = pairs()
    for (_, param), value in zip(resumed, state["params"], strict=True):
        param.data.copy_(value)
    other = OPTIMIZERS[name](resumed, 0.1)
    later = lr_scheduler(other, schedule)
    other.load_state_dict(state["optimizer"])
    later.load_state_dict(state["rates"])
    train(resumed, other, later, range(4, 9))
    assert later.get_last_lr() == scheduler.get_last_lr()
    for (_, found), (_, expected) in zip(resumed, whole, strict=True):
        assert torch.equal(found, expected)


@pytest.mark.original("A12")
def test_loading_brings_back_the_schedule_that_was_saved():
    param = nn.Parameter(torch.zeros(1))
    first, second = (torch.optim.SGD([param], lr=lr) for lr in (0.5, 0.1))
    ours = lr_scheduler(first, TwoStage(peak=PEAK, total_steps=10))
    theirs = lr_scheduler(second, Exponential(initial_lr=0.5, gamma=0.5))
    for _ in range(6):
        first.step()
        ours.step()
    before = copy.deepcopy(state := ours.state_dict())
    theirs.load_state_dict(state)
    assert state == before
    second.load_state_dict(first.state_dict())
    for optimizer, scheduler in ((first, ours), (second, theirs)):
        optimizer.step()
        scheduler.step()
        assert scheduler.get_last_lr() == [optimizer.param_groups[0]["lr"]] == pytest.approx([1.0e-3])


def test_a_run_continues_at_an_epoch():
    param = nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([{"params": [param], "initial_lr": 0.1}], lr=0.1)
    scheduler = lr_scheduler(optimizer, TwoStage(peak=PEAK, total_steps=10), last_epoch=6)
    assert scheduler.get_last_lr() == pytest.approx([1.0e-3])  # of update 8: seven are done


def test_what_cannot_be_scheduled():
    param = nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([param], lr=0.1)
    kinds = "Constant, TwoStage, Cosine, Linear, Exponential, StepDecay, Noam"
    with pytest.raises(TypeError, match=rf"^schedule=0.1 is no schedule; accepted: {kinds}$"):
        lr_scheduler(optimizer, 0.1)
    assert "initial_lr" not in optimizer.param_groups[0]
    still = torch.optim.SGD([param], lr=0.0)
    with pytest.raises(
        ValueError, match=r"^lr=0.0 of the optimizer is out of range; accepted: above 0, for ratios of "
    ):
        lr_scheduler(still, Constant(lr=0.1))
