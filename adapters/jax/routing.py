"""Trees as paths: which leaf goes where, and through which matrix view."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import GetAttrKey, keystr, tree_flatten_with_path, tree_leaves_with_path, tree_map_with_path
from optax.contrib import MuonDimensionNumbers

from zeropower import DEFAULT_RULES, IN_OUT, MatrixLayout, ParamInfo, RoutePlan, Rule, route_params

Views: TypeAlias = Callable[[Any], Mapping[str, MatrixLayout | None]]
"""From a tree to the matrix view of each path; ``None`` where Muon is not to go."""


def path_name(keys: Sequence[Any]) -> str:
    """Return the path of a leaf, components joined by ``/``, without the ``value`` that flax nnx appends."""
    if len(keys) > 1 and keys[-1] == GetAttrKey("value"):
        keys = keys[:-1]
    return keystr(tuple(keys), simple=True, separator="/")


def named_leaves(tree: Any) -> dict[str, Any]:
    """Return path -> leaf, in the order of the tree.

    Parameters
    ----------
    tree
        Any tree; ``None`` and optax's ``MaskedNode`` hold no leaf.

    Returns
    -------
    dict
        The leaves.

    Raises
    ------
    ValueError
        If two leaves have one path.
    """
    leaves: dict[str, Any] = {}
    for keys, leaf in tree_leaves_with_path(tree):
        path = path_name(keys)
        if path in leaves:
            raise ValueError(f"params holds the path {path!r} twice; accepted: keys that keep paths apart")
        leaves[path] = leaf
    return leaves


def require_real(path: str, leaf: Any) -> None:
    """Refuse leaves that no direction is defined for.

    Parameters
    ----------
    path
        The path of the leaf.
    leaf
        A parameter or a gradient.

    Raises
    ------
    TypeError
        If it is complex, integer, boolean or ``float0``.
    """
    dtype = getattr(leaf, "dtype", None) or np.result_type(leaf)
    if not jnp.issubdtype(dtype, jnp.floating):
        name = "float0" if dtype == jax.dtypes.float0 else dtype
        raise TypeError(f"{path!r} has dtype {name}; accepted: real floating (leave other leaves out: optax.masked)")


def routing_plan(
    params: Any,
    rules: Sequence[Rule] | None = None,
    layouts: Mapping[str, MatrixLayout] | None = None,
    layout: MatrixLayout = IN_OUT,
) -> RoutePlan:
    """Decide for each leaf of a tree whether Muon or AdamW takes it; what :func:`muon_adamw` does.

    Parameters
    ----------
    params
        Tree of arrays, or of ``jax.ShapeDtypeStruct``.
    rules
        Rules in order of precedence; ``None`` takes ``zeropower.DEFAULT_RULES``.
    layouts
        Path glob to matrix view, in order of precedence, for leaves whose matrices are not (..., in, out). It holds
        for what the rules send to Muon, and sends leaves of more than two axes there that the rules keep from Muon
        for want of a layout. Rules that come before the first Muon rule, such as those for vectors, embeddings and
        heads, stand.
    layout
        The matrix view of what goes to Muon without one.

    Returns
    -------
    RoutePlan
        A route for every leaf; ``print`` it before you train.

    Raises
    ------
    ValueError
        If no rule matches a leaf, a layout does not fit, or a glob of ``layouts`` matches no leaf.
    TypeError
        If a value of ``layouts`` is not a ``MatrixLayout``, or a leaf is not real floating.

    Examples
    --------
    >>> heads = MatrixLayout(fan_out=(1, 2), fan_in=(0,))
    >>> params = {"embed": {"table": (50, 8)}, "q": {"kernel": (8, 2, 4), "bias": (2, 4)}, "up": {"kernel": (8, 32)}}
    >>> shapes = jax.tree.map(lambda s: jax.ShapeDtypeStruct(s, "float32"), params, is_leaf=lambda s: type(s) is tuple)
    >>> print(routing_plan(shapes, layouts={"q/*": heads}))
    parameter    shape  optimizer  reason
    embed/table  50x8   adamw      embedding
    q/bias       2x4    adamw      bias
    q/kernel     8x2x4  muon       layout of q/*
    up/kernel    8x32   muon       hidden matrix
    <BLANKLINE>
    muon: 2 parameters, 320 elements
    adamw: 2 parameters, 408 elements
    """
    leaves = named_leaves(params)
    for path, leaf in leaves.items():
        require_real(path, leaf)
    infos = {path: ParamInfo(jnp.shape(leaf)) for path, leaf in leaves.items()}
    for glob in layouts or ():
        probe = Rule(optimizer="muon", reason="layout", path=(glob,))
        if infos and not any(probe.matches(path, info) for path, info in infos.items()):
            raise ValueError(f"layouts={glob!r} matches no parameter; accepted: a glob for one of {', '.join(infos)}")
    return route_params(infos, rules=_with_layouts(rules, layouts), layout=layout)


def planned_views(
    rules: Sequence[Rule] | None, layouts: Mapping[str, MatrixLayout] | None, layout: MatrixLayout = IN_OUT
) -> Views:
    """Return the views that :func:`routing_plan` plans.

    Parameters
    ----------
    rules
        As for :func:`routing_plan`.
    layouts
        As for :func:`routing_plan`.
    layout
        As for :func:`routing_plan`.

    Returns
    -------
    Views
        The layout of each path that goes to Muon.
    """
    _with_layouts(rules, layouts)  # refuses what it would refuse later
    return lambda tree: {path: route.layout for path, route in routing_plan(tree, rules, layouts, layout).items()}


def _with_layouts(rules: Sequence[Rule] | None, layouts: Mapping[str, MatrixLayout] | None) -> tuple[Rule, ...]:
    """Put a rule for each layout before the first that sends anything to Muon."""
    rules = DEFAULT_RULES if rules is None else tuple(rules)
    given: list[Rule] = []
    for glob, layout in (layouts or {}).items():
        if not isinstance(layout, MatrixLayout):  # pyright: ignore[reportUnnecessaryIsInstance] - untyped callers
            raise TypeError(f"layouts[{glob!r}]={layout!r} is not accepted; accepted: a zeropower.MatrixLayout")
        given.append(Rule(optimizer="muon", reason=f"layout of {glob}", path=(glob,), layout=layout))
    first = next((i for i, rule in enumerate(rules) if rule.optimizer == "muon"), len(rules))
    return (*rules[:first], *given, *rules[first:])


def declared_views(weight_dimension_numbers: Any, *, argument: str) -> Views:
    """Return the views that a user declares as optax has it.

    Parameters
    ----------
    weight_dimension_numbers
        ``optax.contrib.MuonDimensionNumbers`` or ``zeropower.MatrixLayout`` for all leaves, a tree of them of which
        ``params`` may be an extension, or a function from a tree to such a tree; a leaf ``None`` keeps Muon away.
        ``None`` as a whole takes (in, out) for leaves of two axes and keeps Muon away from all others.
    argument
        The name that the user knows the argument by.

    Returns
    -------
    Views
        The layout of each path.
    """

    def views(tree: Any) -> dict[str, MatrixLayout | None]:
        leaves = named_leaves(tree)
        declared = weight_dimension_numbers(tree) if callable(weight_dimension_numbers) else weight_dimension_numbers
        if declared is None:
            return {path: IN_OUT if jnp.ndim(leaf) == 2 else None for path, leaf in leaves.items()}
        found: dict[str, MatrixLayout | None] = {}

        def declare(keys: Sequence[Any], dims: Any, subtree: Any) -> None:
            layout = _as_layout(dims, argument)
            found.update((path_name((*keys, *rest)), layout) for rest, _ in tree_leaves_with_path(subtree))

        tree_map_with_path(declare, declared, tree, is_leaf=_is_view)
        return found

    return views


def _is_view(node: Any) -> bool:
    return node is None or isinstance(node, MuonDimensionNumbers | MatrixLayout)


def _as_layout(dims: Any, argument: str) -> MatrixLayout | None:
    if dims is None or isinstance(dims, MatrixLayout):
        return dims
    if not isinstance(dims, MuonDimensionNumbers):
        raise TypeError(f"{argument} holds {dims!r}; accepted: MuonDimensionNumbers, zeropower.MatrixLayout, None")
    sides = (dims.output_axis, dims.reduction_axis)
    fan_out, fan_in = ((side,) if isinstance(side, int) else tuple(side) for side in sides)
    return MatrixLayout(fan_out=fan_out, fan_in=fan_in)


def flatten_named(tree: Any) -> tuple[list[tuple[str, Any]], Any]:
    """Return (path, leaf) of each leaf, checked to be real, and the structure of the tree.

    Parameters
    ----------
    tree
        Parameters or gradients.

    Returns
    -------
    tuple
        The leaves and the structure.
    """
    leaves, structure = tree_flatten_with_path(tree)
    named = [(path_name(keys), leaf) for keys, leaf in leaves]
    for path, leaf in named:
        require_real(path, leaf)
    return named, structure
