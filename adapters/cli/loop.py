"""The training loop, one for every framework and optimizer."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from .batches import Batches
from .progress import Reporter
from .runs import Run
from .trainer import Position, Trainer

__all__ = ["Surroundings", "train"]

VALIDATIONS: Final = 20  # in a run, evenly spaced, besides the one before the first step; each saves a checkpoint


@dataclass(frozen=True)
class Surroundings:
    """What the loop works with besides the trainer.

    Parameters
    ----------
    run : Run
        Takes metrics and checkpoints.
    batches : Batches
        Gives the data.
    steps : int
        Steps to do in all.
    reporter : Reporter
        Shows how it goes.
    stopped : callable
        Asked after each step whether to stop early.
    """

    run: Run
    batches: Batches
    steps: int
    reporter: Reporter
    stopped: Callable[[], bool]


def train(trainer: Trainer, label: str, around: Surroundings) -> bool:
    """Train from the last checkpoint, or from the start, to the end or until stopped; then save.

    Parameters
    ----------
    trainer : Trainer
        A fresh one.
    label : str
        Label of its optimizer.
    around : Surroundings
        Data, metrics, and what to show.

    Returns
    -------
    bool
        Whether all steps are done.
    """
    run, steps = around.run, around.steps
    checkpoint = run.checkpoint(label)
    position = trainer.load(checkpoint) if checkpoint.exists() else Position(0, 0.0)
    run.forget(label, after=position.step or -1)
    around.reporter.begin(label, position.step, steps)
    if position.step == 0:
        _validate(trainer, label, position, around)
    saved = position.step
    while position.step < steps and not around.stopped():
        position = _step(trainer, label, position, around)
        if position.step % max(1, steps // VALIDATIONS) == 0 or position.step == steps:
            _validate(trainer, label, position, around)
            saved = _save(trainer, label, position, run)
    if saved < position.step:
        _save(trainer, label, position, run)
    return position.step == steps


def _step(trainer: Trainer, label: str, position: Position, around: Surroundings) -> Position:
    step = trainer.step(around.batches.training(position.step))
    after = Position(position.step + 1, position.seconds + step.seconds)
    around.run.log(
        "step",
        label,
        **after._asdict(),
        loss=step.loss,
        ms=1000 * step.seconds,
        optimizer_ms=1000 * step.optimizer_seconds,
    )
    if after.step == 1:  # optimizers make their state in the first step
        around.run.log("optimizer", label, step=after.step, state_bytes=trainer.state_bytes, plan=trainer.plan)
    around.reporter.advance(step)
    return after


def _validate(trainer: Trainer, label: str, position: Position, around: Surroundings) -> None:
    losses = [trainer.evaluate(windows) for windows in around.batches.validation]
    around.run.log("validation", label, **position._asdict(), loss=sum(losses) / len(losses))


def _save(trainer: Trainer, label: str, position: Position, run: Run) -> int:
    run.write(run.checkpoint(label).name, lambda path: trainer.save(path, position))
    return position.step
