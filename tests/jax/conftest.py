"""Two runs to compare: an optimizer of the adapter, and the core's steps on numpy arrays, one parameter at a time."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest


def _train(optimizer, params, grads):
    values = {path: jnp.asarray(leaf) for path, leaf in params.items()}
    state, update, history = optimizer.init(values), jax.jit(optimizer.update), []
    for step in grads:
        given = {path: None if grad is None else jnp.asarray(grad) for path, grad in step.items()}
        updates, state = update(given, state, values)
        values = optax.apply_updates(values, updates)
        history.append({path: np.asarray(leaf) for path, leaf in values.items()})
    return history, state


def _core_run(params, grads, step_of):
    params, states, counts = dict(params), dict.fromkeys(params), dict.fromkeys(params, 0)
    history = []
    for call, step in enumerate(grads, start=1):
        for path, grad in step.items():
            if grad is not None:
                counts[path] += 1
                params[path], states[path] = step_of(path, params[path], grad, states[path], counts[path], call)
        history.append(dict(params))
    return history


def _assert_same_run(found, expected, rtol=1e-12):
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        assert one.keys() == other.keys()
        for path in other:
            assert one[path].dtype == other[path].dtype
            assert np.linalg.norm(one[path] - other[path]) <= rtol * np.linalg.norm(other[path]), path


@pytest.fixture
def train():
    """From an optimizer, numpy parameters and numpy gradients of each step to the parameters after each, and state."""
    return _train


@pytest.fixture
def core_run():
    """The same history from `step_of(path, param, grad, state, updates of this parameter, calls)` of the core."""
    return _core_run


@pytest.fixture
def assert_same_run():
    """Two histories agree, by the norm of each parameter."""
    return _assert_same_run


@pytest.fixture
def x64():
    """Parameters in float64: what differs from the core then is an error, not a rounding."""
    with jax.enable_x64(True):
        yield
