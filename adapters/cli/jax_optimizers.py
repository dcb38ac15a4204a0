"""Builders of the jax optimizers in `zeropower.cli.optimizers`."""

from collections.abc import Callable, Mapping
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array
from numpy.typing import NDArray
from optax.contrib import MuonDimensionNumbers

from zeropower import RoutePlan
from zeropower.config import read_config
from zeropower.jax import bitnet_adamw, muon_adamw, resolve_optimizer, routing_plan
from zeropower.resolution import resolve

from .optimizers import Chosen, Settings

__all__ = ["BUILDERS", "build"]

BETA_2: Final = 0.95  # of AdamW; the usual choice for language models
MOMENTUM: Final = 0.9  # of plain gradient descent
UPDATE_RMS: Final = 0.2  # of Muon's update, that of AdamW's (arXiv:2502.16982, section 2.2)

Factors = NDArray[np.float64]  # of the learning rate, one for each step


def _schedule(lr: float, factors: Factors) -> Callable[[Any], Array]:
    table = (lr * factors).astype(np.float32)
    return lambda count: jnp.asarray(table)[count]


def _adamw(settings: Settings, factors: Factors) -> optax.GradientTransformation:
    return optax.adamw(_schedule(settings.lr, factors), b2=BETA_2, weight_decay=settings.weight_decay)


def _muon_adamw(settings: Settings, factors: Factors) -> optax.GradientTransformation:
    return muon_adamw(
        _schedule(settings.lr, factors),
        weight_decay=settings.weight_decay,
        dialect=settings.to_dialect(),
        adamw_args={"learning_rate": _schedule(_adamw_lr(settings), factors)},
    )


def _bitnet_adamw(settings: Settings, factors: Factors) -> optax.GradientTransformation:
    return bitnet_adamw(_schedule(settings.lr, factors), weight_decay=settings.weight_decay, total_steps=len(factors))


def _optax_muon(settings: Settings, factors: Factors) -> optax.GradientTransformation:
    return optax.contrib.muon(
        _schedule(settings.lr, factors),
        weight_decay=settings.weight_decay,
        adam_b2=BETA_2,
        adam_weight_decay=settings.weight_decay,
        adam_learning_rate=_schedule(_adamw_lr(settings), factors),
        muon_weight_dimension_numbers=_hidden_matrices,
        consistent_rms=UPDATE_RMS,
    )


def _sgd(settings: Settings, factors: Factors) -> optax.GradientTransformation:
    return optax.chain(
        optax.add_decayed_weights(settings.weight_decay),
        optax.sgd(_schedule(settings.lr, factors), momentum=MOMENTUM, nesterov=True),
    )


def _hidden_matrices(params: Any) -> Any:
    def dimensions(path: Any, leaf: Array) -> MuonDimensionNumbers | None:
        outer = leaf.ndim != 2 or path[0].key in {"embed", "head"}
        return None if outer else MuonDimensionNumbers()

    return jax.tree_util.tree_map_with_path(dimensions, params)


def _adamw_lr(settings: Settings) -> float:
    assert settings.adamw_lr is not None  # the table gives it one
    return settings.adamw_lr


BUILDERS: Final[Mapping[str, Callable[[Settings, Factors], optax.GradientTransformation]]] = {
    "adamw": _adamw,
    "muon_adamw": _muon_adamw,
    "bitnet_adamw": _bitnet_adamw,
    "optax_muon": _optax_muon,
    "sgd": _sgd,
}


def build(params: Any, chosen: Chosen, factors: Factors) -> tuple[optax.GradientTransformation, RoutePlan | None]:
    """Build an optimizer.

    Parameters
    ----------
    params : dict
        What it trains.
    chosen : Chosen
        Which one.
    factors : numpy.ndarray
        Factors of the learning rate, one for each step; a configuration has a schedule of its own.

    Returns
    -------
    tuple
        The optimizer, and the plan of our hybrid or None.
    """
    if chosen.config is None:
        plan = routing_plan(params) if chosen.name == "muon_adamw" else None
        return BUILDERS[chosen.name](chosen.settings, factors), plan
    # the layers of the model are what a configuration can name: their matrices are called "kernel"
    optimizer = resolve_optimizer(chosen.config, params, len(factors), match="component")
    rules = resolve(read_config(chosen.config), len(factors), match="component").rules
    return optimizer, None if rules is None else routing_plan(params, rules)
