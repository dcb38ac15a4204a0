"""Optimizers for jax, as optax transformations: state in, state out, jittable, only arrays in the state."""

from zeropower.jax.adamw import adamw
from zeropower.jax.bitnet import bitnet_adamw
from zeropower.jax.gradients import sum_gradients
from zeropower.jax.hybrid import muon_adamw
from zeropower.jax.muon import muon, scale_by_muon
from zeropower.jax.records import load_record, to_record
from zeropower.jax.resolve import resolve_optimizer
from zeropower.jax.routing import routing_plan
from zeropower.jax.schedules import optax_schedule
from zeropower.jax.state import AdamWState, BitNetAdamWState, MuonAdamWState
from zeropower.jax.takeover import optax_record

__all__ = [
    "AdamWState",
    "BitNetAdamWState",
    "MuonAdamWState",
    "adamw",
    "bitnet_adamw",
    "load_record",
    "muon",
    "muon_adamw",
    "optax_record",
    "optax_schedule",
    "resolve_optimizer",
    "routing_plan",
    "scale_by_muon",
    "sum_gradients",
    "to_record",
]
