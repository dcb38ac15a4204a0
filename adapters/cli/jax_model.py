"""The transformer of `zeropower.cli.model` in jax: pure functions of a tree of arrays."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from .model import NORM_EPS, ModelShape, rotary_tables

__all__ = ["Params", "init_params", "logits"]

Params = dict[str, Any]  # nested by the parts of the paths of `zeropower.cli.model.initial_weights`


def init_params(weights: Mapping[str, NDArray[np.float32]]) -> Params:
    """Nest a flat mapping of weights.

    Parameters
    ----------
    weights : mapping of str to numpy.ndarray
        Initial weights by path, as `zeropower.cli.model.initial_weights` makes them.

    Returns
    -------
    dict
        ``{"blocks": {"0": {"attn": {"q": {"kernel": array}}}}}`` and so on.
    """
    params: Params = {}
    for path, array in weights.items():
        *modules, leaf = path.split("/")
        node = params
        for module in modules:
            node = node.setdefault(module, {})
        node[leaf] = jnp.array(array)
    return params


def logits(params: Params, tokens: Array, shape: ModelShape) -> Array:
    """Logits of the next byte at every position.

    Parameters
    ----------
    params : dict
        Weights, as `init_params` nests them.
    tokens : jax.Array
        Bytes as integers, ``(batch, length)``, length at most the context.
    shape : ModelShape
        Sizes of the model.

    Returns
    -------
    jax.Array
        Logits, ``(batch, length, 256)``.
    """
    x = params["embed"]["embedding"][tokens]
    for layer in range(shape.layers):
        block = params["blocks"][str(layer)]
        x = x + _attention(block["attn"], _rms_norm(block["attn_norm"], x), shape)
        x = x + _mlp(block["mlp"], _rms_norm(block["mlp_norm"], x))
    return _rms_norm(params["norm"], x) @ params["head"]["kernel"]


def _rms_norm(params: Params, x: Array) -> Array:
    return x * jax.lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + NORM_EPS) * params["scale"]


def _attention(params: Params, x: Array, shape: ModelShape) -> Array:
    batch, length, width = x.shape
    q, k, v = (  # (batch, length, heads, channels)
        (x @ params[name]["kernel"]).reshape(batch, length, shape.heads, -1) for name in ("q", "k", "v")
    )
    mixed = jax.nn.dot_product_attention(_rotate(q, shape), _rotate(k, shape), v, is_causal=True)
    return mixed.reshape(batch, length, width) @ params["out"]["kernel"]


def _mlp(params: Params, x: Array) -> Array:
    return jax.nn.gelu(x @ params["up"]["kernel"], approximate=False) @ params["down"]["kernel"]


def _rotate(x: Array, shape: ModelShape) -> Array:
    cos, sin = (table[: x.shape[1], None] for table in rotary_tables(shape))  # (length, 1, channels / 2)
    real, imaginary = jnp.split(x, 2, axis=-1)
    return jnp.concatenate((real * cos - imaginary * sin, real * sin + imaginary * cos), axis=-1)
