"""PyTorch's entry in the conformance suite, by itself."""

import shutil

import array_api_compat.torch as xp
import numpy as np
import pytest
import torch

import zeropower
from zeropower import DIALECTS, AdamWRecipe, Backend, MuonRecipe
from zeropower.torch import backend as module
from zeropower.torch.backend import BACKEND

RANDOM = np.random.default_rng(0)
PARAMS = {"a.weight": RANDOM.standard_normal((8, 12)), "b.weight": RANDOM.standard_normal((3, 6, 4))}
GRADS = [{name: RANDOM.standard_normal(value.shape) for name, value in PARAMS.items()} for _ in range(4)]
del GRADS[2]["b.weight"]
RATES = (0.1, 0.2, 0.05, 0.1)


def test_the_record():
    assert isinstance(BACKEND, Backend)
    assert BACKEND.name == "torch"
    assert BACKEND.namespace() is xp
    assert list(BACKEND.transforms) == ["eager", "compile-aot_eager", "compile-inductor"]
    assert set(BACKEND.kernels) >= {"generic", "torch"}
    assert set(BACKEND.unavailable) <= set(BACKEND.transforms)


@pytest.mark.parametrize("dtype", BACKEND.dtypes)
def test_arrays_go_there_and_back(dtype):
    array = np.array([[1.0, -2.5], [0.125, 3.0]])
    tensor = BACKEND.from_numpy(array, dtype)
    assert tensor.dtype == getattr(torch, dtype)
    back = BACKEND.to_numpy(tensor)
    assert back.dtype == (np.float64 if dtype == "float64" else np.float32)
    np.testing.assert_array_equal(back, array)
    tensor.zero_()
    assert array[0, 0] == 1.0


def test_inductor_is_unavailable_without_a_compiler(monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    assert module._without_compiler() == {"compile-inductor": "no C++ compiler: no-such-compiler is not found"}
    monkeypatch.setenv("CXX", shutil.which("python") or "python3")
    assert module._without_compiler() == {}


def by_the_core(kind: str, recipe: MuonRecipe | AdamWRecipe, name: str) -> np.ndarray:
    param, state, count = torch.tensor(PARAMS[name]), None, 0
    for rate, grads in zip(RATES, GRADS, strict=True):
        if name not in grads:
            continue
        count += 1
        grad = torch.tensor(grads[name])
        options = {"lr": rate, "weight_decay": 0.2, "step": count, "xp": xp}
        if kind == "muon" or (kind == "muon_adamw" and param.ndim == 2):
            assert isinstance(recipe, MuonRecipe)
            param, state = zeropower.muon_step(param, grad, state, recipe, **options)
        else:
            adamw = recipe if isinstance(recipe, AdamWRecipe) else DIALECTS["zeropower"].adamw
            param, state = zeropower.adamw_step(param, grad, state, adamw, **options)
    return param.numpy()


@pytest.mark.parametrize(
    ("kind", "recipe"),
    [
        ("muon", MuonRecipe(restarts=(2,))),
        ("muon", MuonRecipe(momentum_form="ema_corrected", method="standard", compute_dtype="float64")),
        ("adamw", AdamWRecipe(beta_1=0.8, beta_2=0.9, eps=1e-3)),
        ("muon_adamw", MuonRecipe(restarts=(2,))),
    ],
    ids=str,
)
def test_the_driver_runs_the_optimizers(kind, recipe):
    before = {name: value.copy() for name, value in PARAMS.items()}
    found = BACKEND.optimizer(PARAMS, GRADS, kind=kind, recipe=recipe, lr=RATES, weight_decay=0.2)
    for name, value in PARAMS.items():
        np.testing.assert_array_equal(value, before[name])
        np.testing.assert_allclose(found[name], by_the_core(kind, recipe, name), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(("kind", "recipe"), [("sgd", MuonRecipe()), ("muon", AdamWRecipe())], ids=str)
def test_an_unknown_kind_is_refused(kind, recipe):
    with pytest.raises(ValueError, match=rf"kind='{kind}' .*accepted: "):
        BACKEND.optimizer(PARAMS, GRADS, kind=kind, recipe=recipe, lr=RATES, weight_decay=0.0)
