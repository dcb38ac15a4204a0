"""Every optimizer of every backend trains."""

import json

import numpy as np
import pytest

from zeropower import DEFAULT_RULES, DIALECTS
from zeropower.cli.model import ModelShape
from zeropower.cli.optimizers import SWEEP_FACTORS, TABLES, Settings, choose
from zeropower.cli.schedule import learning_rate_factors
from zeropower.cli.trainer import Task, load_backend

SHAPE = ModelShape(width=16, layers=1, heads=2, context=8)
NAMES = [(backend, name) for backend, table in TABLES.items() for name in table]


def windows() -> np.ndarray:
    return np.random.default_rng(0).integers(97, 103, size=(4, SHAPE.context + 1)).astype(np.int32)


@pytest.mark.parametrize("backend", TABLES)
def test_tables_and_builders_have_the_same_names(backend):
    pytest.importorskip(backend, reason=f"{backend} is not installed")
    if backend == "torch":
        from zeropower.cli.torch_optimizers import BUILDERS
    else:
        from zeropower.cli.jax_optimizers import BUILDERS
    assert set(BUILDERS) == set(TABLES[backend])


@pytest.mark.parametrize(("backend", "name"), NAMES)
def test_three_steps_on_one_batch_lower_its_loss(backend, name):
    pytest.importorskip(backend, reason=f"{backend} is not installed")
    (chosen,) = choose([name], backend, sweep=False)
    trainer = load_backend(backend, None).trainer(Task(SHAPE, 4, 0, chosen, learning_rate_factors(3)))
    first = trainer.evaluate(windows())
    steps = [trainer.step(windows()) for _ in range(3)]
    assert first == pytest.approx(np.log(256), rel=1e-6)
    assert steps[0].loss == first
    assert trainer.evaluate(windows()) < steps[2].loss < steps[1].loss < first
    assert all(0 < step.optimizer_seconds < step.seconds for step in steps)
    assert trainer.state_bytes > 0
    assert (trainer.plan is not None) == (name == "muon_adamw")


@pytest.mark.parametrize("backend", TABLES)
def test_plan_names_every_weight(backend):
    pytest.importorskip(backend, reason=f"{backend} is not installed")
    (chosen,) = choose(["muon_adamw"], backend, sweep=False)
    plan = load_backend(backend, None).trainer(Task(SHAPE, 4, 0, chosen, learning_rate_factors(3))).plan
    assert plan is not None
    for part in ("embed", "head", "attn_norm", "mlp"):
        assert part in plan


@pytest.mark.parametrize("backend", TABLES)
def test_factors_multiply_the_rate(backend):
    """A tenth of ten times the rate is the rate."""
    pytest.importorskip(backend, reason=f"{backend} is not installed")

    def moved(lr: float, factors: np.ndarray) -> float:
        (chosen,) = choose([f"sgd:lr={lr}"], backend, sweep=False)
        trainer = load_backend(backend, None).trainer(Task(SHAPE, 4, 0, chosen, factors))
        before = trainer.step(windows()).loss
        return before - trainer.evaluate(windows())

    slow, same = moved(1e-3, np.ones(3)), moved(1e-2, np.full(3, 0.1))
    assert slow == same > 0


def test_requests_override_the_tuned_settings():
    plain, changed = choose(["muon_adamw", "muon_adamw:lr=0.5,adamw_lr=1e-3"], "torch", sweep=False)
    tuned = TABLES["torch"]["muon_adamw"]
    assert plain.settings == tuned
    assert changed.settings == Settings(0.5, tuned.weight_decay, 1e-3, "zeropower")
    assert changed.label == "muon_adamw:lr=0.5,adamw_lr=1e-3"
    assert changed.name == "muon_adamw"


@pytest.mark.parametrize("backend", TABLES)
def test_a_request_may_name_a_dialect(backend):
    """Its recipes train, and otherwise than the default's; the routing is that of the default."""
    requests = ["muon_adamw", "muon_adamw:dialect=normuon"]
    losses = []
    for chosen in choose(requests, backend, sweep=False):
        trainer = load_backend(backend, None).trainer(Task(SHAPE, 4, 0, chosen, np.ones(3)))
        for _ in range(2):  # the first gradient of the hidden matrices is zero: the head starts from zeros
            trainer.step(windows())
        losses.append(trainer.evaluate(windows()))
    assert abs(losses[0] - losses[1]) > 1e-4
    dialect = choose(requests[1:], backend, sweep=False)[0].settings.to_dialect()
    assert dialect.muon == DIALECTS["normuon"].muon
    assert dialect.rules == DEFAULT_RULES
    assert dialect.layout is None


def test_a_sweep_repeats_each_request_around_its_rate():
    swept = choose(["sgd:weight_decay=0.5", "adamw:lr=0.01"], "torch", sweep=True)
    assert [one.settings.lr for one in swept[5:]] == pytest.approx([0.01 * one for one in SWEEP_FACTORS])
    assert {one.settings.weight_decay for one in swept[:5]} == {0.5}
    assert swept[5].label == "adamw:lr=0.0025"
    assert swept[0].label == f"sgd:lr={swept[0].settings.lr:g},weight_decay=0.5"
    assert len({one.label for one in swept}) == 10


def test_settings_are_plain_numbers():
    for table in TABLES.values():
        for settings in table.values():
            assert json.loads(json.dumps(vars(settings))) == vars(settings)
