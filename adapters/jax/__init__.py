"""Optimizers for jax, as optax transformations: state in, state out, jittable, only arrays in the state."""

from zeropower.jax.bitnet import bitnet_adamw
from zeropower.jax.hybrid import muon_adamw
from zeropower.jax.muon import muon, scale_by_muon
from zeropower.jax.routing import routing_plan

__all__ = ["bitnet_adamw", "muon", "muon_adamw", "routing_plan", "scale_by_muon"]
