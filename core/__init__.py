"""zeropower: the Muon optimizer family as pure functions of arrays.

Every function takes arrays of any namespace of the Python Array API and returns the same kind. State goes in and
comes out; nothing is written in place.
"""

from zeropower.backend import Backend
from zeropower.clipping import clip_by_global_norm, clip_by_norm, clip_by_value
from zeropower.coefficients import TABLES, headroom, output_range, schedule
from zeropower.config import MuonHybridConfig, OptimizerConfig, read_config
from zeropower.decay import Decay, weight_decay_for_step
from zeropower.dialect_rules import burn_dragon_rules
from zeropower.dialects import DIALECTS, Dialect
from zeropower.kernels import GENERIC, Kernels
from zeropower.layout import CONV, HEADS, IN_OUT, MERGED_HEADS, OUT_IN, MatrixLayout
from zeropower.moments import adaptive_moment
from zeropower.momentum import convert_momentum, momentum_for_step
from zeropower.newton_schulz import gram_ns, ns_iterate, orthogonalize
from zeropower.recipes import AdamWRecipe, MuonRecipe
from zeropower.record import Record, RecordEntry
from zeropower.resolution import Resolution, resolve, resolve_lr_schedule
from zeropower.routing import DEFAULT_RULES, ParamInfo, Route, RoutePlan, Rule, route_params
from zeropower.scaling import lr_scale
from zeropower.schedule_config import LrScheduleConfig
from zeropower.schedules import (
    Constant,
    Cosine,
    Exponential,
    Linear,
    LrSchedule,
    Noam,
    StepDecay,
    TwoStage,
    count_steps,
)
from zeropower.second_moment import SecondMoment
from zeropower.steps import (
    AdamWState,
    MuonState,
    adamw_direction,
    adamw_step,
    muon_direction,
    muon_step,
)

__version__ = "0.1.0"

__all__ = [
    "CONV",
    "DEFAULT_RULES",
    "DIALECTS",
    "GENERIC",
    "HEADS",
    "IN_OUT",
    "MERGED_HEADS",
    "OUT_IN",
    "TABLES",
    "AdamWRecipe",
    "AdamWState",
    "Backend",
    "Constant",
    "Cosine",
    "Decay",
    "Dialect",
    "Exponential",
    "Kernels",
    "Linear",
    "LrSchedule",
    "LrScheduleConfig",
    "MatrixLayout",
    "MuonHybridConfig",
    "MuonRecipe",
    "MuonState",
    "Noam",
    "OptimizerConfig",
    "ParamInfo",
    "Record",
    "RecordEntry",
    "Resolution",
    "Route",
    "RoutePlan",
    "Rule",
    "SecondMoment",
    "StepDecay",
    "TwoStage",
    "adamw_direction",
    "adamw_step",
    "adaptive_moment",
    "burn_dragon_rules",
    "clip_by_global_norm",
    "clip_by_norm",
    "clip_by_value",
    "convert_momentum",
    "count_steps",
    "gram_ns",
    "headroom",
    "lr_scale",
    "momentum_for_step",
    "muon_direction",
    "muon_step",
    "ns_iterate",
    "orthogonalize",
    "output_range",
    "read_config",
    "resolve",
    "resolve_lr_schedule",
    "route_params",
    "schedule",
    "weight_decay_for_step",
]
