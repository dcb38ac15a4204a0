"""From directions to the updates of a whole tree: decay, learning rate, and two transformations side by side."""

from collections.abc import Callable
from typing import Any

import optax
from jax.tree_util import tree_map_with_path

from zeropower.jax.precision import rounded
from zeropower.jax.routing import Views, path_name


def as_updates(
    *directions: optax.GradientTransformation, learning_rate: Any, weight_decay: Any, mask: Any = None
) -> optax.GradientTransformationExtraArgs:
    """Return ``-learning_rate (direction + weight_decay * param)``, decoupled decay as optax adds it.

    Parameters
    ----------
    *directions
        In this order, they turn gradients into directions in float32 at least.
    learning_rate
        A number, a 0-d array, or a schedule.
    weight_decay
        A number, a 0-d array, or a schedule.
    mask
        Where to decay, as ``optax.add_decayed_weights`` takes it.

    Returns
    -------
    optax.GradientTransformationExtraArgs
        Its updates have the dtype of the parameters.
    """
    return rounded(
        optax.chain(
            *directions,
            optax.add_decayed_weights(weight_decay, mask),
            optax.scale_by_learning_rate(learning_rate),
        )
    )


def partition(
    muon: Callable[[Views], optax.GradientTransformation],
    adamw: optax.GradientTransformation,
    views: Views,
    *,
    adamw_label: str,
) -> optax.GradientTransformationExtraArgs:
    """Give each leaf with a matrix view to one transformation and each without to the other.

    Parameters
    ----------
    muon
        From views to what takes the leaves with a view.
    adamw
        Takes the others.
    views
        Tells which is which; asked once a call, for the whole tree.
    adamw_label
        The key of the second state; the first is ``"muon"``.

    Returns
    -------
    optax.GradientTransformationExtraArgs
        ``optax.partition`` of the two.
    """

    def assembled(tree: Any) -> optax.GradientTransformationExtraArgs:
        found = views(tree)

        def label(keys: Any, leaf: Any) -> str:
            return adamw_label if found[path_name(keys)] is None else "muon"

        transformations: dict[Any, optax.GradientTransformation] = {
            "muon": muon(lambda tree: found),
            adamw_label: adamw,
        }
        return optax.partition(transformations, tree_map_with_path(label, tree))

    def init(params: Any) -> Any:
        return assembled(params).init(params)

    def update(updates: Any, state: Any, params: Any = None, **extra_args: Any) -> tuple[Any, Any]:
        return assembled(updates).update(updates, state, params, **extra_args)

    return optax.GradientTransformationExtraArgs(init, update)
