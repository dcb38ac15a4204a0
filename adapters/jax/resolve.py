"""Optimizers and learning-rate schedules from a configuration."""

import os
import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeAlias

import optax

from zeropower import DIALECTS
from zeropower.config import OptimizerConfig, read_config
from zeropower.dialect_rules import TargetMatch
from zeropower.jax.adamw import adamw
from zeropower.jax.bitnet import bitnet_adamw
from zeropower.jax.hybrid import muon_adamw
from zeropower.jax.routing import routing_plan
from zeropower.jax.schedules import optax_schedule
from zeropower.resolution import resolve, resolve_lr_schedule

Config: TypeAlias = OptimizerConfig | Mapping[str, Any] | str | os.PathLike[str]


def resolve_optimizer(
    config: Config,
    params: Any,
    total_steps: int,
    *,
    match: TargetMatch = "last",
    num_iters: int | None = None,
) -> optax.GradientTransformationExtraArgs:
    """Return the optimizer that a configuration asks for, with its learning rate of every update.

    Parameters
    ----------
    config
        An :class:`zeropower.OptimizerConfig`, a mapping, or the path of a TOML file.
    params
        Tree of arrays, or of ``jax.ShapeDtypeStruct``, that will be trained: the hybrid routes it once to see that the
        names in the configuration are its names.
    total_steps
        Steps of the run, at least 0; 0 counts as 1.
    match
        As for :func:`zeropower.resolve`: ``"last"`` matches the last component of a path, which is ``kernel`` for the
        matrix of a Flax layer; ``"component"`` matches the modules around a parameter, too.
    num_iters
        As for :func:`zeropower.resolve_lr_schedule`.

    Returns
    -------
    optax.GradientTransformationExtraArgs
        :func:`adamw`, :func:`bitnet_adamw` or :func:`muon_adamw`.

    Raises
    ------
    ValueError
        If the configuration cannot be used; the message names the field and what is accepted.
    TypeError
        If a value in it, or a leaf of ``params``, has the wrong type.

    Warns
    -----
    UserWarning
        If the hybrid gives no parameter to Muon.
    """
    config = read_config(config)
    found = resolve(config, total_steps, match=match)
    lr = optax_schedule(resolve_lr_schedule(config, total_steps, num_iters=num_iters))
    moments: dict[str, Any] = {"b1": found.adamw.beta_1, "b2": found.adamw.beta_2, "eps": found.adamw.eps}
    clip: dict[str, Any] = {"clip_norm": found.clip_norm, "clip_value": found.clip_value}
    stages: dict[str, Any] = {
        "weight_decay_final": found.weight_decay_final,
        "second_stage_start": found.second_stage_start,
        "total_steps": found.total_steps,
        "clock": found.clock,
    }
    if found.kind == "muon_hybrid":
        assert found.muon is not None  # as the hybrid has it
        assert found.rules is not None
        if not (plan := routing_plan(params, found.rules)).paths("muon"):
            warnings.warn(f"no parameter goes to Muon: {plan!r}; routing_plan says why", stacklevel=2)
        dialect = replace(DIALECTS["burn-dragon"], muon=found.muon, adamw=found.adamw, rules=found.rules)
        return muon_adamw(lr, found.weight_decay, dialect=dialect, adamw_args=stages, **clip)
    if found.kind == "bitnet_adamw":
        return bitnet_adamw(lr, **moments, weight_decay=found.weight_decay, **stages, **clip)
    return adamw(lr, **moments, weight_decay=found.weight_decay, **clip)
