"""What happened to each optimizer, gathered from the metrics of a run."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from .runs import Event

__all__ = ["Crossing", "Curve", "History", "histories"]


@dataclass
class Curve:
    """Losses over time; the three lists have one entry for each measurement."""

    steps: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)  # of training, so far
    losses: list[float] = field(default_factory=list)  # nats per byte; NaN where it was not finite

    def add(self, event: Event) -> None:
        """Append a measurement.

        Parameters
        ----------
        event : dict
            An event with step, seconds and loss.
        """
        self.steps.append(event["step"])
        self.seconds.append(event["seconds"])
        self.losses.append(math.nan if event["loss"] is None else event["loss"])


class Crossing(NamedTuple):
    """When a loss was first reached."""

    steps: float
    seconds: float


@dataclass
class History:
    """The training of one optimizer."""

    training: Curve = field(default_factory=Curve)  # loss of each step's batch
    validation: Curve = field(default_factory=Curve)
    optimizer_seconds: float = 0.0  # time in the optimizer
    state_bytes: int = 0  # of the optimizer
    plan: str | None = None  # routing table, for our hybrid

    @property
    def final_loss(self) -> float:
        """Last validation loss, nats per byte."""
        return self.validation.losses[-1] if self.validation.losses else math.nan

    @property
    def seconds(self) -> float:
        """Time of all steps."""
        return self.training.seconds[-1] if self.training.seconds else 0.0

    def finished(self, steps: int) -> bool:
        """Tell whether training came to its end.

        Parameters
        ----------
        steps : int
            Steps that were wanted.

        Returns
        -------
        bool
            Whether the last validation was after that many.
        """
        return self.validation.steps[-1:] == [steps]

    def reaches(self, loss: float) -> Crossing | None:
        """Find when the validation loss first fell to a value, on straight lines between validations.

        Parameters
        ----------
        loss : float
            The value.

        Returns
        -------
        Crossing or None
            None if it never did.
        """
        curve = self.validation
        for index, after in enumerate(curve.losses):
            if not after <= loss:  # NaN on either side reaches nothing
                continue
            if index == 0:
                return Crossing(curve.steps[0], curve.seconds[0])
            before = curve.losses[index - 1]
            share = (before - loss) / (before - after) if before > loss else 1.0
            return Crossing(
                _between(curve.steps[index - 1], curve.steps[index], share),
                _between(curve.seconds[index - 1], curve.seconds[index], share),
            )
        return None


def histories(events: Iterable[Event]) -> dict[str, History]:
    """Sort events by optimizer.

    Parameters
    ----------
    events : iterable of dict
        Events of a run, oldest first.

    Returns
    -------
    dict of str to History
        By label, in the order in which training began.
    """
    found: dict[str, History] = {}
    for event in events:
        history = found.setdefault(event["optimizer"], History())
        if event["event"] == "step":
            history.training.add(event)
            history.optimizer_seconds += event["optimizer_ms"] / 1000
        elif event["event"] == "validation":
            history.validation.add(event)
        else:
            history.state_bytes = event["state_bytes"]
            history.plan = event["plan"]
    return found


def _between(start: float, end: float, share: float) -> float:
    return start + share * (end - start)
