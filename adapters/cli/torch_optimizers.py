"""Builders of the torch optimizers in `zeropower.cli.optimizers`."""

from collections.abc import Callable, Mapping
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR, LRScheduler

from zeropower.torch import BitNetAdamW, MuonAdamW, resolve_lr_scheduler, resolve_optimizer

from .optimizers import Chosen, Settings

__all__ = ["BUILDERS", "build"]

BETAS: Final = (0.9, 0.95)  # of AdamW; the usual choice for language models
MOMENTUM: Final = 0.9  # of plain gradient descent


def _adamw(model: nn.Module, settings: Settings, steps: int) -> list[Optimizer]:
    return [_peer_adamw(list(model.parameters()), settings.lr, settings.weight_decay)]


def _muon_adamw(model: nn.Module, settings: Settings, steps: int) -> list[Optimizer]:
    adamw = {"lr": settings.adamw_lr, "weight_decay": settings.weight_decay}
    dialect = settings.to_dialect()
    return [MuonAdamW(model, settings.lr, settings.weight_decay, dialect=dialect, adamw_args=adamw)]


def _bitnet_adamw(model: nn.Module, settings: Settings, steps: int) -> list[Optimizer]:
    adamw = BitNetAdamW(model.parameters(), lr=settings.lr, weight_decay=settings.weight_decay, total_steps=steps)
    return [adamw]


def _torch_muon(model: nn.Module, settings: Settings, steps: int) -> list[Optimizer]:
    hidden: list[nn.Parameter] = []
    rest: list[nn.Parameter] = []
    for name, weight in model.named_parameters():
        outer = weight.ndim != 2 or name.startswith(("embed.", "head."))
        (rest if outer else hidden).append(weight)
    muon = torch.optim.Muon(hidden, lr=settings.lr, weight_decay=settings.weight_decay, adjust_lr_fn="match_rms_adamw")
    assert settings.adamw_lr is not None  # the table gives it one
    return [muon, _peer_adamw(rest, settings.adamw_lr, settings.weight_decay)]


def _sgd(model: nn.Module, settings: Settings, steps: int) -> list[Optimizer]:
    return [
        torch.optim.SGD(
            model.parameters(),
            lr=settings.lr,
            momentum=MOMENTUM,
            nesterov=True,
            weight_decay=settings.weight_decay,
        )
    ]


def _peer_adamw(weights: list[nn.Parameter], lr: float, weight_decay: float) -> Optimizer:
    # fused is torch's fastest form on a CPU: the baseline gets it
    return torch.optim.AdamW(weights, lr=lr, betas=BETAS, weight_decay=weight_decay, fused=True)


Builder = Callable[[nn.Module, Settings, int], list[Optimizer]]  # the last: steps of the run

BUILDERS: Final[Mapping[str, Builder]] = {
    "adamw": _adamw,
    "muon_adamw": _muon_adamw,
    "bitnet_adamw": _bitnet_adamw,
    "torch_muon": _torch_muon,
    "sgd": _sgd,
}


def build(model: nn.Module, chosen: Chosen, factors: NDArray[np.float64]) -> tuple[list[Optimizer], list[LRScheduler]]:
    """Build an optimizer and what schedules its learning rate.

    Parameters
    ----------
    model : Module
        What it trains.
    chosen : Chosen
        Which one.
    factors : numpy.ndarray
        Factors of the learning rate, one for each step; a configuration has a schedule of its own.

    Returns
    -------
    tuple of list
        Optimizers, and a scheduler for each.
    """
    steps = len(factors)
    if chosen.config is not None:
        # the layers of the model are what a configuration can name: all their parameters are called "weight"
        optimizer = resolve_optimizer(chosen.config, model, steps, match="component")
        return [optimizer], [resolve_lr_scheduler(chosen.config, optimizer, steps)]
    optimizers = BUILDERS[chosen.name](model, chosen.settings, steps)
    table = factors.tolist()  # after the last step LambdaLR asks once more
    return optimizers, [LambdaLR(one, lambda done: table[min(done, steps - 1)]) for one in optimizers]
