"""A backend's own optimizers against the core's steps in numpy, from one step to twenty."""

import numpy as np
import pytest

from zeropower import AdamWRecipe, MuonRecipe, adamw_step, muon_step, route_params
from zeropower.conformance.check import check
from zeropower.conformance.laws import require_optimizer
from zeropower.conformance.oracles import matrices
from zeropower.conformance.tolerances import gradient_response, tensor_error

DTYPES = ("float64", "float32")
WEIGHT_DECAY = 0.1
MATRICES = {  # two of a shape, so that they may be stacked; wide, tall, square
    "blocks.0.up.weight": (16, 8),
    "blocks.1.up.weight": (16, 8),
    "blocks.0.down.weight": (8, 16),
    "blocks.0.attn.weight": (8, 8),
    "blocks.1.attn.weight": (8, 8),
}
SHAPES = {
    "muon": MATRICES,
    "adamw": {**MATRICES, "bias": (16,), "conv.weight": (4, 3, 2), "temperature": ()},
    "muon_adamw": {**MATRICES, "embed.weight": (12, 8), "norm.weight": (8,), "head.weight": (12, 8)},
}
MUON_RECIPES = {
    "default": {},
    "keller": {"scale": "original", "eps": 1e-7},
    "optax": {"momentum_form": "ema_corrected", "scale": "original", "eps": 1e-8, "eps_mode": "add"},
    "heavy ball": {"momentum_form": "heavy_ball", "nesterov": False, "momentum": 0.9, "scale": "spectral_unclamped"},
    "polar express": {"coefficients": "polar_express", "steps": 6, "normalize": "schatten4", "scale": "none"},
    "restarted": {"method": "gram", "restarts": (2, 4), "coefficients": "you", "normalize": "aol"},
}
ADAMW_RECIPES = {"default": {}, "pytorch": {"beta_2": 0.999}, "burn": {"beta_2": 0.999, "eps": 1e-5}}
ONE_STEP = [
    *(("muon", name) for name in MUON_RECIPES),
    *(("adamw", name) for name in ADAMW_RECIPES),
    ("muon_adamw", "default"),
]
TWENTY_STEPS = [("muon", "default"), ("muon", "optax"), ("adamw", "default"), ("muon_adamw", "default")]


def recipe_of(kind, name, dtype):
    if kind == "adamw":
        return AdamWRecipe(**ADAMW_RECIPES[name])
    return MuonRecipe(**MUON_RECIPES[name], compute_dtype=dtype)


def value(shape, random, dtype):
    """Matrices that are well-conditioned, so that a difference of roundings stays one."""
    x = matrices(shape, int(random.integers(1 << 30))) if len(shape) == 2 else random.standard_normal(shape)
    return np.asarray(x, dtype=dtype)


def run_core(params, grads, kind, recipe, lr):
    """The same run as a loop of pure functions, each parameter by itself."""
    plan = route_params(params)
    params, states = dict(params), dict.fromkeys(params)
    for step, (gradients, rate) in enumerate(zip(grads, lr, strict=True), start=1):
        options = {"lr": rate, "weight_decay": WEIGHT_DECAY, "step": step}
        for path, param in params.items():
            muon = kind == "muon" or (kind == "muon_adamw" and plan[path].optimizer == "muon")
            take = muon_step if muon else adamw_step
            own = recipe if muon or kind == "adamw" else AdamWRecipe()
            params[path], states[path] = take(param, gradients[path], states[path], own, **options)
    return {path: np.asarray(param) for path, param in params.items()}


def assert_run_is_the_core_s(backend, kind, recipe, dtype, lr):
    random = np.random.default_rng(0)
    params = {path: value(shape, random, dtype) for path, shape in SHAPES[kind].items()}
    grads = [{path: value(shape, random, dtype) for path, shape in SHAPES[kind].items()} for _ in lr]
    before = {path: param.copy() for path, param in params.items()}

    def core(grads):
        return run_core(params, grads, kind, recipe, lr)

    ours = backend.optimizer(params, grads, kind=kind, recipe=recipe, lr=lr, weight_decay=WEIGHT_DECAY)
    exact, bounds = core(grads), gradient_response(core, grads)
    assert ours.keys() == params.keys()
    errors = {path: tensor_error(ours[path], exact[path]) for path in params}
    assert {path: error for path, error in errors.items() if not error <= bounds[path]} == {}, bounds
    assert all(ours[path].dtype == dtype and ours[path].shape == param.shape for path, param in params.items())
    assert all(np.array_equal(params[path], before[path]) for path in params)


@check("optimizer step", dtypes=DTYPES)
@pytest.mark.parametrize(("kind", "name"), ONE_STEP)
def test_one_step(backend, dtype, kind, name):
    require_optimizer(backend)
    assert_run_is_the_core_s(backend, kind, recipe_of(kind, name, dtype), dtype, [0.02])


@check("optimizer run", dtypes=DTYPES)
@pytest.mark.parametrize(("kind", "name"), TWENTY_STEPS)
def test_twenty_steps(backend, dtype, kind, name):
    require_optimizer(backend)
    warmup, decay = np.linspace(0.004, 0.02, 5), np.linspace(0.02, 0.0, 15)
    lr = [float(rate) for rate in (*warmup, *decay)]
    assert_run_is_the_core_s(backend, kind, recipe_of(kind, name, dtype), dtype, lr)
