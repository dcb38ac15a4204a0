"""Recipes: everything about an update but its learning rate and weight decay, as values."""

from dataclasses import dataclass, fields, replace
from typing import Literal, TypeAlias

from zeropower.checks import require_choice, require_count, require_number
from zeropower.coefficients import Coefficients, Triple, after_division, schedule, table
from zeropower.decay import Decay
from zeropower.moments import ADAM_EPS_MODES, AdamEpsMode
from zeropower.momentum import MOMENTUM_FORMS, MomentumForm
from zeropower.newton_schulz import METHODS, Method
from zeropower.normalize import CAST_ORDERS, EPS_MODES, NORMALIZATIONS, CastOrder, EpsMode, Normalization
from zeropower.scaling import SCALE_RULES, ScaleRule, lr_scale
from zeropower.second_moment import SecondMoment
from zeropower.soundness import UNIT_ROUNDOFF, DtypeName, flaw

ComputeDtype: TypeAlias = DtypeName | Literal["parameter"]
"""A dtype of the iteration, or ``"parameter"``: that of the parameter, or of its momentum where it is kept wider."""


@dataclass(frozen=True, kw_only=True)
class MuonRecipe(Decay):
    """How Muon turns a gradient into a direction, and how the parameter decays.

    Attributes
    ----------
    momentum
        Decay of the momentum, in [0, 1); the step's own where a schedule changes it.
    momentum_form
        ``"ema"``, ``"heavy_ball"``, ``"ema_corrected"`` or ``"ema_added"``: :func:`zeropower.momentum.momentum_update`.
    nesterov
        Whether the direction looks one update ahead.
    coefficients
        A table's name, a triple, or triples.
    steps
        Steps of the iteration, at least 1.
    method
        ``"auto"``, ``"standard"`` or ``"gram"``.
    restarts
        Restarts of the Gram iteration, or ``"auto"``.
    normalize
        ``"frobenius"``, ``"schatten4"``, ``"spectral_bound"`` or ``"aol"``.
    eps
        Floor of the norm; ``None`` guards an exact zero alone, and the update does not depend on the gradient's scale.
    eps_mode
        ``"clamp"`` or ``"add"``.
    safety
        What the norm is multiplied by, at least 1.
    cast
        ``"after_norm"`` or ``"before_norm"``: when what is iterated is rounded to the compute dtype.
    compute_dtype
        The dtype of the iteration that the recipe asks for: a name, ``"parameter"`` for the parameter's own, or
        ``None``, which leaves it to the device.
    second_moment
        What follows the iteration: :class:`zeropower.SecondMoment` (NorMuon, AdaMuon), or ``None``.
    scale
        How the learning rate depends on the shape: :func:`zeropower.lr_scale`.
    scale_factor
        A further factor on the learning rate, above 0.
    decay, decay_rate, decay_mask
        As in :class:`zeropower.Decay`.
    unsound
        Accepts what would be refused; a dialect that reproduces another implementation has it, and warns.

    Raises
    ------
    ValueError
        If a field is out of range, or the fields do not fit together: coefficients that reverse a direction, or with
        which a singular value that exceeds one by the roundoff of the compute dtype would blow up (without a dtype,
        bfloat16), or restarts that blow up in it. The message says what would do.
    """

    momentum: float = 0.95
    momentum_form: MomentumForm = "ema"
    nesterov: bool = True
    coefficients: Coefficients = "keller"
    steps: int = 5
    method: Method = "auto"
    restarts: Literal["auto"] | tuple[int, ...] = "auto"
    normalize: Normalization = "frobenius"
    eps: float | None = None
    eps_mode: EpsMode = "clamp"
    safety: float = 1.0
    cast: CastOrder = "after_norm"
    compute_dtype: ComputeDtype | None = None
    second_moment: SecondMoment | None = None
    scale: ScaleRule = "match_rms_adamw"
    scale_factor: float = 1.0
    unsound: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        require_number("momentum", self.momentum, low=0.0, high=1.0, high_open=True)
        require_choice("momentum_form", self.momentum_form, MOMENTUM_FORMS)
        require_count("steps", self.steps, least=1)
        require_choice("method", self.method, METHODS)
        require_choice("normalize", self.normalize, NORMALIZATIONS)
        if self.eps is not None:
            require_number("eps", self.eps, low=0.0)
        require_choice("eps_mode", self.eps_mode, EPS_MODES)
        require_number("safety", self.safety, low=1.0)
        require_choice("cast", self.cast, CAST_ORDERS)
        if self.compute_dtype is not None:
            require_choice("compute_dtype", self.compute_dtype, (*UNIT_ROUNDOFF, "parameter"))
        require_choice("scale", self.scale, SCALE_RULES)
        require_number("scale_factor", self.scale_factor, low=0.0, low_open=True)
        if self.restarts != "auto" and min(self.restarts, default=0) < 0:
            raise ValueError(f"restarts={self.restarts!r} is not accepted; accepted: 'auto' or 0-based steps")
        if not isinstance(self.coefficients, str):  # a value that compares and hashes, whatever sequence was given
            object.__setattr__(self, "coefficients", table(self.coefficients))
        if not self.unsound and (found := self.flaw()):
            raise ValueError(found)

    @property
    def triples(self) -> tuple[Triple, ...]:
        """The quintic of each step."""
        return schedule(self.coefficients, self.steps)

    @property
    def counts_steps(self) -> bool:
        """Whether a direction depends on how many updates a parameter has seen."""
        return self.momentum_form == "ema_corrected" or (
            self.second_moment is not None and self.second_moment.bias_correction
        )

    def lr_scale(self, fan_out: int, fan_in: int) -> float:
        """Return the factor on the learning rate of a matrix."""
        return self.scale_factor * lr_scale(self.scale, fan_out, fan_in)

    def flaw(self) -> str | None:
        """Return what makes the fields unsound together, and what would do; ``None`` for a sound recipe."""
        restarts = None if self.restarts == "auto" or self.method == "standard" else tuple(self.restarts)
        dtype = None if self.compute_dtype == "parameter" else self.compute_dtype
        # "parameter" is not known yet: float32 is the finest that the iteration is worth a restart in
        of_restarts: DtypeName = "float32" if self.compute_dtype == "parameter" else self.compute_dtype or "bfloat16"
        return flaw(after_division(self.triples, self.safety), restarts, dtype or "bfloat16", of_restarts)


