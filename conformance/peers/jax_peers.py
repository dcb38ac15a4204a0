"""The peer that is an optax transformation."""

from collections.abc import Sequence
from importlib import import_module
from typing import Any

import numpy as np

from zeropower.conformance.peers.load import quiet
from zeropower.conformance.peers.peer import Arrays


@quiet()
def run_optax(
    params: Arrays, grads: Sequence[Arrays], *, lr: Sequence[float], weight_decay: float
) -> dict[str, np.ndarray]:
    """Run ``optax.contrib.muon`` on the CPU; its axes are named, so that parameters stay ``(out, in)``."""
    import jax
    import jax.numpy as jnp

    optax: Any = import_module("optax")

    wide = any(array.dtype == np.float64 for array in params.values())
    with jax.enable_x64(wide), jax.default_device(jax.devices("cpu")[0]):
        rates = jnp.asarray(lr)

        def rate(count: Any) -> Any:
            return rates[count]

        transformation = optax.contrib.muon(
            learning_rate=rate,
            weight_decay=weight_decay,
            adam_weight_decay=weight_decay,
            muon_weight_dimension_numbers={name: _dimension_numbers(array.ndim) for name, array in params.items()},
        )
        values = {name: jnp.array(array) for name, array in params.items()}
        state = transformation.init(values)
        update = jax.jit(transformation.update)
        for _, gradient in zip(lr, grads, strict=True):
            step = {name: jnp.array(gradient[name]) for name in values}
            updates, state = update(step, state, values)
            values = optax.apply_updates(values, updates)
        return {name: np.array(value) for name, value in values.items()}


def _dimension_numbers(ndim: int) -> Any:
    """Return which axes reduce and which are the output; ``None``, for Adam, of fewer than two axes."""
    from optax.contrib import MuonDimensionNumbers

    if ndim < 2:
        return None
    if ndim == 3:  # a batch of matrices
        return MuonDimensionNumbers(reduction_axis=2, output_axis=1)
    return MuonDimensionNumbers(reduction_axis=tuple(range(1, ndim)), output_axis=0)
