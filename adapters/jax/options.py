"""Arguments become recipes; what is refused is named as the user wrote it."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from zeropower import TABLES, AdamWRecipe, MuonRecipe
from zeropower.checks import errors_naming, is_scalar_array, require_choice, require_number
from zeropower.coefficients import Coefficients
from zeropower.normalize import Normalization, accumulation_dtype
from zeropower.scaling import ScaleRule

Recipe = TypeVar("Recipe", MuonRecipe, AdamWRecipe)

# optax documents its first preset as "muon" and looks for "standard"
_PRESETS: dict[str, str] = {"muon": "keller", "standard": "keller", "dion": "you"} | {name: name for name in TABLES}
_PRECONDITIONINGS: dict[str, Normalization] = {"frobenius": "frobenius", "aol": "aol", "schatten": "schatten4"}


def optax_recipe(
    *,
    ns_coeffs: Any,
    ns_steps: Any,
    beta: Any,
    eps: Any,
    nesterov: bool,
    preconditioning: str,
    scale: ScaleRule,
) -> MuonRecipe:
    """Return the recipe that ``optax.contrib.muon``'s arguments describe.

    Parameters
    ----------
    ns_coeffs
        A preset's name, a triple, or triples, whose number then decides over the number of steps.
    ns_steps
        Steps of the iteration; with triples, at least their number.
    beta
        Decay of the momentum.
    eps
        Added to the norm.
    nesterov
        Whether to look ahead.
    preconditioning
        ``"frobenius"``, ``"aol"`` or ``"schatten"``.
    scale
        How the learning rate depends on the shape.

    Returns
    -------
    MuonRecipe
        Its momentum is optax's, the bias-corrected average.

    Raises
    ------
    ValueError
        If an argument is out of range.
    """
    require_static("ns_steps", ns_steps)
    require_choice("preconditioning", preconditioning, _PRECONDITIONINGS)
    coefficients = _coefficients(ns_coeffs)
    with errors_naming({"coefficients": "ns_coeffs", "steps": "ns_steps", "momentum": "beta"}):
        recipe = MuonRecipe(
            momentum=scalar(beta),
            momentum_form="ema_corrected",
            nesterov=nesterov,
            coefficients=coefficients,
            steps=ns_steps,
            normalize=_PRECONDITIONINGS[preconditioning],
            eps=scalar(eps),
            eps_mode="add",
            scale=scale,
        )
    if isinstance(coefficients, str) or len(recipe.coefficients) == 1:
        return recipe
    rows = len(recipe.coefficients)
    if rows > ns_steps:
        raise ValueError(f"ns_steps={ns_steps} is less than the {rows} triples of ns_coeffs; accepted: at least {rows}")
    return replace(recipe, steps=rows)


def _coefficients(ns_coeffs: Any) -> Coefficients:
    if isinstance(ns_coeffs, str):
        require_choice("ns_coeffs", ns_coeffs, _PRESETS)
        named = _PRESETS[ns_coeffs]
        return TABLES[named] if ns_coeffs == "dion" else named
    accepted = f"accepted: one of {', '.join(_PRESETS)}, (a, b, c), or a sequence of triples; none of it traced"
    try:
        table = np.asarray(ns_coeffs, dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"ns_coeffs={ns_coeffs!r} is not of numbers; {accepted}") from None
    if table.ndim not in {1, 2} or table.shape[-1] != 3 or table.size == 0:
        raise ValueError(f"ns_coeffs={ns_coeffs!r} has the shape {table.shape}; {accepted}")
    rows: list[list[float]] = table.reshape(-1, 3).tolist()
    return tuple((a, b, c) for a, b, c in rows)


def overruled(recipe: Recipe, argument: str, given: Mapping[str, Any], names: Mapping[str, str]) -> Recipe:
    """Return a recipe with some fields replaced.

    Parameters
    ----------
    recipe
        What holds where nothing is given.
    argument
        The user's name of the mapping.
    given
        Values by the user's names.
    names
        The user's names and the fields that they stand for.

    Returns
    -------
    MuonRecipe or AdamWRecipe
        The new recipe, validated.
    """
    with errors_naming({field: f"{argument}[{name!r}]" for name, field in names.items()}):
        return replace(recipe, **{names[name]: scalar(value) for name, value in given.items()})


def adamw_recipe(b1: Any, b2: Any, eps: Any) -> AdamWRecipe:
    """Return the recipe that optax's names describe.

    Parameters
    ----------
    b1
        Decay of the first moment.
    b2
        Decay of the second moment.
    eps
        Added to the root of the second moment.

    Returns
    -------
    AdamWRecipe
        Validated.
    """
    with errors_naming({"beta_1": "b1", "beta_2": "b2"}):
        return AdamWRecipe(beta_1=scalar(b1), beta_2=scalar(b2), eps=scalar(eps))


def rate(name: str, value: Any, *, default: Any = None) -> Any:
    """Return a learning rate or weight decay in a form that optax takes, or refuse it.

    Parameters
    ----------
    name
        The user's name of it.
    value
        A number of at least 0, a 0-d array (possibly traced), or a schedule.
    default
        What ``None`` stands for, if for anything.

    Returns
    -------
    float, array or callable
        The same rate.
    """
    value = default if value is None else value
    return value if callable(value) else number(name, value)


def number(name: str, value: Any) -> Any:
    """Return a number that is not negative, or refuse it.

    Parameters
    ----------
    name
        The user's name of it.
    value
        A number of at least 0, or a 0-d array (possibly traced), whose value is not looked at.

    Returns
    -------
    float or array
        The same number.
    """
    value = scalar(value)
    require_number(name, value, low=0.0)
    return value if is_scalar_array(value) else float(value)


def scalar(value: Any) -> Any:
    """Return numpy's scalars as Python's, which promote nothing, and 16-bit arrays (``inject_hyperparams``) wider."""
    if isinstance(value, np.generic) or (isinstance(value, np.ndarray) and value.shape == ()):
        return value.item()
    if isinstance(value, jax.Array) and value.shape == () and jnp.issubdtype(value.dtype, jnp.floating):
        return jnp.astype(value, accumulation_dtype(value.dtype, jnp))
    return value


def float_dtype(name: str, value: Any) -> Any:
    """Return a dtype, or ``None``.

    Parameters
    ----------
    name
        The user's name of it.
    value
        A dtype, its name, or ``None``.

    Returns
    -------
    dtype or None
        The same dtype.

    Raises
    ------
    ValueError
        If it is not real floating.
    """
    if value is None:
        return None
    try:
        dtype = jax.dtypes.canonicalize_dtype(value)  # as optax does
    except TypeError:
        dtype = None
    if dtype is None or not jnp.issubdtype(dtype, jnp.floating):
        raise ValueError(f"{name}={value!r} is not accepted; accepted: a real floating dtype or its name, or None")
    return dtype


def require_static(name: str, value: Any) -> None:
    """Refuse an array where the value decides what is computed.

    Parameters
    ----------
    name
        The user's name of it.
    value
        What must be a Python value.

    Raises
    ------
    TypeError
        If it is an array.
    """
    if isinstance(value, jax.Array):
        raise TypeError(
            f"{name}={value} is an array; accepted: a Python number (with inject_hyperparams: static_args={name!r})"
        )


def require_keys(name: str, given: Mapping[str, Any], accepted: Collection[str]) -> None:
    """Refuse a mapping with a key that means nothing.

    Parameters
    ----------
    name
        The user's name of the mapping.
    given
        The mapping.
    accepted
        The keys that exist.

    Raises
    ------
    ValueError
        If there is another.
    """
    for key in given:
        if key not in accepted:
            raise ValueError(f"{name} has the key {key!r}; accepted: {', '.join(map(repr, accepted))}")
