"""zeropower for PyTorch: Muon, AdamW with scheduled decay, and the hybrid of both."""

import torch as _torch

from zeropower import restarts as _restarts

from .adamw import AdamW
from .bitnet import BitNetAdamW
from .hybrid import MuonAdamW
from .muon import Muon
from .resolve import resolve_lr_scheduler, resolve_optimizer
from .schedules import lr_scheduler
from .selection import get_params_for_muon
from .takeover import renamed_state

__all__ = [
    "AdamW",
    "BitNetAdamW",
    "Muon",
    "MuonAdamW",
    "get_params_for_muon",
    "lr_scheduler",
    "renamed_state",
    "resolve_lr_scheduler",
    "resolve_optimizer",
]

# It searches with numpy, on static facts alone: torch.compile shall call it rather than trace it.
_torch.compiler.assume_constant_result(_restarts.restarts)
