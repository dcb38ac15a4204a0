"""Fields of configurations: read with their path, to tables and back."""

from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, TypeVar, cast

import numpy as np

Config = TypeVar("Config")


def read_number(path: str, value: object) -> float:
    """Return a number as a float; refuse anything else. NaN and infinity are numbers, for the checks of ranges."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise TypeError(f"{path}={value!r} is not a number; accepted: a finite number")
    try:
        return float(cast("float", value))
    except OverflowError:
        raise ValueError(f"{path}={value!r} is out of range; accepted: a finite number") from None


def read_integer(path: str, value: object) -> int:
    """Return an integer as an int; refuse anything else."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise TypeError(f"{path}={value!r} is not an integer; accepted: an integer")
    return int(value)


def read_flag(path: str, value: object) -> bool:
    """Return a truth value; refuse anything else."""
    if not isinstance(value, bool):
        raise TypeError(f"{path}={value!r} is not a truth value; accepted: true, false")
    return value


def from_table(cls: type[Config], path: str, table: Any, **readers: Callable[[Any], object]) -> Config:
    """Return the dataclass that a table describes.

    Parameters
    ----------
    cls
        The dataclass.
    path
        Where the table stands, for messages.
    table
        A mapping of values by field.
    **readers
        What becomes of the values of some fields, unless they are ``None``.

    Returns
    -------
    Config
        The dataclass.

    Raises
    ------
    TypeError
        If the table is no mapping.
    ValueError
        If it has a key that is no field, or a field without a default is missing.
    """
    known = fields(cast("Any", cls))
    accepted = ", ".join(field.name for field in known)
    if not isinstance(table, Mapping):
        raise TypeError(f"{path}={table!r} is not a table; accepted: a table of {accepted}")
    values = dict(cast("Mapping[Any, Any]", table))
    for key in values:
        if key not in {field.name for field in known}:
            raise ValueError(f"{path}.{key} is not known; accepted: {accepted}")
    for field in known:
        if field.default is MISSING and field.name not in values:
            raise ValueError(f"{path}.{field.name} must be set; accepted: a table with it, of {accepted}")
    for name, read in readers.items():
        if values.get(name) is not None:
            values[name] = read(values[name])
    return cls(**values)


def to_table(config: object) -> dict[str, Any]:
    """Return a dataclass as a table of plain values, which TOML can hold: without those that are ``None``."""
    values = {field.name: getattr(config, field.name) for field in fields(cast("Any", config))}
    return {name: _plain(value) for name, value in values.items() if value is not None}


def _plain(value: Any) -> Any:
    if is_dataclass(value):
        return to_table(value)
    return list(cast("tuple[Any, ...]", value)) if isinstance(value, tuple) else value
