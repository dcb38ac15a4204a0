"""Which bytes each step sees, and the learning rate it has."""

import numpy as np
import pytest

from zeropower.cli.batches import Batches
from zeropower.cli.options import Options
from zeropower.cli.schedule import learning_rate_factors
from zeropower.cli.text import Text

OPTIONS = Options(steps=200, batch=3, context=7, width=8, heads=2)


def text(train: int = 50, validation: int = 20) -> Text:
    everything = np.arange(train + validation, dtype=np.uint8)
    return Text(everything[:train], everything[train:], 1, "")


def test_windows_are_runs_of_the_training_text_and_reach_both_ends():
    batches = Batches(text(), OPTIONS)
    windows = np.stack([batches.training(step) for step in range(OPTIONS.steps)])
    assert windows.shape == (200, 3, 8)
    assert windows.dtype == np.int32
    assert (np.diff(windows, axis=-1) == 1).all()
    assert windows.min() == 0
    assert windows.max() == 49


def test_validation_windows_span_the_validation_text_alone():
    windows = np.concatenate(Batches(text(), OPTIONS).validation)
    assert windows.min() == 50
    assert windows.max() == 69
    assert (np.diff(windows, axis=-1) == 1).all()


def test_validation_of_one_possible_window():
    windows = np.concatenate(Batches(text(validation=8), OPTIONS).validation)
    assert (windows == np.arange(50, 58)).all()


def test_seed_decides_the_order():
    def order(seed: int) -> np.ndarray:
        batches = Batches(text(), Options(**{**OPTIONS.to_json(), "seed": seed}))
        return np.stack([batches.training(step) for step in range(20)])

    np.testing.assert_array_equal(order(1), order(1))
    assert (order(1) != order(2)).any()


@pytest.mark.parametrize("steps", [1, 2, 10, 400])
def test_schedule_rises_to_one_and_falls(steps):
    factors = learning_rate_factors(steps)
    top = int(np.argmax(factors))
    assert factors.shape == (steps,)
    assert factors.max() == 1.0
    assert factors.min() > 0
    assert top + 1 == max(1, round(0.05 * steps))
    assert (np.diff(factors[: top + 1]) > 0).all()
    assert (np.diff(factors[top:]) < 0).all()
