"""Which bytes each step sees: decided once, with numpy, for every backend and optimizer alike."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from .options import Options
from .text import Text

__all__ = ["Batches", "Windows"]

VALIDATION_BATCHES: Final = 8  # whose mean is a validation loss

Windows = NDArray[np.int32]  # (batch, context + 1): inputs are all but the last column, targets all but the first


class Batches:
    """Windows of a text for training and validation.

    Training windows start at random places, drawn for all steps at once; validation windows are spread
    evenly and are the same each time.

    Parameters
    ----------
    text : Text
        The text.
    options : Options
        Number and size of the batches, and the seed.
    """

    def __init__(self, text: Text, options: Options) -> None:
        self._text = text.train
        self._offsets = np.arange(options.context + 1)
        rng = np.random.default_rng(options.seed)
        self._starts = rng.integers(len(text.train) - options.context, size=(options.steps, options.batch))
        last = len(text.validation) - options.context - 1
        starts = np.linspace(0, last, VALIDATION_BATCHES * options.batch).astype(np.int64)
        self.validation: list[Windows] = [
            self._windows(text.validation, group) for group in starts.reshape(VALIDATION_BATCHES, options.batch)
        ]

    def training(self, step: int) -> Windows:
        """Windows of one step.

        Parameters
        ----------
        step : int
            Number of steps done before, from 0.

        Returns
        -------
        numpy.ndarray
            int32 bytes, ``(batch, context + 1)``.
        """
        return self._windows(self._text, self._starts[step])

    def _windows(self, text: NDArray[np.uint8], starts: NDArray[np.int64]) -> Windows:
        return text[starts[:, None] + self._offsets].astype(np.int32)
