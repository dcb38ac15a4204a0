"""What a step follows in place of ``grad``, and at which rate."""

import pytest
import torch
from torch import nn

from zeropower.torch import AdamW, BitNetAdamW, Muon, MuonAdamW

OPTIMIZERS = {
    "muon": lambda pairs: Muon(pairs[:2], lr=0.1, dialect="zeropower"),
    "adamw": lambda pairs: AdamW(pairs, lr=0.1),
    "bitnet": lambda pairs: BitNetAdamW(pairs, lr=0.1, total_steps=4),
    "muon_adamw": lambda pairs: MuonAdamW(pairs, lr=0.1, adamw_args={"lr": 0.02}),
}


@pytest.fixture(params=OPTIMIZERS.values(), ids=OPTIMIZERS)
def build(request):
    return request.param


def pairs(dtype=torch.float32):
    generator = torch.Generator().manual_seed(0)
    shapes = {"a": (4, 6), "b": (4, 6), "gain": (6,)}
    return [
        (name, nn.Parameter(torch.randn(shape, generator=generator, dtype=dtype))) for name, shape in shapes.items()
    ]


def gradients(params, seed):
    generator = torch.Generator().manual_seed(seed)
    return {name: torch.randn(param.shape, generator=generator).to(param.dtype) for name, param in params}


def flat(params):
    return torch.cat([param.detach().flatten() for _, param in params])


def only_known(source, optimizer):
    names = {name for group in optimizer.param_groups for name in group["param_names"]}
    return {name: grad for name, grad in source.items() if name in names}


@pytest.mark.original("J4")
def test_several_sources_are_summed(build):
    params, same = pairs(), pairs()
    optimizer, reference = build(params), build(same)
    for step in range(3):
        sources = [only_known(gradients(params, 10 * step + number), optimizer) for number in range(3)]
        del sources[1]["a"]
        sources[2]["a"] = None
        for name, param in same:
            present = [source[name] for source in sources if source.get(name) is not None]
            param.grad = torch.stack(present).sum(0) if present else None
        optimizer.step(gradients=sources)
        reference.step()
        torch.testing.assert_close(flat(params), flat(same), rtol=1e-5, atol=1e-6)
    assert all(param.grad is None for _, param in params)


def test_a_source_may_go_by_parameter_and_be_alone(build):
    params, same = pairs(), pairs()
    optimizer, reference = build(params), build(same)
    source = only_known(gradients(params, 1), optimizer)
    optimizer.step(gradients={param: source[name] for name, param in params if name in source})
    for name, param in same:
        param.grad = source.get(name)
    reference.step()
    assert torch.equal(flat(params), flat(same))


def test_sums_of_16_bit_gradients_are_rounded_once():
    params = [("w", nn.Parameter(torch.zeros(1, dtype=torch.bfloat16)))]
    optimizer = AdamW(params, 1.0, betas=(0.0, 0.0), eps=1.0)
    optimizer.step(gradients=[{"w": torch.tensor([1.0], dtype=torch.bfloat16)}] + [{"w": torch.tensor([2.0**-9])}] * 4)
    moment = optimizer.state[params[0][1]]["exp_avg"]
    assert moment.item() == 1.0 + 2.0**-7  # one at a time, each would have been lost


@pytest.mark.original("J1")
def test_what_no_source_has_is_left_alone(build):
    params = pairs()
    optimizer = build(params)
    before = params[1][1].clone()
    optimizer.step(gradients=[{"a": torch.ones(4, 6)}, {}])
    assert torch.equal(params[1][1], before)
    assert params[1][1] not in optimizer.state


@pytest.mark.parametrize(
    ("source", "error", "text"),
    [
        ({"c": torch.ones(4, 6)}, ValueError, "gradients has 'c'; accepted: the optimizer's parameters"),
        ({"a": torch.ones(6, 4)}, ValueError, r"the gradient of parameter 'a' has shape \(6, 4\); accepted: \(4, 6\)"),
        ({"a": torch.ones(4, 6, dtype=torch.int32)}, TypeError, "the gradient of parameter 'a' is"),
        ({"a": torch.ones(4, 6).to_sparse()}, TypeError, "accepted: dense"),
        ([torch.ones(4, 6)], TypeError, "gradients holds a Tensor; accepted: mappings"),
    ],
    ids=["unknown", "shape", "integers", "sparse", "no mapping"],
)
def test_bad_sources_change_nothing(build, source, error, text):
    params = pairs()
    optimizer = build(params)
    before = flat(params)
    good = {"b": torch.ones(4, 6)}
    with pytest.raises(error, match=text):
        optimizer.step(gradients=[good, *(source if isinstance(source, list) else [source])])
    assert torch.equal(flat(params), before)
    assert not optimizer.state


def test_a_closure_and_gradients_exclude_each_other(build):
    optimizer = build(pairs())
    with pytest.raises(ValueError, match="gradients and closure are both given"):
        optimizer.step(lambda: 0.0, gradients={})


@pytest.mark.original("J9")
def test_a_rate_of_one_step_keeps_the_ratio_of_the_groups():
    def run(*, rates=None, lr=None):
        params = pairs()
        groups = [{"params": params[:1]}, {"params": params[1:], "lr": 0.3}]
        optimizer = MuonAdamW(groups, lr=0.1, adamw_args={"lr": 0.02})
        for group, rate in zip(optimizer.param_groups, rates or [], strict=False):
            group["lr"] = rate
        optimizer.step(gradients=gradients(params, 0), lr=lr)
        return flat(params), [group["lr"] for group in optimizer.param_groups]

    given, kept = run(lr=0.2)
    expected, _ = run(rates=[0.2, 0.6, 0.12])
    torch.testing.assert_close(given, expected, rtol=1e-6, atol=0.0)
    assert kept == pytest.approx([0.1, 0.3, 0.06])  # for that step alone


def test_a_rate_of_one_step_is_checked(build):
    params = pairs()
    optimizer = build(params)
    before = flat(params)
    with pytest.raises(ValueError, match=r"lr=-1\.0 is out of range"):
        optimizer.step(lr=-1.0, gradients={"a": torch.ones(4, 6)})
    assert torch.equal(flat(params), before)


@pytest.mark.original("G5")
def test_a_rate_of_zero_moves_the_state_alone(build):
    params = pairs()
    optimizer = build(params)
    before = flat(params)
    optimizer.step(lr=0.0, gradients={"a": torch.ones(4, 6)})
    assert torch.equal(flat(params), before)
    assert any(value.any() for value in optimizer.state[params[0][1]].values() if isinstance(value, torch.Tensor))


@pytest.mark.original("J3")
def test_state_follows_its_parameter(build):
    params = pairs()
    optimizer = build(params)
    optimizer.step(gradients={"a": torch.ones(4, 6)})
    param = params[0][1]
    param.grad = None
    torch.utils.swap_tensors(param, nn.Parameter(param.detach().to("meta")))  # a device that every machine has
    optimizer.step(gradients={param: torch.ones(4, 6)})  # the gradient follows, too
    assert {v.device.type for v in optimizer.state[param].values() if isinstance(v, torch.Tensor)} == {"meta"}
