"""Optimizers and learning-rate schedulers from a configuration."""

import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, cast

from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR

from zeropower import DIALECTS
from zeropower.config import OptimizerConfig, read_config
from zeropower.dialect_rules import TargetMatch
from zeropower.resolution import resolve, resolve_lr_schedule

from .adamw import AdamW
from .bitnet import BitNetAdamW
from .hybrid import MuonAdamW
from .schedules import lr_scheduler

Config = OptimizerConfig | Mapping[str, Any] | str | os.PathLike[str]


def resolve_optimizer(
    config: Config,
    model_or_params: nn.Module | Iterable[Tensor] | Iterable[tuple[str, Tensor]] | Iterable[dict[str, Any]],
    total_steps: int,
    *,
    match: TargetMatch = "last",
) -> AdamW | BitNetAdamW | MuonAdamW:
    """Return the optimizer that a configuration asks for.

    Parameters
    ----------
    config
        An :class:`zeropower.OptimizerConfig`, a mapping, or the path of a TOML file.
    model_or_params
        A module, named parameters, or parameter groups; without names for the kinds without Muon alone.
    total_steps
        Steps of the run, at least 0; 0 counts as 1.
    match
        As for :func:`zeropower.resolve`: ``"last"`` matches the last component of a name, which is ``weight`` for the
        parameter of an ``nn.Linear``; ``"component"`` matches the modules around a parameter, too.

    Returns
    -------
    AdamW, BitNetAdamW or MuonAdamW
        With the learning rate of the configuration, which a scheduler may change (:func:`resolve_lr_scheduler`).

    Raises
    ------
    ValueError
        If the configuration cannot be used; the message names the field and what is accepted.
    TypeError
        If a value in it, or what came as parameters, has the wrong type.
    """
    found = resolve(read_config(config), total_steps, match=match)
    betas = (found.adamw.beta_1, found.adamw.beta_2)
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
        dialect = replace(DIALECTS["burn-dragon"], muon=found.muon, adamw=found.adamw, rules=found.rules)
        return MuonAdamW(
            cast("Any", model_or_params), found.lr, found.weight_decay, dialect=dialect, adamw_args=stages, **clip
        )
    params = model_or_params.named_parameters() if isinstance(model_or_params, nn.Module) else model_or_params
    if found.kind == "bitnet_adamw":
        return BitNetAdamW(params, found.lr, betas, found.adamw.eps, found.weight_decay, **stages, **clip)
    return AdamW(params, found.lr, betas, found.adamw.eps, found.weight_decay, **clip)


def resolve_lr_scheduler(
    config: Config, optimizer: Optimizer, total_steps: int, *, num_iters: int | None = None
) -> LambdaLR:
    """Return a scheduler with the learning rates that a configuration asks for.

    Parameters
    ----------
    config
        As for :func:`resolve_optimizer`.
    optimizer
        The optimizer, as :func:`lr_scheduler` takes it.
    total_steps
        Steps of the run, at least 0; 0 counts as 1.
    num_iters
        As for :func:`zeropower.resolve_lr_schedule`.

    Returns
    -------
    torch.optim.lr_scheduler.LambdaLR
        One ``step`` of it follows each ``step`` of the optimizer.

    Raises
    ------
    ValueError
        If the configuration cannot be used.
    TypeError
        If a value in it has the wrong type.
    """
    return lr_scheduler(optimizer, resolve_lr_schedule(read_config(config), total_steps, num_iters=num_iters))
