"""State through records that belong to no framework."""

import numpy as np
import pytest
import torch
from torch import nn

from zeropower.record import Record, RecordEntry
from zeropower.torch import AdamW, BitNetAdamW, Muon, MuonAdamW

MATRICES = ("up.weight", "down.weight")
OPTIMIZERS = {
    "adamw": lambda model: AdamW(model.named_parameters(), 0.01),
    "bitnet_adamw": lambda model: BitNetAdamW(model.named_parameters(), 0.01, total_steps=8),
    "muon": lambda model: Muon([p for p in model.named_parameters() if p[0] in MATRICES], 0.01),
    "muon_hybrid": lambda model: MuonAdamW(
        model, 0.01, 0.1, weight_decay_final=0.0, total_steps=8, adamw_args={"clock": "parameter"}
    ),
}
kinds = pytest.mark.parametrize("kind", OPTIMIZERS)


class Net(nn.Module):
    def __init__(self, dtype=torch.float32) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.up, self.gain, self.down = (
            nn.Linear(6, 10, dtype=dtype),
            nn.LayerNorm(10, dtype=dtype),
            nn.Linear(10, 6, dtype=dtype),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(self.gain(self.up(x)))


def train(model, optimizer, steps):
    for step in steps:
        optimizer.zero_grad()
        x = torch.randn(4, 6, generator=torch.Generator().manual_seed(step)).to(model.up.weight.dtype)
        (model.up(x) if step < 2 else model(x)).square().sum().backward()  # some see their first gradient late
        optimizer.step()


def flat(model):
    return torch.cat([param.detach().flatten() for param in model.parameters()])


@kinds
@pytest.mark.original("J5")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_a_run_resumed_from_a_record_is_the_uninterrupted_one(kind, dtype):
    whole, model = Net(dtype), Net(dtype)
    optimizer = OPTIMIZERS[kind](whole)
    train(whole, optimizer, range(5))
    first = OPTIMIZERS[kind](model)
    train(model, first, range(1))
    record = first.to_record()
    assert (record.kind, record.step) == (kind, 1)
    second = OPTIMIZERS[kind](model)
    second.load_record(record)
    train(model, second, range(1, 5))
    assert torch.equal(flat(model), flat(whole))


@kinds
@pytest.mark.original("J7")
def test_a_record_of_another_kind_is_refused_before_anything_changes(kind):
    model = Net()
    optimizer = OPTIMIZERS[kind](model)
    train(model, optimizer, range(2))
    before = optimizer.to_record()
    other = next(name for name in OPTIMIZERS if name != kind)
    with pytest.raises(ValueError, match=f"record is of kind '{other}'; accepted by this optimizer: '{kind}'"):
        optimizer.load_record(Record(other, 0, {}))
    assert_equal(optimizer.to_record(), before)


@kinds
@pytest.mark.original("J8")
def test_loading_replaces_the_state(kind):
    model = Net()
    optimizer = OPTIMIZERS[kind](model)
    train(model, optimizer, range(3))
    optimizer.load_record(Record(kind, 7, {}))
    assert not optimizer.state
    assert optimizer.to_record() == Record(kind, 7, {})


@pytest.mark.original("J6")
def test_a_record_is_a_copy_and_can_be_loaded_twice():
    model = Net()
    optimizer = OPTIMIZERS["muon_hybrid"](model)
    train(model, optimizer, range(3))
    record = optimizer.to_record()
    kept = {path: {k: v.copy() for k, v in entry.arrays.items()} for path, entry in record.entries.items()}
    for _ in range(2):
        optimizer.load_record(record)
        assert_equal(optimizer.to_record(), record)
        train(model, optimizer, range(1))
        for path, arrays in kept.items():
            for name, array in arrays.items():
                np.testing.assert_array_equal(record.entries[path].arrays[name], array)


MOMENTUM = RecordEntry("muon", None, "ema", {"momentum": np.zeros((10, 6), np.float32)})
MOMENTS = RecordEntry("adamw", 1, None, {name: np.zeros(10, np.float32) for name in ("moment_1", "moment_2")})


@pytest.mark.original("R8")
@pytest.mark.parametrize(
    ("entries", "text"),
    [
        ({"gate.weight": MOMENTUM}, "record has the parameter 'gate.weight'; accepted: those of this optimizer"),
        ({"up.bias": MOMENTUM}, "record gives 'up.bias' to muon; accepted: adamw, as it is routed now"),
        (
            {"down.weight": MOMENTUM},
            r"momentum of 'down.weight' has shape \(10, 6\) in the record; accepted: \(6, 10\)",
        ),
        ({"up.bias": MOMENTS._replace(arrays={"moment_1": np.zeros(10)})}, "record holds moment_1 of 'up.bias'"),
        ({"up.bias": MOMENTS._replace(arrays={})}, "record holds nothing of 'up.bias'"),
    ],
    ids=["unknown", "routed elsewhere", "shape", "arrays", "nothing"],
)
def test_what_does_not_fit_is_refused_before_anything_changes(entries, text):
    model = Net()
    optimizer = OPTIMIZERS["muon_hybrid"](model)
    train(model, optimizer, range(3))
    before = optimizer.to_record()
    with pytest.raises(ValueError, match=text):
        optimizer.load_record(Record("muon_hybrid", 3, {"up.weight": MOMENTUM, **entries}))
    assert_equal(optimizer.to_record(), before)


def test_separators_do_not_matter():
    model = Net()
    optimizer = OPTIMIZERS["muon_hybrid"](model)
    optimizer.load_record(Record("muon_hybrid", 3, {"up/weight": MOMENTUM}))
    assert model.up.weight in optimizer.state


@pytest.mark.original("C4")
def test_another_form_of_momentum_is_converted():
    """From a record of the exponential average, heavy ball goes on as if it had been heavy ball all along."""

    def optimizer(model, form):
        return MuonAdamW(model, 0.01, muon_args={"momentum_form": form, "compute_dtype": "float64"})

    whole, model = Net(torch.float64), Net(torch.float64)
    train(whole, optimizer(whole, "heavy_ball"), range(4))
    first = optimizer(model, "ema")
    train(model, first, range(2))
    second = optimizer(model, "heavy_ball")
    second.load_record(first.to_record())
    train(model, second, range(2, 4))
    for ours, reference in ((model.up.weight, whole.up.weight), (model.down.weight, whole.down.weight)):
        assert (ours - reference).norm() <= 1e-9 * reference.norm()


def test_records_need_names():
    optimizer = AdamW(Net().parameters(), 0.01)
    with pytest.raises(TypeError, match="params came without names"):
        optimizer.to_record()
    with pytest.raises(TypeError, match="params came without names"):
        optimizer.load_record(Record("adamw", 0, {}))


def assert_equal(found: Record, expected: Record) -> None:
    assert (found.kind, found.step, list(found.entries)) == (expected.kind, expected.step, list(expected.entries))
    for path, entry in expected.entries.items():
        assert found.entries[path]._replace(arrays={}) == entry._replace(arrays={})
        for name, array in entry.arrays.items():
            np.testing.assert_array_equal(found.entries[path].arrays[name], array)
