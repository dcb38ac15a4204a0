"""Gradients of several sources, micro-batches or devices, as one tree."""

from typing import Any

import jax
import jax.numpy as jnp
from jax.core import Tracer
from jax.tree_util import tree_flatten_with_path

from zeropower.jax.precision import widened
from zeropower.jax.routing import path_name, require_real


def sum_gradients(*trees: Any) -> Any:
    """Return the leaf by leaf sum of several trees of gradients.

    Divide by their number for the mean. Under ``jax.jit`` or outside of it; outside, leaves on other devices come to
    that of the first.

    Parameters
    ----------
    *trees
        Gradients of the same parameters. A leaf that is ``None`` is missing: the sum is over those that have it.

    Returns
    -------
    tree
        Like the first. Each leaf is summed in float32 at least, in the order of the arguments, and rounded once to
        the dtype of the first that has it; ``None`` where none has.

    Raises
    ------
    ValueError
        If there is no tree, or two differ in structure or shapes.

    Examples
    --------
    >>> one, other = {"w": jnp.ones(2), "b": None}, {"w": jnp.ones(2), "b": jnp.ones(1)}
    >>> total = sum_gradients(one, other)
    >>> print(total["w"], total["b"])
    [2. 2.] [1.]
    """
    if not trees:
        raise ValueError("trees=() is empty; accepted: at least one tree of gradients")
    flattened = [tree_flatten_with_path(tree, is_leaf=_is_none) for tree in trees]
    leaves, structure = flattened[0]
    for i, (others, other) in enumerate(flattened):
        if other != structure:
            raise ValueError(f"trees[{i}] {_difference(leaves, others)}; accepted: the structure of trees[0]")
    columns = zip(*([leaf for _, leaf in others] for others, _ in flattened), strict=True)
    return structure.unflatten([
        _sum(path_name(keys), column) for (keys, _), column in zip(leaves, columns, strict=True)
    ])


def _is_none(node: Any) -> bool:
    return node is None


def _difference(leaves: Any, others: Any) -> str:
    """Say where two trees differ."""
    own, given = ({keys: None for keys, _ in each} for each in (leaves, others))
    for keys in own:
        if keys not in given:
            return f"has no leaf {path_name(keys)!r}"
    for keys in given:
        if keys not in own:
            return f"has the leaf {path_name(keys)!r}"
    return "has other containers"


def _sum(path: str, column: tuple[Any, ...]) -> Any:
    grads = [grad for grad in column if grad is not None]
    if not grads:
        return None
    first, *others = grads
    for grad in grads:
        require_real(path, grad)
        if jnp.shape(grad) != jnp.shape(first):
            raise ValueError(f"{path!r} has the shapes {jnp.shape(first)} and {jnp.shape(grad)}; accepted: one shape")
    wide = [widened(first), *(widened(_beside(first, grad)) for grad in others)]
    total = jnp.astype(wide[0], jnp.float64 if any(grad.dtype == jnp.float64 for grad in wide) else jnp.float32)
    for grad in wide[1:]:
        total = total + jnp.astype(grad, total.dtype)
    return jnp.astype(total, jnp.result_type(first))


def _beside(first: Any, grad: Any) -> Any:
    """Return a leaf on the device of another; where they are traced there is but one."""
    arrays = all(isinstance(leaf, jax.Array) and not isinstance(leaf, Tracer) for leaf in (first, grad))
    return jax.device_put(grad, first.sharding) if arrays and grad.sharding != first.sharding else grad
