"""What every PyTorch optimizer is expected to do, and to refuse."""

import math

import pytest
import torch
from torch import nn
from torch.optim import lr_scheduler

from zeropower.torch import BitNetAdamW, Muon, MuonAdamW

LR = 0.1
OPTIMIZERS = {
    "muon": lambda pairs, **options: Muon(pairs, **{"lr": LR, **options}),
    "adamw": lambda pairs, **options: BitNetAdamW(pairs, **{"lr": LR, "total_steps": 50, **options}),
    "muon_adamw": lambda pairs, **options: MuonAdamW(pairs, **{"lr": LR, **options}),
}


@pytest.fixture(params=OPTIMIZERS.values(), ids=OPTIMIZERS)
def build(request):
    return request.param


def pairs() -> list[tuple[str, nn.Parameter]]:
    generator = torch.Generator().manual_seed(0)
    return [(name, nn.Parameter(torch.randn(4, 6, generator=generator))) for name in ("a", "b", "embed")]


def give_gradients(params, seed: int = 1) -> None:
    generator = torch.Generator().manual_seed(seed)
    for _, param in params:
        param.grad = torch.randn(param.shape, generator=generator).to(param.dtype)


def values(params) -> list[torch.Tensor]:
    return [param.detach().clone() for _, param in params]


def assert_unchanged(optimizer, params, before, state) -> None:
    for found, expected in zip(values(params), before, strict=True):
        assert torch.equal(found, expected)
    assert str(dict(optimizer.state)) == state


# ---- stepping ------------------------------------------------------------------------------------------------------


@pytest.mark.original("J1")
def test_a_parameter_without_a_gradient_is_left_alone(build):
    params = pairs()
    optimizer = build(params, weight_decay=0.5)
    give_gradients(params)
    optimizer.step()
    state, before = str(optimizer.state[params[1][1]]), values(params)
    give_gradients(params, seed=2)
    params[1][1].grad = None
    optimizer.step()
    after = values(params)
    assert torch.equal(after[1], before[1])
    assert str(optimizer.state[params[1][1]]) == state
    assert not torch.equal(after[0], before[0])
    assert not torch.equal(after[2], before[2])


@pytest.mark.original("J1")
def test_no_gradient_at_all_changes_nothing(build):
    params = pairs()
    optimizer = build(params, weight_decay=0.5)
    before = values(params)
    optimizer.step()
    assert_unchanged(optimizer, params, before, "{}")


@pytest.mark.original("C5", "C6", "R10")
@pytest.mark.parametrize("nesterov", [True, False], ids=["nesterov", "plain"])
def test_gradients_are_never_written(build, nesterov):
    params = pairs()
    optimizer = build(params)
    for group in optimizer.param_groups:
        if "nesterov" in group:
            group["nesterov"] = nesterov
    give_gradients(params)
    gradients = [(param.grad, param.grad.clone(), param.grad._version) for _, param in params]
    optimizer.step()
    optimizer.step()
    for (_, param), (grad, copied, version) in zip(params, gradients, strict=True):
        assert param.grad is grad
        assert torch.equal(grad, copied)
        assert grad._version == version


@pytest.mark.original("J2")
def test_parameters_are_updated_in_place(build):
    params = pairs()
    optimizer = build(params)
    give_gradients(params)
    addresses = [param.data_ptr() for _, param in params]
    optimizer.step()
    assert [param.data_ptr() for _, param in params] == addresses
    assert all(param.requires_grad and param.is_leaf for _, param in params)


@pytest.mark.original("J10")
def test_a_closure_runs_once_with_gradients(build):
    params = pairs()
    optimizer = build(params)
    calls = []

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = sum(param.square().sum() for _, param in params)
        loss.backward()
        calls.append(torch.is_grad_enabled())
        return loss

    with torch.no_grad():
        loss = optimizer.step(closure)
    assert calls == [True]
    assert loss.item() > 0
    assert optimizer.step() is None


