"""Weight decay: the two-stage schedule of BitNet training and the decoupled application."""

import math
from typing import Any

from zeropower.checks import require_count, require_number
from zeropower.kernels import Array
from zeropower.progress import steps_done


def weight_decay_for_step(
    initial: float,
    final: float,
    second_stage_start: float,
    total_steps: int,
    step: int | Array,
    *,
    xp: Any = None,
) -> float | Array:
    """Return the weight decay of a step: constant, then linear to its final value.

    With ``last = total_steps - 1`` and ``stage = round(last * second_stage_start)``, half away from zero, the step
    of index ``i = clamp(step - 1, 0, last)`` has ``initial`` for ``i <= stage`` and
    ``initial + (final - initial) (i - stage) / (last - stage)`` after. (burn_dragon's BitNet AdamW, after "BitNet
    b1.58" training, where the second stage drops the decay.)

    Parameters
    ----------
    initial
        Decay of the first stage, finite.
    final
        Decay of the last step, finite; above ``initial`` it grows.
    second_stage_start
        Where the second stage starts as a share of the run, clamped to [0, 1].
    total_steps
        Steps of the run, at least 0; with 0 or 1 the decay is ``initial``.
    step
        1-based step, an int or a 0-d integer array; 0 counts as 1, and steps beyond the run as the last.
    xp
        The namespace of ``step``; looked up where it is not given. Give it inside ``torch.compile``.

    Returns
    -------
    float or array
        A Python float for an int, else a 0-d array in float64, or float32 where the namespace lacks float64.

    Raises
    ------
    ValueError
        If ``initial``, ``final`` or ``second_stage_start`` is not finite or ``total_steps`` is negative.
    TypeError
        If ``total_steps`` or ``step`` is not an integer.

    Examples
    --------
    >>> [round(weight_decay_for_step(0.1, 0.0, 0.5, 10, step), 3) for step in (1, 6, 7, 10)]
    [0.1, 0.1, 0.075, 0.0]
    """
    require_number("initial", initial)
    require_number("final", final)
    require_number("second_stage_start", second_stage_start)
    require_count("total_steps", total_steps, least=0)
    last = max(total_steps, 1) - 1
    stage = math.floor(last * min(max(second_stage_start, 0.0), 1.0) + 0.5)
    done, arithmetic = steps_done(step, xp)
    return initial + (final - initial) * arithmetic.share(done, stage, last - stage)


def decoupled(param: Array, rate: float | Array) -> Array:
    """Return ``param * (1 - rate)`` (Loshchilov and Hutter, arXiv:1711.05101).

    Parameters
    ----------
    param
        The parameter, any shape.
    rate
        Learning rate times weight decay.

    Returns
    -------
    array
        Like ``param``.
    """
    return param * (1.0 - rate)
