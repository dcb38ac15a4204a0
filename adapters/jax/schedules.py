"""Learning-rate schedules of the core as optax schedules."""

from typing import Any, cast

import jax
import jax.numpy as jnp
import optax

from zeropower.schedules import LrSchedule


def optax_schedule(schedule: LrSchedule) -> optax.Schedule:
    """Return a schedule as optax calls it: with the count of updates so far.

    Parameters
    ----------
    schedule
        A schedule of :mod:`zeropower.schedules`.

    Returns
    -------
    optax.Schedule
        ``count`` (an integer, a number or a 0-d array, possibly traced) to ``schedule(count + 1)``, the learning rate
        of the update that comes, as a 0-d float32 array.

    Examples
    --------
    >>> from zeropower.jax.schedules import optax_schedule
    >>> from zeropower.schedules import Linear
    >>> schedule = optax_schedule(Linear(initial_lr=0.5, final_lr=0.1, num_steps=4))
    >>> [round(float(schedule(count)), 6) for count in range(6)]
    [0.5, 0.4, 0.3, 0.2, 0.1, 0.1]
    """

    def of_count(count: Any) -> jax.Array:
        step = optax.safe_increment(jnp.asarray(count))  # the greatest count stays, it does not turn negative
        return cast("jax.Array", schedule(step, xp=jnp)).astype(jnp.float32)

    return of_count
