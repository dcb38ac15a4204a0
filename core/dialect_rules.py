"""Routing rules of the dialects whose originals route by themselves."""

from collections.abc import Collection
from glob import escape
from typing import Literal, TypeAlias, get_args

from zeropower.checks import require_choice
from zeropower.layout import CONV, HEADS, MERGED_HEADS
from zeropower.routing import Rule

BURN_DRAGON_TARGETS: tuple[str, ...] = (
    "encoder", "encoder_v", "decoder", "decoder_x", "decoder_y", "lm_head",
    "in_proj", "out_proj", "x_proj", "dt_proj_weight",
)  # fmt: skip
"""What burn_dragon gives to Muon, by the last component of a path."""


TargetMatch: TypeAlias = Literal["last", "component"]
"""Where a target's name is looked for: at the end of a path, or anywhere in it."""


def burn_dragon_rules(
    targets: Collection[str] = BURN_DRAGON_TARGETS, *, split_heads: bool = True, match: TargetMatch = "last"
) -> tuple[Rule, ...]:
    """Return burn_dragon's routing: an exact name at the end of the path, and two or three axes.

    A ``torch.nn.Linear`` called ``lm_head`` has the path ``lm_head.weight``, whose end is ``weight``: burn_dragon,
    whose models hold such matrices themselves, would not give it to Muon. ``match="component"`` does.

    Parameters
    ----------
    targets
        The names.
    split_heads
        Whether the first of three axes is a batch of heads; otherwise it merges with the rows.
    match
        ``"last"``, burn_dragon's: a name is that of the parameter; ``"component"``: or of a module around it.

    Returns
    -------
    tuple of Rule
        They match every parameter.
    """
    require_choice("match", match, get_args(TargetMatch))
    layout = HEADS if split_heads else MERGED_HEADS
    names = tuple(sorted(targets))
    last, component = (names, ()) if match == "last" else ((), tuple(escape(name) for name in names))
    return (
        Rule(optimizer="muon", reason="a target module", component=component, last=last, ndim=(2, 3), layout=layout),
        Rule(optimizer="adamw", reason="not a target module of two or three axes"),
    )


DIFFSINGER_RULES: tuple[Rule, ...] = (
    Rule(optimizer="adamw", reason="no matrix: fewer than two axes", max_ndim=1),
    Rule(optimizer="adamw", reason="no matrix: a single row or column", max_short_side=1),
    Rule(optimizer="adamw", reason="excluded module class", within=("Embedding", "AdamWLinear", "AdamWConv1d")),
    Rule(optimizer="muon", reason="a matrix, or a kernel that flattens to one", layout=CONV),
)
"""DiffSinger's routing: everything with a matrix but what lies within modules of some classes."""

OPTAX_RULES: tuple[Rule, ...] = (
    Rule(optimizer="muon", reason="two axes", ndim=(2,)),
    Rule(optimizer="adamw", reason="not two axes"),
)
"""optax's routing, where no dimension numbers are given: by the number of axes alone, embeddings and heads too."""

KERAS_RULES: tuple[Rule, ...] = (
    Rule(optimizer="adamw", reason="embedding", path=("*[eE][mM][bB][eE][dD][dD][iI][nN][gG]*",)),
    *OPTAX_RULES,
)
"""Keras' routing: two axes, and no "embedding" in the path."""

HEAVYBALL_RULES: tuple[Rule, ...] = (
    Rule(optimizer="adamw", reason="fewer than two axes", max_ndim=1),
    Rule(optimizer="muon", reason="two axes or more", layout=CONV),
)
"""The routing of HeavyBall's MuonAdamW: by the number of axes alone."""

TIMM_RULES: tuple[Rule, ...] = (
    Rule(optimizer="adamw", reason="fewer than two axes", max_ndim=1),
    Rule(optimizer="adamw", reason="a single row or column", max_short_side=1),
    Rule(optimizer="adamw", reason="depthwise, or a leading axis of size 1", unit_axes=(0, 1)),
    Rule(optimizer="adamw", reason="a side below 4", max_flat_side=3),
    Rule(optimizer="adamw", reason="more than 128 times as long as wide", over_aspect=128.0),
    Rule(optimizer="muon", reason="a matrix, or a kernel that flattens to one", layout=CONV),
)
"""timm's routing, where no group says otherwise: by shape alone, embeddings and heads too."""
