"""How jax describes itself to the conformance suite."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from zeropower import DEFAULT_RULES, DIALECTS, GENERIC, OUT_IN, AdamWRecipe, Backend, MuonRecipe, Rule
from zeropower.checks import require_choice
from zeropower.jax.dispatch import has_float64
from zeropower.jax.hybrid import muon_adamw
from zeropower.jax.kernels import JAX
from zeropower.soundness import DtypeName

_RULES: dict[str, tuple[Rule, ...]] = {  # the suite's matrices are (..., out, in)
    "muon": (Rule(optimizer="muon", reason="asked for", layout=OUT_IN),),
    "adamw": (Rule(optimizer="adamw", reason="asked for"),),
    "muon_adamw": tuple(replace(rule, layout=OUT_IN) if rule.optimizer == "muon" else rule for rule in DEFAULT_RULES),
}


def _from_numpy(array: np.ndarray, dtype_name: str) -> jax.Array:
    return jnp.asarray(array, dtype=dtype_name)


def _to_numpy(array: Any) -> np.ndarray:
    array = jnp.asarray(array)
    sixteen_bits = jnp.issubdtype(array.dtype, jnp.floating) and array.dtype.itemsize == 2
    return np.asarray(array.astype(jnp.float32) if sixteen_bits else array)


def _eager(function: Any) -> Any:
    return function


def run_optimizer(
    params: Mapping[str, np.ndarray],
    grads: Iterable[Mapping[str, np.ndarray]],
    *,
    kind: str,
    recipe: MuonRecipe | AdamWRecipe,
    lr: Sequence[float],
    weight_decay: float,
) -> dict[str, np.ndarray]:
    """Train numpy parameters with :func:`zeropower.jax.muon_adamw`; see :class:`zeropower.backend.OptimizerDriver`.

    Parameters
    ----------
    params
        Path to float32 or float64 array; matrices are (..., out, in).
    grads
        One mapping like ``params`` a step.
    kind
        ``"muon"`` or ``"adamw"`` for every parameter, or ``"muon_adamw"``, which routes.
    recipe
        Of Muon, or of AdamW where ``kind`` is ``"adamw"``. Without a compute dtype, that of the parameters.
    lr
        One learning rate a step.
    weight_decay
        Decoupled decay.

    Returns
    -------
    dict
        The parameters after the last step.
    """
    require_choice("kind", kind, _RULES)
    dialect = DIALECTS["zeropower"]
    if isinstance(recipe, MuonRecipe):
        own: DtypeName = (
            "float64" if any(p.dtype == np.float64 for p in params.values()) and has_float64() else "float32"
        )
        muon_args = {"compute_dtype": recipe.compute_dtype or own}
        dialect = replace(dialect, muon=recipe)
    else:
        muon_args = None
        dialect = replace(dialect, adamw=recipe)
    rates = jnp.asarray(lr)
    optimizer = muon_adamw(
        lambda count: rates[count],
        weight_decay,
        dialect=dialect,
        rules=_RULES[kind],
        muon_args=muon_args,
    )
    values: Any = {path: jnp.asarray(array) for path, array in params.items()}
    state = optimizer.init(values)
    update = jax.jit(optimizer.update)
    for step_grads in grads:
        updates, state = update({path: jnp.asarray(step_grads[path]) for path in values}, state, values)
        values = optax.apply_updates(values, updates)
    return {path: _to_numpy(array) for path, array in values.items()}


BACKEND = Backend(
    name="jax",
    from_numpy=_from_numpy,
    to_numpy=_to_numpy,
    namespace=lambda: jnp,
    dtypes=("float32", "float16", "bfloat16", *(("float64",) if has_float64() else ())),
    kernels={"generic": GENERIC, "jax": JAX},
    transforms={"eager": _eager, "jit": jax.jit},
    optimizer=run_optimizer,
)
"""The record."""
