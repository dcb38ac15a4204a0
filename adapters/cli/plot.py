"""The plot of a run: losses against steps and against seconds."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from .history import Curve, History

__all__ = ["plot"]

SMOOTHING: Final = 0.95  # weight of the past in the mean of the training loss


def plot(found: Mapping[str, History], against: str, path: Path) -> None:
    """Draw the validation loss and the smoothed training loss of each optimizer.

    Parameters
    ----------
    found : mapping of str to History
        What happened, by label.
    against : str
        Label of the optimizer whose final validation loss is drawn as a line.
    path : Path
        PNG file to write.
    """
    figure = Figure(figsize=(12, 5), layout="constrained")
    by_step, by_second = figure.subplots(1, 2, sharey=True)
    for axes, clock in ((by_step, "steps"), (by_second, "seconds")):
        for index, (label, history) in enumerate(found.items()):
            color = f"C{index % 10}"
            axes.plot(getattr(history.training, clock), smooth(history.training), color=color, alpha=0.35, lw=1)
            validation = history.validation
            axes.plot(getattr(validation, clock), validation.losses, color=color, marker=".", label=label)
        axes.set_xlabel({"steps": "steps", "seconds": "seconds of training"}[clock])
        axes.grid(alpha=0.3)
        if against in found and math.isfinite(found[against].final_loss):
            axes.axhline(found[against].final_loss, color="black", lw=0.8, ls="--")
    by_step.set_ylabel("loss, nats per byte (dots: validation; pale: training, smoothed)")
    if found:
        by_step.legend()
    _focus(by_step, found)
    figure.savefig(path, dpi=120, format="png")


def smooth(curve: Curve) -> NDArray[np.float64]:
    """Average losses over the recent past, with weights that fall off exponentially and sum to 1.

    Parameters
    ----------
    curve : Curve
        Losses of n steps.

    Returns
    -------
    numpy.ndarray
        Averages, ``(n,)``.
    """
    mean, weight = 0.0, 0.0
    smoothed = np.empty(len(curve.losses))
    for index, loss in enumerate(curve.losses):
        mean = SMOOTHING * mean + (1 - SMOOTHING) * loss
        weight = SMOOTHING * weight + (1 - SMOOTHING)
        smoothed[index] = mean / weight
    return smoothed


def _focus(axes: Axes, found: Mapping[str, History]) -> None:
    """Cut off the first fall of the loss, which would flatten the rest."""
    losses = [loss for history in found.values() for loss in history.validation.losses[1:] if math.isfinite(loss)]
    if losses:
        margin = 0.05 * (max(losses) - min(losses)) or 0.1
        axes.set_ylim(min(losses) - margin, max(losses) + margin)
