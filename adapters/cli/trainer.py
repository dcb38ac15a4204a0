"""What the training loop knows of a framework."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from .batches import Windows
from .errors import require
from .model import ModelShape
from .optimizers import Chosen

__all__ = ["Backend", "Position", "Step", "Task", "Trainer", "load_backend"]


@dataclass(frozen=True)
class Task:
    """What a trainer is built from.

    Parameters
    ----------
    shape : ModelShape
        Sizes of the model.
    batch : int
        Sequences in a batch.
    seed : int
        Seed of the initial weights.
    chosen : Chosen
        The optimizer.
    factors : numpy.ndarray
        Learning-rate factor of each step, float64 of shape ``(steps,)``.
    """

    shape: ModelShape
    batch: int
    seed: int
    chosen: Chosen
    factors: NDArray[np.float64]


class Step(NamedTuple):
    """Result of one optimizer step."""

    loss: float  # mean cross-entropy of the batch before the step, nats per byte
    seconds: float  # of the whole step
    optimizer_seconds: float  # of the optimizer alone, part of `seconds`


class Position(NamedTuple):
    """How far a run has come."""

    step: int  # optimizer steps done
    seconds: float  # time they took together


class Trainer(Protocol):
    """A model with its optimizer. One loop (`zeropower.cli.loop`) drives those of every framework."""

    @property
    def state_bytes(self) -> int:
        """Bytes of optimizer state that exist now."""
        ...

    @property
    def plan(self) -> str | None:
        """Which weights go to which part of our optimizer, as a table; None for the optimizers of others."""
        ...

    def step(self, windows: Windows) -> Step:
        """Train on one batch."""
        ...

    def evaluate(self, windows: Windows) -> float:
        """Mean cross-entropy of a batch, nats per byte."""
        ...

    def save(self, path: Path, position: Position) -> None:
        """Write model, optimizer and position."""
        ...

    def load(self, path: Path) -> Position:
        """Take over what `save` wrote; training then goes on as if it had never stopped."""
        ...


class Backend(NamedTuple):
    """A framework that was imported."""

    trainer: Callable[[Task], Trainer]
    version: str  # name, version and what it runs on, for people


def load_backend(name: str, threads: int | None) -> Backend:
    """Import a framework.

    Parameters
    ----------
    name : str
        ``"torch"`` or ``"jax"``.
    threads : int, optional
        Threads that torch may use; None for its default, every core.

    Returns
    -------
    Backend
        Its trainer and version.
    """
    if name == "jax":
        require("jax", "jax", "optax")
        from .jax_run import JaxTrainer, describe

        return Backend(JaxTrainer, describe())
    require("torch", "torch")
    # read by GNU OpenMP when torch loads: where other programs want the cores too, threads that spin while they
    # wait for each other made steps of 0.2 s take 4
    os.environ.setdefault("GOMP_SPINCOUNT", "1000")
    from .torch_run import TorchTrainer, start

    return Backend(TorchTrainer, start(threads))
