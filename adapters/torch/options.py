"""Options of parameter groups: what is given, what the dialect says, and recipes made of both.

A parameter group is a plain dictionary, so that it can be saved, scheduled and edited by hand. It is therefore read
and checked anew at every step; the recipes behind equal groups are the same cached values.
"""

import inspect
import math
from collections.abc import Mapping
from dataclasses import asdict
from enum import Enum
from functools import lru_cache
from typing import Any, Final, TypeAlias, cast

import torch
from torch import Tensor

from zeropower import TABLES, MatrixLayout, MuonRecipe, SecondMoment
from zeropower.checks import errors_naming, require_choice, require_number
from zeropower.newton_schulz import dtype_name
from zeropower.recipes import names_of_fields
from zeropower.soundness import DtypeName

Group: TypeAlias = dict[str, Any]
Number: TypeAlias = float | Tensor
Names: TypeAlias = Mapping[str, str]

RECIPE_FIELDS: Final = names_of_fields(MuonRecipe)
_DTYPES: Final = ("float64", "float32", "float16", "bfloat16")

TORCH_NAMES: Final[Names] = {"coefficients": "ns_coefficients", "steps": "ns_steps", "scale": "adjust_lr_fn"}
"""What ``torch.optim.Muon`` calls the fields of a recipe; the others have the same name there, or none."""


class Unset(Enum):
    """The type of :data:`FROM_DIALECT`."""

    FROM_DIALECT = "from the dialect"

    def __repr__(self) -> str:
        return f"<{self.value}>"


FROM_DIALECT: Final = Unset.FROM_DIALECT
"""Default of an argument that the dialect decides."""


def given(**arguments: Any) -> dict[str, Any]:
    """Return the arguments that were given."""
    return {name: value for name, value in arguments.items() if value is not FROM_DIALECT}


def refuse_unknown(cls: type, unknown: Mapping[str, object]) -> None:
    """Refuse keyword arguments that a constructor does not have.

    Parameters
    ----------
    cls
        The class.
    unknown
        What its ``**`` argument collected.

    Raises
    ------
    TypeError
        If there is one.
    """
    parameters = inspect.signature(cls).parameters.values()
    accepted = [p.name for p in parameters if p.kind is not p.VAR_KEYWORD]
    for name, value in unknown.items():
        raise TypeError(f"{name}={value!r} is no argument of {cls.__name__}; accepted: {', '.join(accepted)}")


def to_number(value: Any) -> Any:
    """Return the value of a tensor of one element, on any device; anything else as it is."""
    return value.item() if isinstance(value, Tensor) and value.numel() == 1 else value


def read_number(name: str, value: object, *, below: float = math.inf) -> float:
    """Return an option as a Python float.

    Parameters
    ----------
    name
        How the user calls it.
    value
        A number of at least 0, or a tensor of one element on any device.
    below
        What it must stay below.

    Returns
    -------
    float
        Its value. An error names what is not accepted.
    """
    value = to_number(value)
    require_number(name, value, low=0.0, high=below, high_open=True)
    return float(cast("float", value))


def ratio(own: Number, common: Number) -> float:
    """Return by how much one learning rate exceeds another; 1 where that is zero.

    Parameters
    ----------
    own
        The learning rate of a part.
    common
        That of the whole.

    Returns
    -------
    float
        Their ratio.
    """
    divisor = read_number("lr", common)
    return read_number("lr", own) / divisor if divisor else 1.0


def read_dtype(name: str, value: object) -> DtypeName | None:
    """Return the name of a dtype that was given by name or as ``torch.dtype``; ``None`` stays.

    Parameters
    ----------
    name
        How the user calls the option.
    value
        What was given.

    Returns
    -------
    str or None
        ``"float64"``, ``"float32"``, ``"float16"`` or ``"bfloat16"``.

    Raises
    ------
    ValueError
        If it is anything else.
    """
    if value is None:
        return None
    found = dtype_name(value) if isinstance(value, torch.dtype) else value
    require_choice(name, found, _DTYPES)
    return cast("DtypeName", found)


def layout_to_plain(layout: MatrixLayout | None) -> tuple[Any, ...] | None:
    """Return a layout as a tuple of plain values, which a checkpoint can hold."""
    if layout is None:
        return None
    return (layout.fan_out, layout.fan_in, layout.ndim) if layout.ndim else (layout.fan_out, layout.fan_in)


def layout_from_plain(plain: Any) -> MatrixLayout | None:
    """Return the layout that :func:`layout_to_plain` took apart; one that is whole stays."""
    if plain is None or isinstance(plain, MatrixLayout):
        return plain
    fan_out, fan_in, *ndim = (axes if isinstance(axes, str) else tuple(axes) for axes in plain)
    return MatrixLayout(cast("Any", fan_out), cast("Any", fan_in), *cast("Any", ndim))


def second_moment_from_plain(plain: Any) -> SecondMoment | None:
    """Return the second moment that a group holds as a table of its fields; one that is whole stays."""
    return SecondMoment(**plain) if isinstance(plain, dict) else plain


def recipe_to_group(recipe: MuonRecipe, names: Names) -> Group:
    """Return a recipe as options of a parameter group.

    Parameters
    ----------
    recipe
        The recipe.
    names
        How the group calls the fields.

    Returns
    -------
    dict
        Plain values. The recipe's compute dtype is a wish, ``preferred_dtype``; ``compute_dtype`` is an order, and
        stays empty here. With an ``adjust_lr_fn``, which is empty unless given, ``scale`` is what it falls back on.
    """
    group: Group = {names.get(field, field): getattr(recipe, field) for field in RECIPE_FIELDS}
    coefficients = names.get("coefficients", "coefficients")
    group[coefficients] = _as_triple(recipe.coefficients)
    group["second_moment"] = None if recipe.second_moment is None else asdict(recipe.second_moment)
    group |= {"preferred_dtype": recipe.compute_dtype, "compute_dtype": None, "scale": recipe.scale}
    if "scale" in names:
        group[names["scale"]] = None
    return group


def recipe_from_group(group: Mapping[str, Any], names: Names) -> MuonRecipe:
    """Return the recipe that a parameter group describes, but for its momentum, which may change with every step.

    Parameters
    ----------
    group
        The group.
    names
        How it calls the fields.

    Returns
    -------
    MuonRecipe
        The same object for equal options.

    Raises
    ------
    ValueError
        If an option is not accepted.
    TypeError
        If an option has the wrong type.
    """
    options = {field: group[names.get(field, field)] for field in RECIPE_FIELDS if field != "momentum"}
    options["scale"] = group["scale"] if options["scale"] is None else options["scale"]
    options["compute_dtype"] = group["preferred_dtype"]
    with errors_naming(names):
        options["second_moment"] = second_moment_from_plain(options["second_moment"])
        return _muon_recipe(**{field: _frozen(value) for field, value in options.items()})


@lru_cache(maxsize=256)
def _muon_recipe(**options: Any) -> MuonRecipe:
    return MuonRecipe(**options)


def _as_triple(coefficients: Any) -> Any:
    """Return a table of one line as that line, the form in which ``torch.optim.Muon`` has it."""
    table = TABLES[coefficients] if isinstance(coefficients, str) else coefficients
    return table[0] if len(table) == 1 else coefficients


def _frozen(value: Any) -> Any:
    """Return lists and arrays as tuples, so that a recipe can be looked up by its options."""
    if not isinstance(value, str) and hasattr(value, "tolist"):
        value = value.tolist()
    return tuple(map(_frozen, cast("list[Any]", value))) if isinstance(value, list | tuple) else value
