"""Two hundred steps of the hybrid on the parameters of a BDH model, in torch and in jax."""

import numpy as np
import pytest

from zeropower.conformance.tolerances import gradient_response, tensor_error

torch = pytest.importorskip("torch")
jax = pytest.importorskip("jax")

STEPS = 200
HEADS, WIDTH, LATENT, VOCABULARY = 4, 32, 32, 64
SHAPES = {  # of BDH: two encoders by heads, what decodes all latents, the head, the decay of each latent, the embedding
    "encoder": (HEADS, WIDTH, LATENT),
    "encoder_v": (HEADS, WIDTH, LATENT),
    "decoder": (HEADS * LATENT, WIDTH),
    "lm_head": (WIDTH, VOCABULARY),
    "rwkv_time_decay": (HEADS, LATENT),
    "embed.weight": (VOCABULARY, WIDTH),
}
CONFIG = {
    "name": "muon_hybrid_exp",
    "learning_rate": 2e-3,
    "weight_decay": 0.1,
    "weight_decay_final": 0.0,
    "schedule_mode": "hybrid",  # a rate in two stages, and a decay in two stages of what Muon does not take
    "grad_clip_norm": 1.0,
    "muon": {"enabled": True},
}


def start():
    random = np.random.default_rng(0)
    return {name: (0.02 * random.standard_normal(shape)).astype(np.float32) for name, shape in SHAPES.items()}


def gradients():
    """Gradients with a part that stays, as those of training have; the embedding has none at first."""
    random = np.random.default_rng(1)
    steady = {name: random.standard_normal(shape) for name, shape in SHAPES.items()}
    steps = []
    for step in range(STEPS):
        grads = {name: 0.3 * steady[name] + random.standard_normal(shape) for name, shape in SHAPES.items()}
        if step < 20:
            del grads["embed.weight"]
        steps.append({name: (0.05 * grad).astype(np.float32) for name, grad in grads.items()})
    return steps


def run_torch(grads):
    from zeropower.torch import resolve_lr_scheduler, resolve_optimizer

    params = {name: torch.nn.Parameter(torch.tensor(value)) for name, value in start().items()}
    optimizer = resolve_optimizer(CONFIG, params.items(), STEPS)
    scheduler = resolve_lr_scheduler(CONFIG, optimizer, STEPS)
    assert optimizer.plan.paths("muon") == ["encoder", "encoder_v", "decoder", "lm_head"]
    for step in grads:
        optimizer.step(gradients={name: torch.tensor(grad) for name, grad in step.items()})
        scheduler.step()
    return {name: param.detach().numpy() for name, param in params.items()}


def run_jax(grads):
    import optax

    from zeropower.jax import resolve_optimizer

    params = {name: jax.numpy.asarray(value) for name, value in start().items()}
    optimizer = resolve_optimizer(CONFIG, params, STEPS)
    state = optimizer.init(params)

    @jax.jit
    def step(params, state, grads):
        updates, state = optimizer.update(grads, state, params)
        return optax.apply_updates(params, updates), state

    for one in grads:
        params, state = step(params, state, {name: one.get(name) for name in SHAPES})
    return {name: np.asarray(value) for name, value in params.items()}


def test_torch_and_jax_end_at_the_same_parameters():
    grads = gradients()
    found, reference = run_jax(grads), run_torch(grads)
    bounds = gradient_response(run_torch, grads)
    for name, value in reference.items():
        error = tensor_error(found[name], value)
        assert error <= bounds[name], f"{name}: {error:.2e} > {bounds[name]:.2e}"
        assert tensor_error(value, start()[name]) > 0.5, f"{name} has hardly moved"
