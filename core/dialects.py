"""Dialects: the whole convention of an implementation as one value."""

import warnings
from dataclasses import dataclass, field
from functools import cache
from typing import TypedDict

from zeropower.checks import require_choice, require_number
from zeropower.dialect_rules import (
    DIFFSINGER_RULES,
    HEAVYBALL_RULES,
    KERAS_RULES,
    OPTAX_RULES,
    TIMM_RULES,
    burn_dragon_rules,
)
from zeropower.layout import CONV, HEADS, MatrixLayout
from zeropower.normalize import CastOrder
from zeropower.recipes import AdamWRecipe, MuonRecipe
from zeropower.routing import DEFAULT_RULES, Rule
from zeropower.second_moment import SecondMoment
from zeropower.soundness import DtypeName


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
    adamw_lr
        Default learning rate of what AdamW takes; ``None`` for the same. Where a user gives another ``lr``, the ratio
        of the two is kept.
    adamw_weight_decay
        Default weight decay of what AdamW takes; ``None`` for the same.
    clip_norm
        Default of the greatest norm of a parameter's gradient; ``None`` for any.

    Raises
    ------
    ValueError
        If a rate is negative.
    """

    muon: MuonRecipe
    adamw: AdamWRecipe
    rules: tuple[Rule, ...] = field(default=DEFAULT_RULES, repr=False)
    layout: MatrixLayout | None = None
    lr: float
    weight_decay: float
    adamw_lr: float | None = None
    adamw_weight_decay: float | None = None
    clip_norm: float | None = None

    @property
    def adamw_lr_ratio(self) -> float:
        """By how much the learning rate of AdamW exceeds Muon's."""
        return 1.0 if self.adamw_lr is None or not self.lr else self.adamw_lr / self.lr

    def __post_init__(self) -> None:
        for name in ("lr", "weight_decay", "adamw_lr", "adamw_weight_decay", "clip_norm"):
            if getattr(self, name) is not None:
                require_number(name, getattr(self, name), low=0.0)


class _Bfloat16First(TypedDict):
    compute_dtype: DtypeName
    cast: CastOrder


_BFLOAT16_FIRST: _Bfloat16First = {"compute_dtype": "bfloat16", "cast": "before_norm"}
"""Rounds to bfloat16, then normalises."""

