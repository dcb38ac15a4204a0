"""Training in jax, in float32 on the default device."""

import time
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array

from .batches import Windows
from .jax_model import Params, init_params, logits
from .jax_optimizers import build
from .model import ModelShape, initial_weights
from .trainer import Position, Step, Task

__all__ = ["JaxTrainer", "describe"]


def describe() -> str:
    """Name the framework.

    Returns
    -------
    str
        Name, version and device.
    """
    return f"jax {jax.__version__} on {jax.devices()[0].platform}"


class JaxTrainer:
    """A `zeropower.cli.trainer.Trainer` in jax.

    The gradient and the optimizer are compiled apart, so that the optimizer's time can be told, and before
    their first use, so that compiling is not part of it.

    Parameters
    ----------
    task : Task
        Model, optimizer and schedule.
    """

    def __init__(self, task: Task) -> None:
        def update(params: Params, state: Any, grads: Params) -> tuple[Any, Any]:
            updates, state = transformation.update(grads, state, params)
            return optax.apply_updates(params, updates), state

        self._shape = task.shape
        self._params = init_params(initial_weights(task.shape, task.seed))
        transformation, plan = build(self._params, task.chosen, task.factors)
        self.plan = None if plan is None else str(plan)
        self._state: Any = transformation.init(self._params)
        donating = jax.jit(update, donate_argnums=(0, 1))
        self._update = donating.lower(self._params, self._state, self._params).compile()
        _loss_and_grads(self._params, np.zeros((task.batch, task.shape.context + 1), np.int32), task.shape)

    @property
    def state_bytes(self) -> int:
        """Bytes of optimizer state."""
        return sum(leaf.nbytes for leaf in jax.tree.leaves(self._state))

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
        loss, grads = jax.block_until_ready(_loss_and_grads(self._params, windows, self._shape))
        differentiated = time.perf_counter()
        self._params, self._state = jax.block_until_ready(self._update(self._params, self._state, grads))
        stepped = time.perf_counter()
        return Step(float(loss), stepped - started, stepped - differentiated)

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
        return float(_loss(self._params, windows, self._shape))

    def save(self, path: Path, position: Position) -> None:
        """Write the leaves of parameters and optimizer state, in tree order, and the position.

        Parameters
        ----------
        path : Path
            File to write, in numpy's npz form.
        position : Position
            How far training has come.
        """
        leaves = jax.tree.leaves((self._params, self._state))
        named: dict[str, Any] = {f"leaf_{index}": np.asarray(leaf) for index, leaf in enumerate(leaves)}
        with path.open("wb") as file:
            np.savez(file, **position._asdict(), **named)

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
        leaves, structure = jax.tree.flatten((self._params, self._state))
        with np.load(path) as stored:
            # numpy forgets the names of dtypes that are not its own, such as bfloat16, but keeps their bits
            restored = [jnp.array(stored[f"leaf_{i}"].view(leaf.dtype)) for i, leaf in enumerate(leaves)]
            position = Position(int(stored["step"]), float(stored["seconds"]))
        self._params, self._state = jax.tree.unflatten(structure, restored)
        return position


def _mean_loss(params: Params, windows: Array, shape: ModelShape) -> Array:
    scores = logits(params, windows[:, :-1], shape)
    return optax.softmax_cross_entropy_with_integer_labels(scores, windows[:, 1:]).mean()


# compiled once for all trainers of one shape
_loss = jax.jit(_mean_loss, static_argnums=2)
_loss_and_grads = jax.jit(jax.value_and_grad(_mean_loss), static_argnums=2)
