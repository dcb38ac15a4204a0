"""The transformer of `zeropower.cli.model` in torch."""

from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from .model import NORM_EPS, VOCABULARY, ModelShape, rotary_tables

__all__ = ["Transformer"]


class Attention(nn.Module):
    """Causal self-attention with rotary positions; q, k and v are matrices of their own."""

    def __init__(self, shape: ModelShape) -> None:
        super().__init__()
        self.heads = shape.heads
        self.q = nn.Linear(shape.width, shape.width, bias=False)
        self.k = nn.Linear(shape.width, shape.width, bias=False)
        self.v = nn.Linear(shape.width, shape.width, bias=False)
        self.out = nn.Linear(shape.width, shape.width, bias=False)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """Mix every position with those before it.

        Parameters
        ----------
        x : Tensor
            Normalised residual stream, ``(batch, length, width)``.
        cos, sin : Tensor
            Rotary tables, ``(length, width / heads / 2)``.

        Returns
        -------
        Tensor
            What is added to the stream, in the shape of `x`.
        """
        q, k, v = (
            projection(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)  # (batch, heads, length, channels)
            for projection in (self.q, self.k, self.v)
        )
        mixed = functional.scaled_dot_product_attention(_rotate(q, cos, sin), _rotate(k, cos, sin), v, is_causal=True)
        return self.out(mixed.transpose(1, 2).flatten(-2))


class MLP(nn.Module):
    """Two matrices with GELU between them; hidden size four times the width."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.up = nn.Linear(width, 4 * width, bias=False)
        self.down = nn.Linear(4 * width, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Map each position by itself.

        Parameters
        ----------
        x : Tensor
            Normalised residual stream, ``(batch, length, width)``.

        Returns
        -------
        Tensor
            What is added to the stream, in the shape of `x`.
        """
        return self.down(functional.gelu(self.up(x)))


class Block(nn.Module):
    """Attention, then MLP, each on the normalised stream and added to it."""

    def __init__(self, shape: ModelShape) -> None:
        super().__init__()
        self.attn_norm = nn.RMSNorm(shape.width, eps=NORM_EPS)
        self.attn = Attention(shape)
        self.mlp_norm = nn.RMSNorm(shape.width, eps=NORM_EPS)
        self.mlp = MLP(shape.width)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """Pass the residual stream through the block.

        Parameters
        ----------
        x : Tensor
            Residual stream, ``(batch, length, width)``.
        cos, sin : Tensor
            Rotary tables, ``(length, width / heads / 2)``.

        Returns
        -------
        Tensor
            The stream after the block.
        """
        x = x + self.attn(self.attn_norm(x), cos, sin)
        return x + self.mlp(self.mlp_norm(x))


class Transformer(nn.Module):
    """Byte-level decoder-only transformer, pre-norm, with rotary positions.

    Parameters
    ----------
    shape : ModelShape
        Sizes of the model.
    weights : mapping of str to numpy.ndarray
        Initial weights by path, as `zeropower.cli.model.initial_weights` makes them.
    """

    cos: Tensor
    sin: Tensor

    def __init__(self, shape: ModelShape, weights: Mapping[str, NDArray[np.float32]]) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, shape.width)
        self.blocks = nn.ModuleList(Block(shape) for _ in range(shape.layers))
        self.norm = nn.RMSNorm(shape.width, eps=NORM_EPS)
        self.head = nn.Linear(shape.width, VOCABULARY, bias=False)
        cos, sin = rotary_tables(shape)
        self.register_buffer("cos", torch.from_numpy(cos), persistent=False)
        self.register_buffer("sin", torch.from_numpy(sin), persistent=False)
        self.load_state_dict(dict(_torch_layout(path, array) for path, array in weights.items()))

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits of the next byte at every position.

        Parameters
        ----------
        tokens : Tensor
            Bytes as integers, ``(batch, length)``, length at most the context.

        Returns
        -------
        Tensor
            Logits, ``(batch, length, 256)``.
        """
        length = tokens.shape[1]
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x, self.cos[:length], self.sin[:length])
        return self.head(self.norm(x))


def _rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    real, imaginary = x.chunk(2, dim=-1)
    return torch.cat((real * cos - imaginary * sin, real * sin + imaginary * cos), dim=-1)


def _torch_layout(path: str, array: NDArray[np.float32]) -> tuple[str, Tensor]:
    *modules, kind = path.split("/")
    # nn.Linear keeps (out, in)
    value = torch.from_numpy(array.T.copy() if kind == "kernel" else array)
    return ".".join((*modules, "weight")), value