@pytest.mark.parametrize("set_to_none", [True, False])
def test_zero_grad(build, set_to_none):
    params = pairs()
    optimizer = build(params)
    give_gradients(params)
    optimizer.zero_grad(set_to_none=set_to_none)
    gradients = [param.grad for _, param in params]
    assert all(grad is None if set_to_none else not grad.any() for grad in gradients)


def test_step_hooks_run(build):
    params = pairs()
    optimizer = build(params)
    seen = []
    optimizer.register_step_pre_hook(lambda *_: seen.append(values(params)))
    optimizer.register_step_post_hook(lambda *_: seen.append(values(params)))
    give_gradients(params)
    optimizer.step()
    before, after = seen
    assert not torch.equal(before[0], after[0])


def test_a_column_major_parameter_is_the_same(build):
    params = pairs()
    columns = [(name, nn.Parameter(param.detach().T.contiguous().T)) for name, param in params]
    for members in (params, columns):
        optimizer = build(members)
        for seed in (1, 2):
            give_gradients(members, seed)
            optimizer.step()
    for found, expected in zip(values(columns), values(params), strict=True):
        assert not found.is_contiguous()
        torch.testing.assert_close(found, expected, rtol=0, atol=8 * 2.0**-8 * LR)  # bfloat16 inside


@pytest.mark.parametrize("lr", [torch.tensor(LR), torch.tensor([LR]), torch.tensor(LR, dtype=torch.float64), 1])
def test_the_rate_may_be_a_tensor(build, lr):
    found, expected = pairs(), pairs()
    for params, rate in ((found, lr), (expected, float(lr))):
        give_gradients(params)
        build(params, lr=rate).step()
    for one, other in zip(values(found), values(expected), strict=True):
        assert torch.equal(one, other)


# ---- refusing ------------------------------------------------------------------------------------------------------

BAD_GRADIENTS = {
    "sparse": (lambda shape: torch.ones(shape).to_sparse(), "torch.sparse_coo, torch.float32"),
    "complex": (lambda shape: torch.ones(shape, dtype=torch.complex64), "torch.strided, torch.complex64"),
}


@pytest.mark.parametrize(("make", "text"), BAD_GRADIENTS.values(), ids=BAD_GRADIENTS)
def test_one_bad_gradient_of_many_changes_nothing(build, make, text):
    params = pairs()
    optimizer = build(params)
    give_gradients(params)
    optimizer.step()
    before, state = values(params), str(dict(optimizer.state))
    params[-1][1].grad, params[-1][1].grad_dtype = None, None  # PyTorch itself would refuse some
    params[-1][1].grad = make(params[-1][1].shape)
    with pytest.raises(
        TypeError, match=rf"the gradient of parameter 'embed' is {text}; accepted: dense .* real floating"
    ):
        optimizer.step()
    assert_unchanged(optimizer, params, before, state)


@pytest.mark.parametrize("dtype", [torch.complex64, torch.int64], ids=str)
def test_parameters_that_are_not_real_are_refused(build, dtype):
    bad = nn.Parameter(torch.ones(4, 6, dtype=dtype), requires_grad=dtype.is_complex)
    with pytest.raises(TypeError, match=rf"parameter 'bad' has dtype {dtype}; accepted: real floating dtypes"):
        build([*pairs(), ("bad", bad)])


