"""Whatever recipe: the backend's own optimizer does what the core does in numpy."""

import numpy as np
import pytest

from zeropower import TABLES, AdamWRecipe, MuonRecipe, SecondMoment, adamw_step, muon_step
from zeropower.conformance.check import check
from zeropower.conformance.laws import require_optimizer
from zeropower.conformance.oracles import matrices
from zeropower.conformance.tolerances import gradient_response, tensor_error
from zeropower.decay import DECAY_MASKS, DECAY_ORDERS, DECAY_RATES
from zeropower.moments import ADAM_EPS_MODES
from zeropower.momentum import MOMENTUM_FORMS
from zeropower.newton_schulz import METHODS
from zeropower.normalize import CAST_ORDERS, EPS_MODES, NORMALIZATIONS
from zeropower.scaling import SCALE_RULES
from zeropower.second_moment import PER, RESCALES

STEPS, LR, WEIGHT_DECAY = 5, [0.02, 0.03, 0.02, 0.01, 0.02], 0.1
FLOAT64 = 1e-9  # of a parameter; what a difference of 1e-16 may grow to in five iterations of five steps
SHAPES = {"wide": (6, 10), "tall": (10, 6), "square": (8, 8), "twin": (6, 10)}
SEEDS = range(16)


def decay_of(random):
    order = random.choice(DECAY_ORDERS)
    if order == "gradient":
        return {"decay": order}
    return {"decay": order, "decay_rate": random.choice(DECAY_RATES), "decay_mask": random.choice(DECAY_MASKS)}


def plain(fields):
    return {name: value.item() if isinstance(value, np.generic) else value for name, value in fields.items()}


def random_muon(seed, dtype):
    """A sound recipe with every field drawn at random; draws that are refused are drawn anew."""
    random = np.random.default_rng(seed)
    while True:
        second = {
            "per": random.choice(PER),
            "beta": random.uniform(0.8, 0.99),
            "eps": 1e-8,
            "eps_mode": random.choice(EPS_MODES),
            "bias_correction": random.choice([True, False]),
            "rescale": random.choice(RESCALES),
        }
        fields = {
            "momentum": random.uniform(0.5, 0.95),
            "momentum_form": random.choice(MOMENTUM_FORMS),
            "nesterov": random.choice([True, False]),
            "coefficients": random.choice(list(TABLES)),
            "steps": random.integers(2, 8),
            "method": random.choice(METHODS),
            "normalize": random.choice(NORMALIZATIONS),
            "eps": random.choice([1e-8, 1e-7, 1e-3]),
            "eps_mode": random.choice(EPS_MODES),
            "safety": random.choice([1.0, 1.01, 1.05]),
            "cast": random.choice(CAST_ORDERS),
            "scale": random.choice(list(SCALE_RULES)),
            "scale_factor": random.uniform(0.5, 2.0),
            **decay_of(random),
        }
        second = SecondMoment(**plain(second)) if random.choice([True, False]) else None
        try:
            return MuonRecipe(**plain(fields), second_moment=second, compute_dtype=dtype)
        except ValueError:
            continue


def random_adamw(seed):
    random = np.random.default_rng(seed)
    fields = {
        "beta_1": random.uniform(0.5, 0.95),
        "beta_2": random.uniform(0.8, 0.999),
        "eps": random.choice([1e-8, 1e-3]),
        "eps_mode": random.choice(ADAM_EPS_MODES),
        "eps_root": random.choice([0.0, 1e-4]),
        "bias_correction": random.choice([True, False]),
        "nesterov": random.choice([True, False]),
        **decay_of(random),
    }
    return AdamWRecipe(**plain(fields))


def by_the_core(kind, recipe, params, grads):
    """Each parameter by itself, in numpy."""
    take, state = (muon_step if kind == "muon" else adamw_step), dict.fromkeys(params)
    for step, (lr, each) in enumerate(zip(LR, grads, strict=True), start=1):
        for path, param in params.items():
            options = {"lr": lr, "weight_decay": WEIGHT_DECAY, "step": step}
            moved, state[path] = take(param, each[path], state[path], recipe, **options)
            params = {**params, path: moved}
    return params


@check("recipes", dtypes=("float64", "float32"))
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("kind", ["muon", "adamw"])
def test_any_recipe_is_the_core_s(backend, dtype, kind, seed):
    require_optimizer(backend)
    recipe = random_muon(seed, dtype) if kind == "muon" else random_adamw(seed)
    random = np.random.default_rng(seed)
    seeds = random.integers(1 << 30, size=(STEPS + 1, len(SHAPES)))
    params, *grads = (
        {path: matrices(shape, int(s)).astype(dtype) for (path, shape), s in zip(SHAPES.items(), row, strict=True)}
        for row in seeds
    )

    def core(grads):
        return by_the_core(kind, recipe, params, grads)

    ours = backend.optimizer(params, grads, kind=kind, recipe=recipe, lr=LR, weight_decay=WEIGHT_DECAY)
    exact = core(grads)
    bounds = dict.fromkeys(params, FLOAT64) if dtype == "float64" else gradient_response(core, grads)
    errors = {path: tensor_error(ours[path], exact[path]) for path in params}
    assert {path: error for path, error in errors.items() if not error <= bounds[path]} == {}, (recipe, bounds)


@check("recipes", dtypes=("float64",))
def test_the_draw_covers_every_choice(backend, dtype):
    muon, adamw = [random_muon(seed, dtype) for seed in SEEDS], [random_adamw(seed) for seed in SEEDS]
    choices = {
        "momentum_form": MOMENTUM_FORMS,
        "normalize": NORMALIZATIONS,
        "eps_mode": EPS_MODES,
        "decay": DECAY_ORDERS,
        "decay_mask": DECAY_MASKS,
        "decay_rate": DECAY_RATES,
    }
    for field, values in choices.items():
        assert {getattr(recipe, field) for recipe in muon} == set(values), field
    assert {recipe.eps_mode for recipe in adamw} == set(ADAM_EPS_MODES)
    assert len({recipe.second_moment for recipe in muon}) > 4
