"""zeropower: the Muon optimizer family as pure functions of arrays.

Every function takes arrays of any namespace of the Python Array API and returns the same kind. State goes in and
comes out; nothing is written in place.
"""

from zeropower.backend import Backend
from zeropower.clipping import clip_by_global_norm, clip_by_norm, clip_by_value
from zeropower.coefficients import TABLES, headroom, output_range, schedule
from zeropower.decay import weight_decay_for_step
from zeropower.dialects import DIALECTS, Dialect
from zeropower.kernels import GENERIC, Kernels
from zeropower.layout import CONV, HEADS, IN_OUT, MERGED_HEADS, OUT_IN, MatrixLayout
from zeropower.moments import adaptive_moment
from zeropower.newton_schulz import gram_ns, ns_iterate, orthogonalize
from zeropower.recipes import AdamWRecipe, MuonRecipe
from zeropower.record import Record, RecordEntry
from zeropower.routing import DEFAULT_RULES, ParamInfo, Route, RoutePlan, Rule, route_params
from zeropower.scaling import lr_scale
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
    "Dialect",
    "Kernels",
    "MatrixLayout",
    "MuonRecipe",
    "MuonState",
    "ParamInfo",
    "Record",
    "RecordEntry",
    "Route",
    "RoutePlan",
    "Rule",
    "adamw_direction",
    "adamw_step",
    "adaptive_moment",
    "clip_by_global_norm",
    "clip_by_norm",
    "clip_by_value",
    "gram_ns",
    "headroom",
    "lr_scale",
    "muon_direction",
    "muon_step",
    "ns_iterate",
    "orthogonalize",
    "output_range",
    "route_params",
    "schedule",
    "weight_decay_for_step",
]