@pytest.mark.original("R16")
@pytest.mark.parametrize(
    ("option", "value"),
    [("lr", math.nan), ("lr", math.inf), ("lr", -0.1), ("lr", torch.tensor(math.nan)), ("weight_decay", -1.0),
     ("weight_decay", math.nan), ("eps", -1.0)],
    ids=str,
)  # fmt: skip
def test_a_value_out_of_range_is_refused(build, option, value):
    text = rf"{option}=.* is out of range; accepted: a finite number in \[0.0, inf\)"
    if not (option == "eps" and build is OPTIMIZERS["muon_adamw"]):
        with pytest.raises(ValueError, match=text):
            build(pairs(), **{option: value})
    with pytest.raises(ValueError, match=text):
        build([{"params": pairs(), option: value}])
    params = pairs()
    optimizer = build(params)
    give_gradients(params)
    optimizer.step()
    before, state = values(params), str(dict(optimizer.state))
    optimizer.param_groups[-1][option] = value
    with pytest.raises(ValueError, match=text):
        optimizer.step()
    assert_unchanged(optimizer, params, before, state)


@pytest.mark.original("R16")
@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"momentum": 1.0}, ValueError, r"momentum=1.0 is out of range; accepted: a finite number in \[0.0, 1.0\)"),
        ({"momentum": -0.1}, ValueError, r"momentum=-0.1 is out of range"),
        ({"momentum": math.nan}, ValueError, r"momentum=nan is out of range"),
        ({"ns_steps": 0}, ValueError, "ns_steps=0 is out of range; accepted: integers >= 1"),
        ({"ns_steps": 2.5}, TypeError, "ns_steps=2.5 is not an integer"),
        ({"ns_coefficients": (1.0, 2.0)}, ValueError, r"ns_coefficients=\(1.0, 2.0\) holds"),
        ({"ns_coefficients": "best"}, ValueError, "ns_coefficients='best' is not known; accepted: 'keller'"),
        ({"ns_coefficients": (5.0, 0.0, 0.0)}, ValueError, "ns_coefficients=.* blow up"),
        ({"adjust_lr_fn": "spectral"}, ValueError, "adjust_lr_fn='spectral' is not known; accepted: 'original'"),
        ({"dialect": "keler"}, ValueError, "dialect='keler' is not known; accepted: 'zeropower', 'keller', 'torch'"),
        ({"compute_dtype": "int8"}, ValueError, "compute_dtype='int8' is not known; accepted: 'float64', 'float32'"),
        ({"lr": "fast"}, TypeError, "lr='fast' is not a number"),
        ({"lr": torch.ones(2)}, TypeError, r"lr=tensor\(\[1., 1.\]\) is not a number"),
    ],
    ids=str,
)
def test_options_of_muon(options, error, text):
    with pytest.raises(error, match=text):
        Muon(pairs(), **options)


@pytest.mark.parametrize("option", ["foreach", "fused", "maximize", "ns_stepz"])
def test_unknown_arguments_are_refused(build, option):
    with pytest.raises(TypeError, match=rf"{option}=True is no argument of \w+; accepted: \w+, lr, "):
        build(pairs(), **{option: True})


@pytest.mark.parametrize("option", ["maximize", "amsgrad", "differentiable"])
def test_options_that_would_be_ignored_are_refused(build, option):
    with pytest.raises(ValueError, match=rf"{option}=True is not supported by \w+; accepted: False"):
        build([{"params": pairs(), option: True}])


@pytest.mark.parametrize("cls", [Muon, BitNetAdamW])
def test_groups_that_are_no_groups(cls):
    options = {"lr": LR, **({"total_steps": 5} if cls is BitNetAdamW else {})}
    a, b = (param for _, param in pairs()[:2])
    optimizer = cls([a], **options)
    cases = [
        ({"params": {b}}, TypeError, "params is a set, whose order changes between runs; accepted: a list"),
        ({"params": [b, "b"]}, TypeError, "params holds a str; accepted: tensors, or pairs of name and tensor"),
        ({"params": [b, b]}, ValueError, "parameter 1 is parameter 0 again; accepted: each parameter once"),
        ([b], TypeError, "accepted: a dict with 'params'"),
        ({"lr": 1.0}, TypeError, "accepted: a dict with 'params'"),
    ]
    for group, error, text in cases:
        with pytest.raises(error, match=text):
            optimizer.add_param_group(group)
        assert len(optimizer.param_groups) == 1
    group = {"params": (param for param in [b]), "lr": 0.5}
    optimizer.add_param_group(group)
    assert [g["lr"] for g in optimizer.param_groups] == [LR, 0.5]
    assert set(group) == {"params", "lr"}