DIALECTS: dict[str, Dialect] = {
    # ours: scale-invariant, float32 momentum, the dtype that the device multiplies fastest, AdamW's learning rates
    "zeropower": Dialect(muon=MuonRecipe(), adamw=AdamWRecipe(), lr=1e-3, weight_decay=0.1),
    # KellerJordan/Muon (857d1ad), SingleDeviceMuonWithAuxAdam
    "keller": Dialect(
        muon=MuonRecipe(**_BFLOAT16_FIRST, eps=1e-7, eps_mode="add", scale="original"),
        adamw=AdamWRecipe(eps=1e-10),
        lr=0.02,
        weight_decay=0.0,
        adamw_lr=3e-4,
    ),
    # torch.optim.Muon and torch.optim.AdamW (torch 2.13)
    "torch": Dialect(
        muon=MuonRecipe(**_BFLOAT16_FIRST, eps=1e-7, scale="original"),
        adamw=AdamWRecipe(beta_2=0.999),
        lr=1e-3,
        weight_decay=0.1,
    ),
    # MoonshotAI/Moonlight (c2ad5b2), examples/toy_train.py; arXiv:2502.16982
    "moonlight": Dialect(
        muon=MuonRecipe(**_BFLOAT16_FIRST, momentum_form="heavy_ball", eps=1e-7, eps_mode="add"),
        adamw=AdamWRecipe(eps_mode="uncorrected"),
        lr=1e-3,
        weight_decay=0.1,
    ),
    # optax.contrib.muon (optax 0.2.8)
    "optax": Dialect(
        muon=MuonRecipe(
            momentum_form="ema_corrected", eps=1e-8, eps_mode="add", compute_dtype="parameter", scale="original"
        ),
        adamw=AdamWRecipe(beta_2=0.999, nesterov=True),
        rules=OPTAX_RULES,
        lr=1e-3,
        weight_decay=0.0,
        adamw_weight_decay=0.0,
    ),
    # keras.optimizers.Muon (Keras 3.15)
    "keras": Dialect(
        muon=MuonRecipe(momentum_form="heavy_ball", eps=1e-7, eps_mode="add", compute_dtype="parameter"),
        adamw=AdamWRecipe(beta_2=0.999, eps=1e-7, eps_mode="uncorrected"),
        rules=KERAS_RULES,
        lr=1e-3,
        weight_decay=0.004,
    ),
    # timm.optim.Muon (timm 1.0.31)
    "timm": Dialect(
        muon=MuonRecipe(**_BFLOAT16_FIRST, nesterov=False, coefficients="you", eps=1e-7),
        adamw=AdamWRecipe(eps=1e-7),
        rules=TIMM_RULES,
        layout=CONV,
        lr=0.02,
        weight_decay=0.0,
    ),
    # the same with algo="adamuon"; arXiv:2507.11005
    "timm-adamuon": Dialect(
        muon=MuonRecipe(
            **_BFLOAT16_FIRST,
            nesterov=False,
            coefficients="you",
            eps=1e-7,
            second_moment=SecondMoment(per="element", eps=1e-7, rescale="orthogonal"),
        ),
        adamw=AdamWRecipe(eps=1e-7),
        rules=TIMM_RULES,
        layout=CONV,
        lr=0.02,
        weight_decay=0.0,
    ),
    # microsoft/dion (0a059a4), dion.Muon
    "dion": Dialect(
        muon=MuonRecipe(
            **_BFLOAT16_FIRST,
            momentum_form="heavy_ball",
            nesterov=False,
            coefficients="polar_express_jordan",
            eps=1e-8,
            eps_mode="add",
            safety=1.02,
            scale="spectral_unclamped",
        ),
        adamw=AdamWRecipe(),
        lr=0.01,
        weight_decay=0.01,
    ),
    # zichongli5/NorMuon (d45c9a4), SingleDeviceNorMuonWithAuxAdam; arXiv:2510.05491
    "normuon": Dialect(
        muon=MuonRecipe(
            **_BFLOAT16_FIRST,
            eps=1e-7,
            eps_mode="add",
            second_moment=SecondMoment(eps=1e-10),
            scale="original",
        ),
        adamw=AdamWRecipe(eps=1e-10),
        lr=0.02,
        weight_decay=0.0,
        adamw_lr=3e-4,
    ),
    # KellerJordan/modded-nanogpt (f411b3d), NorMuonAndAdam; its momentum follows MODDED_NANOGPT_MOMENTUM
    "modded-nanogpt": Dialect(
        muon=MuonRecipe(
            **_BFLOAT16_FIRST,
            coefficients="polar_express_jordan",
            eps=1e-6,
            eps_mode="add",
            safety=1.02,
            second_moment=SecondMoment(per="longer_side", beta=0.9, eps=1e-10, eps_mode="clamp"),
            scale="original",
            decay_rate="lr_times_scaled_lr",
            decay_mask="aligned",
        ),
        adamw=AdamWRecipe(eps=1e-10, eps_mode="uncorrected", decay_rate="lr_squared", decay_mask="strictly_aligned"),
        lr=0.023,
        weight_decay=1.2,
        adamw_lr=0.008,
        adamw_weight_decay=0.005,
    ),
    # Dao-AILab/gram-newton-schulz 0.1.6, Muon
    "gram": Dialect(
        muon=MuonRecipe(
            momentum_form="heavy_ball",
            coefficients="polar_express_dao",
            method="gram",
            restarts=(2,),
            eps=1e-7,
            eps_mode="add",
            compute_dtype="float16",
        ),
        adamw=AdamWRecipe(beta_2=0.999),
        lr=1e-3,
        weight_decay=0.1,
    ),
    # NVIDIA-NeMo/Emerging-Optimizers (fd77292), Muon
    "emerging": Dialect(
        muon=MuonRecipe(nesterov=False, coefficients="you", eps=1e-15, compute_dtype="bfloat16", scale="rms_one"),
        adamw=AdamWRecipe(),
        lr=3e-4,
        weight_decay=0.01,
    ),
    # the same project's AdaptiveMuon, moment2_method="normuon" and "adamuon"; lr and decay have no defaults there
    "emerging-normuon": Dialect(
        muon=MuonRecipe(
            nesterov=False,
            coefficients="you",
            eps=1e-15,
            compute_dtype="bfloat16",
            second_moment=SecondMoment(per="longer_side", eps_mode="clamp"),
            scale="rms_one",
        ),
        adamw=AdamWRecipe(),
        lr=3e-4,
        weight_decay=0.01,
    ),
    "emerging-adamuon": Dialect(
        muon=MuonRecipe(
            nesterov=False,
            coefficients="you",
            eps=1e-15,
            compute_dtype="bfloat16",
            second_moment=SecondMoment(per="element", rescale="none"),
            scale="rms_one",
        ),
        adamw=AdamWRecipe(),
        lr=3e-4,
        weight_decay=0.01,
    ),
    # the same as Megatron-LM calls it
    "megatron": Dialect(
        muon=MuonRecipe(coefficients="you", eps=1e-15, compute_dtype="bfloat16", scale="rms_one"),
        adamw=AdamWRecipe(),
        lr=3e-4,
        weight_decay=0.01,
    ),
    # HeavyBall 3.2.1, Muon and MuonAdamW
    "heavyball": Dialect(
        muon=MuonRecipe(
            momentum=0.9,
            momentum_form="ema_added",
            coefficients="you",
            eps=1e-7,
            compute_dtype="bfloat16",
            scale="original",
        ),
        adamw=AdamWRecipe(beta_2=0.99, eps_mode="clamp"),
        rules=HEAVYBALL_RULES,
        layout=CONV,
        lr=2.5e-3,
        weight_decay=0.0,
    ),
    # optimuon 0.1.1; one restart after three steps is too few: of nearly rank-one matrices about one in fifty blows up
    "optimuon": Dialect(
        muon=MuonRecipe(
            coefficients="polar_express_jordan",
            method="gram",
            restarts=(3,),
            unsound=True,
            eps=1e-6,
            eps_mode="add",
            safety=1.02,
            cast="before_norm",
            compute_dtype="float16",
            second_moment=SecondMoment(per="longer_side", eps=1e-10, eps_mode="clamp"),
            scale="original",
            decay_mask="aligned",
        ),
        adamw=AdamWRecipe(beta_2=0.999),
        layout=CONV,
        lr=0.02,
        weight_decay=0.0,
    ),
    # pytorch_optimizer.Muon 4.1.0
    "pytorch-optimizer": Dialect(
        muon=MuonRecipe(**_BFLOAT16_FIRST, eps=1e-7, scale="original"),
        adamw=AdamWRecipe(eps=1e-10),
        layout=CONV,
        lr=0.02,
        weight_decay=0.0,
        adamw_lr=3e-4,
    ),
    # tracel-ai/burn (050c750), Muon without dampening, and its AdamW
    "burn": Dialect(
        muon=MuonRecipe(
            momentum_form="heavy_ball",
            eps=1e-7,
            compute_dtype="parameter",
            method="standard",
            scale="original",
        ),
        adamw=AdamWRecipe(beta_2=0.999, eps=1e-5),
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

    Warns
    -----
    UserWarning
        Once, if its recipe is ``unsound``, as the original is; the message is that of the refusal.
    """
    if not isinstance(dialect, Dialect):
        require_choice("dialect", dialect, DIALECTS)
        dialect = DIALECTS[dialect]
    if dialect.muon.unsound:
        _warn_of(dialect.muon)
    return dialect


@cache
def _warn_of(recipe: MuonRecipe) -> None:
    if found := recipe.flaw():
        warnings.warn(f"the dialect reproduces an unsound recipe: {found}", UserWarning, stacklevel=3)
