"""The peer that is a Keras optimizer."""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from zeropower.conformance.peers.lift import default_dtype
from zeropower.conformance.peers.load import load_keras, quiet
from zeropower.conformance.peers.peer import Arrays


@quiet()
def run_keras(
    params: Arrays, grads: Sequence[Arrays], *, lr: Sequence[float], weight_decay: float
) -> dict[str, np.ndarray]:
    """Run ``keras.optimizers.Muon`` on the CPU, over transposes of the matrices: Keras's kernels are ``(in, out)``.

    Parameters
    ----------
    params
        Matrices for its Muon; vectors, stacks and convolutions for its Adam.
    grads
        The gradients of each step.
    lr
        The learning rate of each step.
    weight_decay
        The weight decay of both.

    Returns
    -------
    dict of str to numpy.ndarray
        The parameters after the last step.

    Raises
    ------
    RuntimeError
        If what is below Keras does not keep the dtype.
    """
    keras: Any = load_keras()
    dtype = max(array.dtype for array in params.values())
    with _float_type(keras, dtype), default_dtype(params.values()), keras.device("cpu"):
        variables = {name: keras.Variable(_turned(array), name=name) for name, array in params.items()}
        optimizer = keras.optimizers.Muon(
            learning_rate=lr[0], weight_decay=weight_decay, adam_weight_decay=weight_decay
        )
        optimizer.build(list(variables.values()))
        for rate, gradient in zip(lr, grads, strict=True):
            optimizer.learning_rate = rate
            tensors = [keras.ops.convert_to_tensor(_turned(gradient[name])) for name in variables]
            optimizer.apply(tensors, list(variables.values()))
        results = {name: _turned(keras.ops.convert_to_numpy(value)) for name, value in variables.items()}
    for name, result in results.items():
        if result.dtype != params[name].dtype:
            raise RuntimeError(f"{name} is {result.dtype}, not {params[name].dtype}, over {keras.config.backend()}")
    return results


def _turned(array: np.ndarray) -> np.ndarray:
    """Return a copy: of a matrix, the transpose."""
    return np.array(array.T if array.ndim == 2 else array, order="C")


@contextmanager
def _float_type(keras: Any, dtype: np.dtype) -> Generator[None]:
    """Let Keras make variables, the learning rate's among them, in a dtype."""
    before = keras.config.floatx()
    keras.config.set_floatx(dtype.name)
    try:
        yield
    finally:
        keras.config.set_floatx(before)
