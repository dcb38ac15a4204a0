"""Training in torch, on the CPU and in float32."""

import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from zeropower.torch import MuonAdamW

from .batches import Windows
from .model import initial_weights
from .torch_model import Transformer
from .torch_optimizers import build
from .trainer import Position, Step, Task

__all__ = ["TorchTrainer", "start"]


def start(threads: int | None) -> str:
    """Set the number of threads and name the framework.

    Parameters
    ----------
    threads : int, optional
        Threads that torch may use; None for its default, every core.

    Returns
    -------
    str
        Name, version and threads.
    """
    if threads is not None:
        torch.set_num_threads(threads)
    return f"torch {torch.__version__}, {torch.get_num_threads()} threads"


class TorchTrainer:
    """A `zeropower.cli.trainer.Trainer` in torch.

    Parameters
    ----------
    task : Task
        Model, optimizer and schedule.
    """

    def __init__(self, task: Task) -> None:
        torch.manual_seed(task.seed)
        self._model = Transformer(task.shape, initial_weights(task.shape, task.seed))
        self._optimizers, self._schedulers = build(self._model, task.chosen, task.factors)
        # the first pass starts threads and chooses kernels, which no optimizer should pay for
        self._loss(np.zeros((task.batch, task.shape.context + 1), np.int32)).backward()
        self._model.zero_grad()

    @property
    def state_bytes(self) -> int:
        """Bytes of optimizer state that exist now."""
        held = [value for one in self._optimizers for state in one.state.values() for value in state.values()]
        return sum(value.numel() * value.element_size() for value in held if isinstance(value, Tensor))

    @property
    def plan(self) -> str | None:
        """The routing table of our hybrid; None for other optimizers."""
        ours = [one for one in self._optimizers if isinstance(one, MuonAdamW)]
        return str(ours[0].plan) if ours else None

    def step(self, windows: Windows) -> Step:
        """Train on one batch.

        Parameters
        ----------
        windows : numpy.ndarray
            int32 bytes, ``(batch, context + 1)``.

        Returns
        -------
        Step
            Loss before the step, and times.
        """
        started = time.perf_counter()
        loss = self._loss(windows)
        loss.backward()
        differentiated = time.perf_counter()
        for optimizer in self._optimizers:
            optimizer.step()
        stepped = time.perf_counter()
        for optimizer, scheduler in zip(self._optimizers, self._schedulers, strict=True):
            scheduler.step()
            optimizer.zero_grad()
        return Step(loss.item(), time.perf_counter() - started, stepped - differentiated)

    @torch.no_grad()
    def evaluate(self, windows: Windows) -> float:
        """Mean cross-entropy of a batch.

        Parameters
        ----------
        windows : numpy.ndarray
            int32 bytes, ``(batch, context + 1)``.

        Returns
        -------
        float
            Nats per byte.
        """
        return self._loss(windows).item()

    def save(self, path: Path, position: Position) -> None:
        """Write model, optimizer, random state and position; the file loads with ``weights_only=True``.

        Parameters
        ----------
        path : Path
            File to write.
        position : Position
            How far training has come.
        """
        torch.save({**position._asdict(), "rng": torch.get_rng_state(), **self._states()}, path)

    def load(self, path: Path) -> Position:
        """Take over what `save` wrote.

        Parameters
        ----------
        path : Path
            File to read.

        Returns
        -------
        Position
            How far training had come.
        """
        stored: dict[str, Any] = torch.load(path, weights_only=True)
        self._model.load_state_dict(stored["model"])
        for kind, parts in (("optimizers", self._optimizers), ("schedulers", self._schedulers)):
            for part, state in zip(parts, stored[kind], strict=True):
                part.load_state_dict(state)
        torch.set_rng_state(stored["rng"])
        return Position(stored["step"], stored["seconds"])

    def _states(self) -> dict[str, Any]:
        return {
            "model": self._model.state_dict(),
            "optimizers": [one.state_dict() for one in self._optimizers],
            "schedulers": [one.state_dict() for one in self._schedulers],
        }

    def _loss(self, windows: Windows) -> Tensor:
        tokens = torch.from_numpy(windows.astype(np.int64))
        logits = self._model(tokens[:, :-1])
        return functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
