"""Missing gradients: a parameter whose gradient is ``None`` is left alone, with its state and its counts."""

from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.tree_util import tree_leaves_with_path, tree_map_with_path

from zeropower.jax.routing import path_name

Absent: TypeAlias = frozenset[tuple[Any, ...]]
"""The key paths of the leaves that have no gradient; static, as it is read off the tree."""


def spare_missing(inner: optax.GradientTransformationExtraArgs) -> optax.GradientTransformationExtraArgs:
    """Let a transformation accept ``None`` for gradients.

    Parameters
    ----------
    inner
        Takes the extra argument ``absent``, :data:`Absent`, and keeps what it holds of those leaves.

    Returns
    -------
    optax.GradientTransformationExtraArgs
        The same, but for leaves without a gradient its updates are zeros like the parameter. A ``None`` stands for
        all leaves that the parameters have there.
    """

    def update(updates: Any, state: Any, params: Any = None, **extra_args: Any) -> tuple[Any, Any]:
        if params is None:  # then nothing can be missing: muon_directions and adamw_directions look
            return inner.update(updates, state, params, **extra_args)
        updates, absent = _filled(updates, params)
        updates, state = inner.update(updates, state, params, **extra_args | {"absent": absent})

        def spared(keys: tuple[Any, ...], update: Any, param: Any) -> Any:
            return jnp.zeros_like(param) if keys in absent else update

        return tree_map_with_path(spared, updates, params) if absent else updates, state

    return optax.GradientTransformationExtraArgs(inner.init, update)


def _filled(updates: Any, params: Any) -> tuple[Any, Absent]:
    """Return gradients with zeros where there are none, and where that is."""
    absent: list[tuple[Any, ...]] = []

    def fill(keys: tuple[Any, ...], grad: Any, below: Any) -> Any:
        if grad is not None:
            return grad
        absent.extend((*keys, *rest) for rest, _ in tree_leaves_with_path(below))
        return jax.tree.map(jnp.zeros_like, below)

    return tree_map_with_path(fill, updates, params, is_leaf=_is_none), frozenset(absent)


def _is_none(node: Any) -> bool:
    return node is None


def require_gradients(updates: Any, kept: Any) -> None:
    """Refuse a missing gradient where no parameters are given.

    Parameters
    ----------
    updates
        The gradients.
    kept
        What is kept of the parameters, a tree like them.

    Raises
    ------
    ValueError
        If a leaf of ``kept`` has no gradient.
    """
    given = {keys for keys, _ in tree_leaves_with_path(updates)}
    for keys, _ in tree_leaves_with_path(kept):
        if keys not in given:
            path = path_name(keys)
            raise ValueError(f"{path!r} has no gradient and params=None; accepted: update(grads, state, params)")


def require_params(params: Any) -> None:
    """Refuse an update that needs the parameters and has none.

    Parameters
    ----------
    params
        What ``update`` was given.

    Raises
    ------
    ValueError
        If it is ``None``.
    """
    if params is None:
        raise ValueError("params=None is not accepted; accepted: update(grads, state, params)")


def presence(tree: Any, absent: Absent) -> list[bool]:
    """Return for each leaf whether it has a gradient.

    Parameters
    ----------
    tree
        The gradients, filled.
    absent
        The leaves that had none.

    Returns
    -------
    list of bool
        In the order of the tree.
    """
    return [keys not in absent for keys, _ in tree_leaves_with_path(tree)]


def advanced(counts: jax.Array, present: list[bool]) -> Any:
    """Return the counts of all leaves after an update of some.

    Parameters
    ----------
    counts
        Updates that each leaf has seen, int32, (leaves,).
    present
        Which leaves have a gradient.

    Returns
    -------
    array
        Like ``counts``.
    """
    more = optax.safe_increment(counts)
    return more if all(present) else jnp.where(np.asarray(present), more, counts)
