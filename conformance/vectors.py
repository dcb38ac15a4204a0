"""Dialects beside the stored vectors of their originals' formulas, in float64."""

from collections.abc import Mapping
from functools import lru_cache
from importlib.resources import files
from typing import Any

import numpy as np

from zeropower import CONV, DIALECTS, OUT_IN, adamw_step, muon_step

FORMULA = 1e-12
"""How far two programs of one formula may be apart in float64, of the movement: the roundings of ten steps. 2e-14 is
measured."""

BY_KERNEL_SIZE = frozenset({("keller", "conv-tall"), ("normuon", "conv"), ("normuon", "conv-tall")})
"""Where an original takes scale and second moment of a kernel by its last two axes, its height and width, though it
orthogonalises it flat; a dialect has one view of a matrix for all of it."""


@lru_cache(maxsize=1)
def stored() -> Mapping[str, np.ndarray]:
    """Return the stored vectors, by ``start/<case>``, ``grads/<case>`` and ``<dialect>/<case>``."""
    with files("zeropower.conformance.golden").joinpath("dialects.npz").open("rb") as file:
        return dict(np.load(file))


def cases_of(dialect: str) -> list[str]:
    """Return the cases that a dialect has vectors of."""
    cases = [key.partition("/")[2] for key in stored() if key.startswith(f"{dialect}/")]
    return [case for case in cases if (dialect, case) not in BY_KERNEL_SIZE]


def run_steps(dialect: str, case: str, param: Any, grads: Any, *, xp: Any = None, momenta: Any = None) -> Any:
    """Return the parameter after all steps by the core's functions, computed in its own dtype.

    Parameters
    ----------
    dialect
        The dialect.
    case
        The case, which says how the parameter is a matrix.
    param
        The start.
    grads
        One gradient a step.
    xp
        Their namespace.
    momenta
        The decay of the momentum in each step; ``None`` takes the recipe's.

    Returns
    -------
    array
        Like ``param``.
    """
    chosen, golden = DIALECTS[dialect], stored()
    state: Any = None
    decay = float(golden["weight_decay"])
    for t, (lr, grad) in enumerate(zip(golden["lr"], grads, strict=True), start=1):
        rates: dict[str, Any] = {"lr": float(lr), "weight_decay": decay, "step": t, "xp": xp}
        if case.endswith("vector"):
            param, state = adamw_step(param, grad, state, chosen.adamw, **rates)
            continue
        layout = (chosen.layout or OUT_IN) if case == "stack" else CONV if case.startswith("conv") else OUT_IN
        beta = None if momenta is None else float(momenta[t - 1])
        options: dict[str, Any] = {"layout": layout, "momentum": beta, "compute_dtype": param.dtype}
        param, state = muon_step(param, grad, state, chosen.muon, **rates, **options)
    return param


def moved_apart(case: str, found: np.ndarray, exact: np.ndarray) -> float:
    """Return the difference of two ends, relative to how far the second moved."""
    start = stored()[f"start/{case}"]
    return float(np.linalg.norm(found - exact) / np.linalg.norm(exact - start))
