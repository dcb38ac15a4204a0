"""From directions to the updates of a whole tree: decay, learning rate, and two transformations side by side."""

from collections.abc import Callable
from typing import Any

import optax
from jax.tree_util import tree_map_with_path

from zeropower.decay import DECOUPLED, Decay
from zeropower.jax.clipping import clipped
from zeropower.jax.decay import Scales, TwoStages, decayed, is_decoupled, ruled
from zeropower.jax.missing import require_params, spare_missing
from zeropower.jax.precision import rounded
from zeropower.jax.routing import Views, path_name
from zeropower.jax.state import OptimizerState, counting


def as_updates(
    *directions: optax.GradientTransformation,
    learning_rate: Any,
    weight_decay: Any,
    mask: Any = None,
    rule: Decay = DECOUPLED,
    scales: Scales | None = None,
) -> optax.GradientTransformationExtraArgs:
    """Return ``-learning_rate (direction + weight_decay * param)``, or what another rule of decay makes of it.

    Parameters
    ----------
    *directions
        In this order, they turn gradients into directions in float32 at least. With a decay in two stages the first
        one counts.
    learning_rate
        A number, a 0-d array, or a schedule.
    weight_decay
        A number, a 0-d array, a schedule, or :class:`zeropower.jax.decay.TwoStages`.
    mask
        Where to decay, as ``optax.add_decayed_weights`` takes it.
    rule
        How the decay acts.
    scales
        From a tree to the scale of each path, for rules whose rate depends on it.

    Returns
    -------
    optax.GradientTransformationExtraArgs
        Its updates have the dtype of the parameters.
    """
    if not is_decoupled(rule):
        return rounded(ruled(optax.chain(*directions), rule, learning_rate, weight_decay, mask=mask, scales=scales))
    if isinstance(weight_decay, TwoStages):
        (counted,) = directions
        moved = [decayed(counted, weight_decay, mask)]
    else:
        moved = [*directions, optax.add_decayed_weights(weight_decay, mask)]
    return rounded(optax.chain(*moved, optax.scale_by_learning_rate(learning_rate)))


def assembled(
    kind: type[OptimizerState],
    inner: optax.GradientTransformationExtraArgs,
    *,
    clip_norm: Any = None,
    clip_value: Any = None,
) -> optax.GradientTransformationExtraArgs:
    """Return a whole optimizer: gradients may be missing, are clipped, and the state tells its kind.

    Parameters
    ----------
    kind
        The class of the state.
    inner
        Turns gradients into the updates of a whole tree.
    clip_norm
        As for :func:`zeropower.jax.clipping.clipped`.
    clip_value
        As for :func:`zeropower.jax.clipping.clipped`.

    Returns
    -------
    optax.GradientTransformationExtraArgs
        The optimizer.
    """
    return clipped(counting(kind, spare_missing(inner)), clip_norm, clip_value)


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

    def routed(tree: Any) -> optax.GradientTransformationExtraArgs:
        found = views(tree)

        def label(keys: Any, leaf: Any) -> str:
            return adamw_label if found[path_name(keys)] is None else "muon"

        transformations: dict[Any, optax.GradientTransformation] = {
            "muon": muon(lambda tree: found),
            adamw_label: adamw,
        }
        return optax.partition(transformations, tree_map_with_path(label, tree))

    def init(params: Any) -> Any:
        return routed(params).init(params)

    def update(updates: Any, state: Any, params: Any = None, **extra_args: Any) -> tuple[Any, Any]:
        require_params(params)
        return routed(updates).update(updates, state, params, **extra_args)

    return optax.GradientTransformationExtraArgs(init, update)