# ---- schedules -----------------------------------------------------------------------------------------------------

SCHEDULERS = {
    "LambdaLR": lambda o: lr_scheduler.LambdaLR(o, lambda step: 0.9**step),
    "MultiplicativeLR": lambda o: lr_scheduler.MultiplicativeLR(o, lambda step: 0.9),
    "StepLR": lambda o: lr_scheduler.StepLR(o, 2),
    "MultiStepLR": lambda o: lr_scheduler.MultiStepLR(o, [1, 3]),
    "ConstantLR": lambda o: lr_scheduler.ConstantLR(o, total_iters=2),
    "LinearLR": lambda o: lr_scheduler.LinearLR(o),
    "ExponentialLR": lambda o: lr_scheduler.ExponentialLR(o, 0.9),
    "PolynomialLR": lambda o: lr_scheduler.PolynomialLR(o, total_iters=10),
    "CosineAnnealingLR": lambda o: lr_scheduler.CosineAnnealingLR(o, 10),
    "CosineAnnealingWarmRestarts": lambda o: lr_scheduler.CosineAnnealingWarmRestarts(o, 10),
    "CyclicLR": lambda o: lr_scheduler.CyclicLR(o, 0.01, LR, step_size_up=3),
    "OneCycleLR": lambda o: lr_scheduler.OneCycleLR(o, LR, total_steps=10),
    "OneCycleLR without momentum": lambda o: lr_scheduler.OneCycleLR(o, LR, total_steps=10, cycle_momentum=False),
    "SequentialLR": lambda o: lr_scheduler.SequentialLR(
        o, [lr_scheduler.LinearLR(o), lr_scheduler.ExponentialLR(o, 0.9)], [2]
    ),
    "ChainedScheduler": lambda o: lr_scheduler.ChainedScheduler([lr_scheduler.ExponentialLR(o, 0.9)]),
}


@pytest.mark.original("J9")
@pytest.mark.parametrize("schedule", SCHEDULERS.values(), ids=SCHEDULERS)
@pytest.mark.parametrize("as_tensor", [False, True], ids=["float", "tensor"])
def test_schedulers_drive_every_group(build, schedule, as_tensor):
    params = pairs()
    optimizer = build(params, lr=torch.tensor(LR) if as_tensor else LR)
    scheduler = schedule(optimizer)
    rates, before = set(), values(params)
    for step in range(6):
        give_gradients(params, step)
        optimizer.step()
        scheduler.step()
        (rate,) = {float(group["lr"]) for group in optimizer.param_groups}
        rates.add(rate)
    assert len(rates) > 1
    assert all(param.isfinite().all() for _, param in params)
    assert not any(torch.equal(a, b) for a, b in zip(values(params), before, strict=True))


def test_cycled_momentum_is_followed(build):
    params = pairs()
    optimizer = build(params)
    scheduler = lr_scheduler.OneCycleLR(optimizer, LR, total_steps=10)
    seen = set()
    for step in range(3):
        give_gradients(params, step)
        optimizer.step()
        scheduler.step()
        seen |= {g["betas"][0] if "betas" in g else g["momentum"] for g in optimizer.param_groups}
    assert len(seen) == 3
    assert max(seen) < 0.95


def test_reduce_on_plateau(build):
    params = pairs()
    optimizer = build(params)
    scheduler = lr_scheduler.ReduceLROnPlateau(optimizer, patience=0)
    for loss in (1.0, 1.0, 1.0):
        scheduler.step(loss)
    for group in optimizer.param_groups:
        assert group["lr"] == pytest.approx(LR / 100)