def names_of_fields(recipe: type[MuonRecipe] | type["AdamWRecipe"]) -> tuple[str, ...]:
    """Return the names of a recipe's fields, its own before those of the decay."""
    inherited = {field.name for field in fields(Decay)}
    return tuple(sorted((field.name for field in fields(recipe)), key=lambda name: name in inherited))


def computed_in(recipe: MuonRecipe, dtype: str) -> MuonRecipe:
    """Return what a recipe does where the device substitutes another compute dtype.

    Parameters
    ----------
    recipe
        The recipe. Restarts that it names were chosen for its own compute dtype.
    dtype
        The name of the dtype that it is computed in.

    Returns
    -------
    MuonRecipe
        The same, but with restarts found anew where the dtype is coarser than the recipe's.
    """
    own = recipe.compute_dtype
    if own is None or own == "parameter" or recipe.restarts == "auto" or dtype not in UNIT_ROUNDOFF:
        return recipe
    return replace(recipe, restarts="auto") if UNIT_ROUNDOFF[dtype] > UNIT_ROUNDOFF[own] else recipe


@dataclass(frozen=True, kw_only=True)
class AdamWRecipe(Decay):
    """How AdamW turns a gradient into a direction, and how the parameter decays.

    Attributes
    ----------
    beta_1
        Decay of the first moment, in [0, 1).
    beta_2
        Decay of the second moment, in [0, 1).
    eps
        Added to the root of the second moment, at least 0.
    eps_mode
        ``"corrected"``: to the root of the corrected moment; ``"uncorrected"``: before the correction; ``"clamp"``: not
        added, but the root's least value.
    eps_root
        Added below the root, at least 0.
    bias_correction
        Whether both moments are corrected for their start from zero.
    nesterov
        Whether the first moment looks one update ahead (NAdam).
    decay, decay_rate, decay_mask
        As in :class:`zeropower.Decay`; the scale of a shape is one.

    Raises
    ------
    ValueError
        If a field is out of range.
    """

    beta_1: float = 0.9
    beta_2: float = 0.95
    eps: float = 1e-8
    eps_mode: AdamEpsMode = "corrected"
    eps_root: float = 0.0
    bias_correction: bool = True
    nesterov: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        require_number("beta_1", self.beta_1, low=0.0, high=1.0, high_open=True)
        require_number("beta_2", self.beta_2, low=0.0, high=1.0, high_open=True)
        require_number("eps", self.eps, low=0.0)
        require_choice("eps_mode", self.eps_mode, ADAM_EPS_MODES)
        require_number("eps_root", self.eps_root, low=0.0)
