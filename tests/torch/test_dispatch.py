"""The table of compute dtypes and products, as data and as optimizers use it."""

import warnings

import pytest
import torch

from zeropower import MuonRecipe
from zeropower.torch import Muon, MuonAdamW, dispatch
from zeropower.torch.dispatch import TABLE, Choice, choose
from zeropower.torch.kernels import FUSED, STRIPED

DTYPES = ("float64", "float32", "float16", "bfloat16")
CPUS = {"plain": {"avx2": True}, "avx512": {"avx512_bf16": True}, "amx": {"amx_bf16": True, "avx512_bf16": False}}


@pytest.fixture(autouse=True)
def first_warning():
    dispatch._warn_once.cache_clear()
    yield
    dispatch._warn_once.cache_clear()


@pytest.mark.parametrize(
    ("device", "wanted", "cpu", "expected"),
    [
        ("cpu", None, "plain", "float32"),
        ("cpu", None, "avx512", "bfloat16"),
        ("cpu", None, "amx", "bfloat16"),
        ("cpu", "bfloat16", "plain", "float32"),
        ("cpu", "bfloat16", "avx512", "bfloat16"),
        ("cpu", "float32", "avx512", "float32"),
        ("cpu", "float64", "avx512", "float64"),
        ("cuda", None, "plain", "bfloat16"),
        ("cuda", "bfloat16", "plain", "bfloat16"),
        ("cuda", "float16", "plain", "float16"),
        ("cuda", "float32", "plain", "float32"),
        ("mps", None, "avx512", "float32"),
        ("mps", "float16", "avx512", "float16"),
        ("xpu", "bfloat16", "plain", "bfloat16"),
    ],
)
@pytest.mark.parametrize("param_dtype", ["float32", "bfloat16", "float16"])
def test_table(device, wanted, cpu, expected, param_dtype):
    kernels = STRIPED if device == "cpu" else FUSED
    assert choose(device, param_dtype, wanted=wanted, capabilities=CPUS[cpu]) == Choice(expected, kernels)


def test_every_row_has_a_reason_and_every_device_a_row_for_every_wish():
    assert all(row.reason for row in TABLE.values())
    devices = {device for device, _ in TABLE}
    assert set(TABLE) == {(device, wanted) for device in devices for wanted in (None, *DTYPES)}


@pytest.mark.original("R14")
@pytest.mark.parametrize(("cpu", "substitute"), [("plain", "float32"), ("avx512", "bfloat16")])
def test_float16_on_a_cpu_becomes_its_substitute_with_one_warning(cpu, substitute):
    with pytest.warns(UserWarning, match=f"float16 becomes {substitute} on this CPU"):
        first = choose("cpu", "float32", wanted="float16", capabilities=CPUS[cpu])
    second = choose("cpu", "float32", wanted="float16", capabilities=CPUS[cpu])  # a warning would be an error
    assert first == second == Choice(substitute, STRIPED)


@pytest.mark.original("E7", "R14")
@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("wanted", [None, *DTYPES])
def test_float64_parameters_are_computed_in_float64_unless_asked_otherwise(device, wanted):
    assert choose(device, "float64", wanted=wanted).compute_dtype == "float64"
    assert choose(device, "float64", wanted=wanted, asked="bfloat16").compute_dtype == "bfloat16"


@pytest.mark.parametrize("device", ["cpu", "cuda", "mps", "xpu"])
@pytest.mark.parametrize("asked", DTYPES)
def test_what_is_asked_for_wins(device, asked):
    for wanted in (None, *DTYPES):
        assert choose(device, "float32", wanted=wanted, asked=asked, capabilities={}).compute_dtype == asked


def moved(**options) -> torch.Tensor:
    generator = torch.Generator().manual_seed(3)
    param = torch.nn.Parameter(torch.randn(12, 20, generator=generator))
    param.grad = torch.randn(12, 20, generator=generator)
    Muon([param], lr=0.1, **options).step()
    return param.detach()


@pytest.mark.parametrize(("cpu", "dtype"), [("plain", "float32"), ("avx512", "bfloat16")])
@pytest.mark.parametrize("dialect", ["torch", "zeropower"])
def test_an_optimizer_computes_in_the_dtype_of_the_row(monkeypatch, cpu, dtype, dialect):
    monkeypatch.setattr(dispatch, "cpu_capabilities", lambda: CPUS[cpu])
    other = {"float32": "bfloat16", "bfloat16": "float32"}[dtype]
    found = moved(dialect=dialect)
    assert torch.equal(found, moved(dialect=dialect, compute_dtype=dtype))
    assert torch.equal(found, moved(dialect=dialect, compute_dtype=getattr(torch, dtype)))
    assert not torch.equal(found, moved(dialect=dialect, compute_dtype=other))


def test_the_warning_comes_when_the_optimizer_is_built(monkeypatch):
    monkeypatch.setattr(dispatch, "cpu_capabilities", dict)
    param = torch.nn.Parameter(torch.ones(4, 6))
    with pytest.warns(UserWarning, match="float16 becomes float32"):
        optimizer = Muon([{"params": [param], "preferred_dtype": "float16"}])
    param.grad = torch.ones(4, 6)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        optimizer.step()
    assert caught == []


def test_a_compute_dtype_among_the_args_of_the_hybrid_wins():
    model = torch.nn.Linear(4, 6)
    groups = MuonAdamW(model, muon_args={"compute_dtype": torch.float32}).param_groups
    assert groups[0]["compute_dtype"] == "float32"
    assert MuonRecipe().compute_dtype is None  # so that the value above came from the arguments
