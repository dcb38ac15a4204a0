"""Parameters with their names: from modules, from named pairs, from parameter groups."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, cast

from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from zeropower import ParamInfo

_NAMED = "accepted: an nn.Module, pairs as of model.named_parameters(), or parameter groups of such pairs"


class Named(NamedTuple):
    """A parameter and what its route depends on."""

    param: Tensor
    info: ParamInfo


def of_module(module: nn.Module) -> dict[str, Named]:
    """Return the parameters of a module by name, each once.

    Parameters
    ----------
    module
        The model.

    Returns
    -------
    dict of str to Named
        In the order of ``named_parameters()``. A shared parameter has its first name, the others as aliases, and the
        module types of all its owners.
    """
    named: dict[str, Named] = {}
    first_names: dict[int, str] = {}
    around: dict[str, tuple[str, ...]] = {}  # prefix -> classes of the module and of all that hold it
    for prefix, owner in module.named_modules(remove_duplicate=False):
        classes = type(owner).__mro__
        types = tuple(cls.__name__ for cls in classes[: classes.index(nn.Module)])
        around[prefix] = _union(types, around[prefix.rpartition(".")[0]] if prefix else ())
        for last, param in owner.named_parameters(recurse=False, remove_duplicate=False):
            _add(named, first_names, f"{prefix}.{last}" if prefix else last, param, types, around[prefix])
    return named


def of_pairs(pairs: Iterable[Any]) -> dict[str, Named]:
    """Return parameters by name from pairs of name and parameter; a repeated parameter becomes an alias.

    Parameters
    ----------
    pairs
        As ``model.named_parameters()`` gives them.

    Returns
    -------
    dict of str to Named
        In their order, without module types.

    Raises
    ------
    TypeError
        If something is not a pair of a name and a parameter.
    """
    named: dict[str, Named] = {}
    first_names: dict[int, str] = {}
    for pair in pairs:
        if not (isinstance(pair, tuple) and len(cast("tuple[Any, ...]", pair)) == 2 and isinstance(pair[0], str)):
            raise TypeError(f"params holds {_describe(pair)}, which has no name to route by; {_NAMED}")
        name, param = cast("tuple[str, Any]", pair)
        if not isinstance(param, Tensor):
            raise TypeError(f"params: {name!r} is {_describe(param)}, not a parameter; {_NAMED}")
        _add(named, first_names, name, param, (), ())
    return named


def to_groups(source: nn.Module | Iterable[Any]) -> list[dict[str, Any]]:
    """Return what a hybrid optimizer was given as parameter groups, each with its named parameters by name.

    Parameters
    ----------
    source
        A module, pairs, or parameter groups.

    Returns
    -------
    list of dict
        ``"params"`` of each is what :func:`of_module` or :func:`of_pairs` returns.

    Raises
    ------
    TypeError
        If parameters come without names.
    """
    if isinstance(source, nn.Module):
        return [{"params": of_module(source)}]
    if isinstance(source, Tensor | Mapping | str):
        raise TypeError(f"params is {_describe(source)}; {_NAMED}")
    items = list(source)
    if items and isinstance(items[0], dict):
        return [to_group(group) for group in items]
    return [{"params": of_pairs(items)}]


def to_group(group: Any) -> dict[str, Any]:
    """Return a parameter group with its named parameters by name; the group that came in stays as it is.

    Parameters
    ----------
    group
        A dictionary with ``"params"``: pairs, or what :func:`of_pairs` returns.

    Returns
    -------
    dict
        A copy.

    Raises
    ------
    TypeError
        If it is no such dictionary.
    """
    if not isinstance(group, dict) or "params" not in group:
        raise TypeError(f"a parameter group is {_describe(group)}; accepted: a dict with 'params'")
    params = cast("dict[str, Any]", group)["params"]
    if isinstance(params, Tensor):
        raise TypeError(f"params is {_describe(params)}; {_NAMED}")
    return {**group, "params": params if isinstance(params, dict) else of_pairs(params)}


def members(group: Mapping[str, Any]) -> list[tuple[str, Tensor]]:
    """Return the parameters of a group with what to call them in an error.

    Parameters
    ----------
    group
        A parameter group, before or after PyTorch has taken the names out of ``"params"``.

    Returns
    -------
    list of tuple of str and Tensor
        The name where there is one, else the position.

    Raises
    ------
    TypeError
        If something is not a tensor.
    """
    named: list[tuple[str, Tensor]] = []
    names = group.get("param_names")
    for position, entry in enumerate(group["params"]):
        name, param = entry if isinstance(entry, tuple) else (names[position] if names else None, entry)
        if not isinstance(param, Tensor):
            raise TypeError(f"params holds {_describe(param)}; accepted: tensors, or pairs of name and tensor")
        named.append((f"parameter {position if name is None else repr(name)}", param))
    return named


def _add(
    named: dict[str, Named],
    first_names: dict[int, str],
    name: str,
    param: Tensor,
    types: tuple[str, ...],
    around: tuple[str, ...],
) -> None:
    if is_lazy(param):
        raise ValueError(f"parameter {name!r} has no shape yet; accepted: initialised ones, after a first forward pass")
    if name in named and named[name].param is not param:
        raise ValueError(f"params names two parameters {name!r}; accepted: a name of its own for each")
    first = first_names.setdefault(id(param), name)
    if first == name:
        info = ParamInfo(tuple(param.shape), param.dtype, types, param.requires_grad, (), around)
    else:
        known = named[first].info
        info = known._replace(
            module_types=_union(known.module_types, types),
            aliases=(*known.aliases, name),
            ancestor_types=_union(known.ancestor_types, around),
        )
    named[first] = Named(param, info)


def _union(first: tuple[str, ...], second: tuple[str, ...]) -> tuple[str, ...]:
    return (*first, *(name for name in second if name not in first))


def _describe(value: object) -> str:
    shape = getattr(value, "shape", None)
    return f"a {type(value).__name__}" + ("" if shape is None else f" of shape {tuple(shape)}")
