"""The learning rate over a run, as factors of each optimizer's own."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

__all__ = ["learning_rate_factors"]

WARMUP_SHARE: Final = 0.05  # of the steps; the rest decays


def learning_rate_factors(steps: int) -> NDArray[np.float64]:
    """Factors that rise linearly to 1 over the first twentieth of a run and then fall linearly towards 0.

    Parameters
    ----------
    steps : int
        Length of the run.

    Returns
    -------
    numpy.ndarray
        float64 factors in (0, 1], one for each step.
    """
    warmup = max(1, round(WARMUP_SHARE * steps))
    done = np.arange(steps)
    return np.minimum((done + 1) / warmup, (steps - done) / (steps - warmup + 1))
