"""Runs that change from optax's Muon to this one half way."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import torch

from zeropower import OUT_IN, Rule
from zeropower.conformance.tolerances import tensor_error
from zeropower.jax import load_record, muon_adamw, optax_record
from zeropower.torch import MuonAdamW

SHAPES = {"kernel": (6, 10), "deep": {"kernel": (10, 6)}, "bias": (5,)}
LR = 0.02


def problem():
    random = np.random.default_rng(0)

    def tree():
        return jax.tree.map(
            lambda shape: jnp.asarray(random.standard_normal(shape), jnp.float32),
            SHAPES,
            is_leaf=lambda node: isinstance(node, tuple),
        )

    return tree(), [tree() for _ in range(10)]


def train(optimizer, params, state, grads):
    update = jax.jit(optimizer.update)
    for step in grads:
        updates, state = update(step, state, params)
        params = optax.apply_updates(params, updates)
    return params, state


def theirs():
    """Ten steps of optax, and its parameters and state after five."""
    optimizer, (params, grads) = optax.contrib.muon(LR), problem()
    half = train(optimizer, params, optimizer.init(params), grads[:5])
    return half, train(optimizer, *half, grads[5:])[0], grads[5:]


def test_a_run_of_optax_goes_on():
    (params, state), wanted, grads = theirs()
    ours = muon_adamw(LR, dialect="optax", muon_args={"compute_dtype": "float32"})
    loaded = load_record(optax_record(state, params), ours.init(params), params)
    assert int(loaded.count) == 5
    found, _ = train(ours, params, loaded, grads)
    for leaf, exact in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        assert tensor_error(np.asarray(leaf), np.asarray(exact)) <= 1e-5  # five steps of float32; measured: 2e-6


def test_a_run_of_optax_goes_on_in_pytorch():
    (params, state), wanted, grads = theirs()
    paths = {"kernel": lambda tree: tree["kernel"], "deep.kernel": lambda tree: tree["deep"]["kernel"]}
    paths["bias"] = lambda tree: tree["bias"]
    named = [(path, torch.nn.Parameter(torch.tensor(np.asarray(of(params))))) for path, of in paths.items()]
    rules = (  # flax kernels are (in, out)
        Rule(optimizer="muon", reason="matrix", last=("kernel",), layout=type(OUT_IN)(fan_out=(-1,), fan_in=(-2,))),
        Rule(optimizer="adamw", reason="rest"),
    )
    optimizer = MuonAdamW(named, LR, dialect="optax", rules=rules, muon_args={"compute_dtype": "float32"})
    optimizer.load_record(optax_record(state, params))
    for step in grads:
        for path, param in named:
            param.grad = torch.tensor(np.asarray(paths[path](step)))
        optimizer.step()
    for path, param in named:
        assert tensor_error(param.detach().numpy(), np.asarray(paths[path](wanted))) <= 1e-5


def test_another_state_is_refused():
    params, _ = problem()
    with pytest.raises(TypeError, match=r"accepted: the state of optax\.contrib\.muon"):
        optax_record(optax.adam(LR).init(params), params)
    state = optax.contrib.muon(LR).init({"kernel": params["kernel"]})
    with pytest.raises(ValueError, match=r"state keeps nothing of 'bias'"):
        optax_record(state, params)
