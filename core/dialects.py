"""Dialects: the whole convention of an implementation as one value."""

from collections.abc import Collection
from dataclasses import dataclass, field
from glob import escape
from typing import Literal, TypeAlias, get_args

from zeropower.checks import require_choice
from zeropower.layout import CONV, HEADS, MERGED_HEADS, MatrixLayout
from zeropower.recipes import AdamWRecipe, MuonRecipe
from zeropower.routing import DEFAULT_RULES, Rule


@dataclass(frozen=True, kw_only=True)
class Dialect:
    """A whole convention as one value.

    Attributes
    ----------
    muon
        The recipe of matrices.
    adamw
        The recipe of all else.
    rules
        Which parameter goes where.
    layout
        The matrix view of what Muon takes, where a rule or the user gives none; ``None`` leaves it to the framework.
    lr
        Default learning rate.
    weight_decay
        Default weight decay.
    adamw_weight_decay
        Default weight decay of what AdamW takes; ``None`` for the same.
    """

    muon: MuonRecipe
    adamw: AdamWRecipe
    rules: tuple[Rule, ...] = field(default=DEFAULT_RULES, repr=False)
    layout: MatrixLayout | None = None
    lr: float
    weight_decay: float
    adamw_weight_decay: float | None = None


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

DIALECTS: dict[str, Dialect] = {
    # ours: scale-invariant, float32 momentum, the dtype that the device multiplies fastest, AdamW's learning rates
    "zeropower": Dialect(muon=MuonRecipe(), adamw=AdamWRecipe(), lr=1e-3, weight_decay=0.1),
    # torch.optim.Muon and torch.optim.AdamW (torch 2.13)
    "torch": Dialect(
        muon=MuonRecipe(eps=1e-7, compute_dtype="bfloat16", scale="original"),
        adamw=AdamWRecipe(beta_2=0.999),
        lr=1e-3,
        weight_decay=0.1,
    ),
    # optax.contrib.muon (optax 0.2.8); its Adam half is Nesterov's unless nesterov=False
    "optax": Dialect(
        muon=MuonRecipe(
            momentum_form="ema_corrected", eps=1e-8, eps_mode="add", compute_dtype="parameter", scale="original"
        ),
        adamw=AdamWRecipe(beta_2=0.999),
        lr=1e-3,
        weight_decay=0.0,
    ),
    # burn_dragon's hybrid on burn 0.21; its configuration decides the learning rate and the decay
    "burn-dragon": Dialect(
        muon=MuonRecipe(momentum_form="heavy_ball", eps=1e-7, compute_dtype="parameter", method="standard"),
        adamw=AdamWRecipe(beta_2=0.999, eps=1e-5),
        rules=burn_dragon_rules(),
        layout=HEADS,
        lr=1e-3,
        weight_decay=0.1,
    ),
    # openvpi/DiffSinger's Muon with Gram Newton-Schulz, and the learning rates of its configuration
    "diffsinger": Dialect(
        muon=MuonRecipe(eps=1e-7, compute_dtype="float16", method="gram", restarts=(2,), scale="rms_one"),
        adamw=AdamWRecipe(beta_2=0.999),
        rules=DIFFSINGER_RULES,
        layout=CONV,
        lr=5e-4,
        weight_decay=0.1,
        adamw_weight_decay=0.0,
    ),
}
"""Conventions in use, by name."""


def get_dialect(dialect: str | Dialect) -> Dialect:
    """Return the dialect of a name, or the dialect itself.

    Parameters
    ----------
    dialect
        A name of :data:`DIALECTS` or a :class:`Dialect`.

    Returns
    -------
    Dialect
        The convention.

    Raises
    ------
    ValueError
        If the name is unknown.
    """
    if isinstance(dialect, Dialect):
        return dialect
    require_choice("dialect", dialect, DIALECTS)
    return DIALECTS[dialect]
