"""Whether coefficients, steps, restarts and dtype fit together: a recipe that could blow up is none."""

import math
from functools import lru_cache
from typing import Literal, TypeAlias

from zeropower.coefficients import Triple, headroom, positive_up_to
from zeropower.restarts import blow_up
from zeropower.restarts import restarts as find_restarts

DtypeName: TypeAlias = Literal["float64", "float32", "float16", "bfloat16"]
UNIT_ROUNDOFF: dict[DtypeName, float] = {
    "float64": 2.0**-53,
    "float32": 2.0**-24,
    "float16": 2.0**-11,
    "bfloat16": 2.0**-8,
}


def flaw(
    triples: tuple[Triple, ...], restarts: tuple[int, ...] | None, dtype: DtypeName, restarts_dtype: DtypeName
) -> str | None:
    """Return what is wrong with an iteration and what would do.

    Parameters
    ----------
    triples
        The quintic of each step, of singular values before the safety factor.
    restarts
        The given restarts of the Gram iteration; ``None`` where there are none to judge.
    dtype
        The dtype by whose roundoff singular values of a normalised matrix may exceed one.
    restarts_dtype
        The dtype in which the restarts must suffice.

    Returns
    -------
    str or None
        One line that begins with the name of the field; ``None`` if all is well.
    """
    found = _flaw_of_coefficients(triples, dtype)
    if found is None and restarts is not None and blow_up(triples, restarts, restarts_dtype):
        return (
            f"restarts={restarts!r} blow up in {restarts_dtype} with these coefficients and {len(triples)} steps; "
            f"accepted: 'auto', or more restarts, such as {find_restarts(triples, restarts_dtype)!r}"
        )
    return found


@lru_cache(maxsize=256)
def _flaw_of_coefficients(triples: tuple[Triple, ...], dtype: DtypeName) -> str | None:
    needed, reach = 1.0 + UNIT_ROUNDOFF[dtype], headroom(triples)
    if reach < needed:
        return (
            f"coefficients={triples!r} blow up beyond a singular value of {reach:.4g}; accepted: bounded up to "
            f"{needed:.4g}, which rounding in {dtype} can reach ({_remedy(needed / reach if reach else math.inf)})"
        )
    positive = positive_up_to(triples)
    if positive < 1.0:
        return (
            f"coefficients={triples!r} turn a singular value in (0, 1] negative, from {positive:.4g} on; accepted: "
            f"positive maps ({_remedy(1.0 / positive)})"
        )
    return None


def _remedy(factor: float) -> str:
    if not 1.0 <= factor < 2.0:  # beyond, the safety factor is not what is wrong
        return "no safety factor mends them"
    return f"a safety factor {math.ceil(factor * 1000 + 1) / 1000:.3f} times as large would do"
