"""How the learning rate depends on the shape of a matrix.

With ``fan_out`` rows and ``fan_in`` columns of ``y = W x``; a rule is named by what it keeps constant. Other
projects' names for the same formulas are in the table of :data:`SCALE_RULES`.
"""

import math
from collections.abc import Callable
from typing import Literal, TypeAlias

from zeropower.checks import require_choice

ScaleRule: TypeAlias = Literal["original", "match_rms_adamw", "rms_one", "spectral_unclamped", "rsqrt_in", "none"]

SCALE_RULES: dict[ScaleRule, Callable[[int, int], float]] = {
    # Keller Jordan's Muon; torch.optim.Muon "original"; Emerging-Optimizers "shape_scaling"
    "original": lambda fan_out, fan_in: math.sqrt(max(1.0, fan_out / fan_in)),
    # Moonlight (arXiv:2502.16982): the root mean square of AdamW's updates, 0.2; Dion "rms_norm"
    "match_rms_adamw": lambda fan_out, fan_in: 0.2 * math.sqrt(max(fan_out, fan_in)),
    # root mean square one: openvpi/DiffSinger; Emerging-Optimizers and Megatron "spectral"
    "rms_one": lambda fan_out, fan_in: math.sqrt(max(fan_out, fan_in)),
    # Bernstein, "Deriving Muon": unit change of RMS norm; Dion "spectral_norm", Emerging-Optimizers "unit_rms_norm"
    "spectral_unclamped": lambda fan_out, fan_in: math.sqrt(fan_out / fan_in),
    # timm's AdaMuon "rsqrt_in"
    "rsqrt_in": lambda fan_out, fan_in: fan_in**-0.5,
    "none": lambda fan_out, fan_in: 1.0,
}


def lr_scale(rule: ScaleRule, fan_out: int, fan_in: int) -> float:
    """Return the factor on the learning rate of an orthogonalised update.

    Parameters
    ----------
    rule
        ``"original"``: ``sqrt(max(1, fan_out / fan_in))``; ``"match_rms_adamw"``: ``0.2 sqrt(max(fan_out, fan_in))``;
        ``"rms_one"``: ``sqrt(max(fan_out, fan_in))``;
        ``"spectral_unclamped"``: ``sqrt(fan_out / fan_in)``; ``"rsqrt_in"``: ``1 / sqrt(fan_in)``; ``"none"``: 1.
    fan_out
        Size of the output side.
    fan_in
        Size of the input side.

    Returns
    -------
    float
        1.0 for matrices with an empty side.

    Raises
    ------
    ValueError
        If the rule is unknown.

    Examples
    --------
    >>> lr_scale("original", fan_out=4096, fan_in=1024), lr_scale("match_rms_adamw", fan_out=4096, fan_in=1024)
    (2.0, 12.8)
    """
    require_choice("scale", rule, SCALE_RULES)
    return SCALE_RULES[rule](fan_out, fan_in) if fan_out and fan_in else 1.0
