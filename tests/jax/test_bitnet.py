"""AdamW with the two-stage weight decay of BitNet training, against its reference numbers."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from zeropower.jax import bitnet_adamw


def run(optimizer, params, grads):
    """Parameters after each step, from gradients stacked along the first axis."""

    def step(carry, grads):
        params, state = carry
        updates, state = optimizer.update(grads, state, params)
        return (optax.apply_updates(params, updates), state), updates

    return jax.jit(lambda: jax.lax.scan(step, (params, optimizer.init(params)), grads))()


def test_three_steps_are_those_of_the_original():
    """Float64 figures of burn_dragon's BitNet AdamW: lr 0.1, decay 0.1 to 0 over three steps."""
    optimizer = bitnet_adamw(0.1, 0.9, 0.95, 1e-8, 0.1, total_steps=3)
    grads = jnp.asarray([[0.5, -0.25], [-0.25, 0.1], [0.1, 0.1]])
    params, state, expected = jnp.asarray([1.0, -2.0]), None, []
    for grad in grads:
        state = optimizer.init(params) if state is None else state
        updates, state = optimizer.update(grad, state, params)
        params = optax.apply_updates(params, updates)
        expected.append(np.asarray(params))
    np.testing.assert_allclose(
        expected,
        [
            [0.8900000019999998, -1.8800000039999998],
            [0.8542630578558273, -1.8263203476719791],
            [0.8221345507814899, -1.8234927686312803],
        ],
        rtol=4 * 2.0**-23,
    )


@pytest.mark.parametrize(
    ("initial", "final", "start", "total", "expected"),
    [
        (0.1, 0.0, 0.5, 10, [0.1] * 6 + [0.075, 0.05, 0.025, 0, 0, 0]),
        (0.1, 0.01, 0.25, 11, [0.1] * 4 + [0.1 - 0.09 * i / 7 for i in range(1, 8)] + [0.01]),
        (0.1, 0.2, 0.0, 3, [0.1, 0.15, 0.2, 0.2]),
        (0.1, 0.0, 0.5, 1, [0.1, 0.1]),
    ],
)
def test_the_decay_follows_the_count_of_updates(initial, final, start, total, expected):
    optimizer = bitnet_adamw(
        1.0, weight_decay=initial, weight_decay_final=final, second_stage_start=start, total_steps=total
    )

    def step(state, _):
        updates, state = optimizer.update(jnp.zeros(1), state, jnp.ones(1))  # no gradient: the update is the decay
        return state, -updates[0]

    _, decays = jax.jit(lambda: jax.lax.scan(step, optimizer.init(jnp.ones(1)), length=len(expected)))()
    np.testing.assert_allclose(decays, expected, rtol=1e-6, atol=1e-8)


def test_a_mask_says_where_to_decay():
    params = {"w": jnp.ones((2, 2)), "b": jnp.ones(2)}
    optimizer = bitnet_adamw(0.1, total_steps=10, mask=lambda tree: jax.tree.map(lambda p: p.ndim > 1, tree))
    updates, _ = optimizer.update(jax.tree.map(jnp.zeros_like, params), optimizer.init(params), params)
    np.testing.assert_allclose(updates["w"], -0.01, rtol=1e-6)
    np.testing.assert_array_equal(updates["b"], 0)


def test_with_a_constant_decay_it_is_adamw():
    params, grads = (
        jnp.asarray(np.random.default_rng(i).standard_normal(s), jnp.float32) for i, s in enumerate([5, (4, 5)])
    )
    ours = bitnet_adamw(0.1, weight_decay=0.2, weight_decay_final=0.2, total_steps=4, b1=0.8, b2=0.9, eps=1e-3)
    theirs = optax.adamw(0.1, weight_decay=0.2, b1=0.8, b2=0.9, eps=1e-3)
    for found, expected in zip(*(jax.tree.leaves(run(o, params, grads)[0][0]) for o in (ours, theirs)), strict=True):
        np.testing.assert_allclose(found, expected, rtol=16 * 2.0**-23)


def test_the_state_counts_beyond_the_run_without_overflow():
    optimizer = bitnet_adamw(1.0, total_steps=10)
    state = optimizer.init(jnp.ones(1))
    last = jnp.iinfo(jnp.int32).max
    state = jax.tree.map(lambda leaf: jnp.full_like(leaf, last) if leaf.dtype == jnp.int32 else leaf, state)
    updates, state = optimizer.update(jnp.zeros(1), state, jnp.ones(1))
    assert float(updates[0]) == 0
    assert all((leaf == last).all() for leaf in jax.tree.leaves(state) if leaf.dtype == jnp.int32)
