"""The byte-level transformer that is trained: its shape, its initial weights, and what both models share.

Weights are a flat mapping from a path such as ``blocks/0/attn/q/kernel`` to a float32 array. Kernels are
stored (in, out), as jax libraries do; the torch model transposes them. Both frameworks start from the arrays
made here, so that one seed is one model.
"""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

__all__ = ["NORM_EPS", "VOCABULARY", "ModelShape", "initial_weights", "rotary_tables"]

VOCABULARY: Final = 256  # one token for each value of a byte
NORM_EPS: Final = 1e-6  # added to the mean square in RMSNorm
ROTARY_BASE: Final = 10_000.0  # longest rotary wavelength is 2 pi times this, in tokens


@dataclass(frozen=True)
class ModelShape:
    """Sizes of a decoder-only transformer.

    Parameters
    ----------
    width : int
        Size of the residual stream; a multiple of ``2 * heads``.
    layers : int
        Number of blocks, each attention then MLP (hidden size ``4 * width``).
    heads : int
        Attention heads in a block.
    context : int
        Bytes that a prediction may look back on.
    """

    width: int
    layers: int
    heads: int
    context: int


def initial_weights(shape: ModelShape, seed: int) -> dict[str, NDArray[np.float32]]:
    """Draw the weights that training starts from.

    Kernels are normal with variance ``1 / fan_in``; those that write to the residual stream are divided by
    ``sqrt(2 * layers)`` on top, so that the stream keeps its size whatever the depth. The embedding has unit
    variance and the head starts at zero: the first loss is exactly ``log(256)``.

    Parameters
    ----------
    shape : ModelShape
        Sizes of the model.
    seed : int
        Seed of the generator; equal seeds give equal weights on every backend.

    Returns
    -------
    dict of str to numpy.ndarray
        Path to float32 array, in the order of the forward pass.
    """
    rng = np.random.default_rng(seed)

    def kernel(fan_in: int, fan_out: int, gain: float = 1.0) -> NDArray[np.float32]:
        scale = gain / math.sqrt(fan_in)
        return (scale * rng.standard_normal((fan_in, fan_out))).astype(np.float32)

    width = shape.width
    into_stream = 1.0 / math.sqrt(2 * shape.layers)
    ones = np.ones(width, np.float32)
    weights: dict[str, NDArray[np.float32]] = {
        "embed/embedding": kernel(1, VOCABULARY * width).reshape(VOCABULARY, width)
    }
    for layer in range(shape.layers):
        block = f"blocks/{layer}"
        weights[f"{block}/attn_norm/scale"] = ones
        for name in ("q", "k", "v"):
            weights[f"{block}/attn/{name}/kernel"] = kernel(width, width)
        weights[f"{block}/attn/out/kernel"] = kernel(width, width, into_stream)
        weights[f"{block}/mlp_norm/scale"] = ones
        weights[f"{block}/mlp/up/kernel"] = kernel(width, 4 * width)
        weights[f"{block}/mlp/down/kernel"] = kernel(4 * width, width, into_stream)
    weights["norm/scale"] = ones
    weights["head/kernel"] = np.zeros((width, VOCABULARY), np.float32)
    return weights


def rotary_tables(shape: ModelShape) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Tabulate the rotation of queries and keys by position (rotary embedding, arXiv:2104.09864, eq. 34).

    The first half of a head's channels holds the real parts and the second half the imaginary ones.

    Parameters
    ----------
    shape : ModelShape
        Sizes of the model.

    Returns
    -------
    tuple of numpy.ndarray
        Cosines and sines, each float32 of shape ``(context, width / heads / 2)``.
    """
    half = shape.width // shape.heads // 2
    frequency = ROTARY_BASE ** (-np.arange(half) / half)
    angle = np.arange(shape.context)[:, None] * frequency
    return np.cos(angle).astype(np.float32), np.sin(angle).astype(np.float32)
