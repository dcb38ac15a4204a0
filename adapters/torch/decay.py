"""Weight decay as options of a parameter group: constant, or in two stages along a clock."""

from collections.abc import Callable, Mapping
from typing import Any, Final, cast

from zeropower import weight_decay_for_step
from zeropower.checks import require_choice, require_count

from .options import read_number

CLOCKS: Final = ("global", "parameter")
"""What counts the steps of a run: the calls of ``step``, or the updates that each parameter has seen."""

STEPS_PASSED: Final = "steps_passed"
"""The option that holds the global clock; it is saved, and advances with every step."""

CONSTANT: Final[Mapping[str, Any]] = {
    "weight_decay_final": None,
    "second_stage_start": 0.5,
    "total_steps": None,
    "clock": "global",
}
"""The options besides ``weight_decay``, with the values that mean a constant decay."""


def is_scheduled(group: Mapping[str, Any]) -> bool:
    """Tell whether the decay of a group changes along the run."""
    return group.get("weight_decay_final") is not None


def needs_count(group: Mapping[str, Any]) -> bool:
    """Tell whether the decay of a group needs the updates of each parameter counted."""
    return is_scheduled(group) and group["clock"] == "parameter"


def read_decay(group: Mapping[str, Any]) -> Callable[[int], float]:
    """Return the weight decay of a group, checked.

    Parameters
    ----------
    group
        The group; without ``weight_decay_final`` its decay is constant.

    Returns
    -------
    callable
        From the 1-based count of a parameter's update to the decay of this step; the global clock ignores it.

    Raises
    ------
    ValueError
        If an option is out of range.
    TypeError
        If an option has the wrong type.
    """
    initial = read_number("weight_decay", group["weight_decay"])
    if not is_scheduled(group):
        return lambda step: initial
    final = read_number("weight_decay_final", group["weight_decay_final"])
    start = read_number("second_stage_start", group["second_stage_start"])
    total_steps, clock, passed = group["total_steps"], group["clock"], group.get(STEPS_PASSED, 0)
    require_count("total_steps", total_steps, least=1)
    require_choice("clock", clock, CLOCKS)

    def decay(step: int) -> float:
        now = passed + 1 if clock == "global" else step
        return cast("float", weight_decay_for_step(initial, final, start, total_steps, now))

    return decay
