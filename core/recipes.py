"""Recipes: everything about an update but its learning rate and weight decay, as values."""

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal, TypeAlias

from zeropower.checks import require_choice, require_count, require_number
from zeropower.coefficients import Coefficients, Triple, headroom, keeps_sign, schedule, table
from zeropower.momentum import MOMENTUM_FORMS, MomentumForm
from zeropower.newton_schulz import METHODS, Method
from zeropower.normalize import EPS_MODES, NORMALIZATIONS, EpsMode, Normalization
from zeropower.restarts import blow_up
from zeropower.scaling import SCALE_RULES, ScaleRule

DtypeName: TypeAlias = Literal["float64", "float32", "float16", "bfloat16"]
ComputeDtype: TypeAlias = DtypeName | Literal["parameter"]
"""A dtype of the iteration, or ``"parameter"``: that of the parameter, or of its momentum where it is kept wider."""
_UNIT_ROUNDOFF: dict[DtypeName, float] = {
    "float64": 2.0**-53,
    "float32": 2.0**-24,
    "float16": 2.0**-11,
    "bfloat16": 2.0**-8,
}


@dataclass(frozen=True, kw_only=True)
class MuonRecipe:
    """How Muon turns a gradient into a direction.

    Attributes
    ----------
    momentum
        Decay of the momentum, in [0, 1).
    momentum_form
        ``"ema"``, ``"heavy_ball"`` or ``"ema_corrected"``.
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
        ``"frobenius"``, ``"schatten4"`` or ``"aol"``.
    eps
        Floor of the norm; ``None`` guards an exact zero alone, and the update does not depend on the gradient's scale.
    eps_mode
        ``"clamp"`` or ``"add"``.
    compute_dtype
        The dtype of the iteration that the recipe asks for: a name, ``"parameter"`` for the parameter's own, or
        ``None``, which leaves it to the device.
    scale
        How the learning rate depends on the shape.

    Raises
    ------
    ValueError
        If a field is out of range, or the coefficients are unsound: they reverse a direction, or a singular value
        that exceeds one by the roundoff of the compute dtype would blow up. If restarts that are given blow up in the
        compute dtype; without one, in bfloat16.
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
    compute_dtype: ComputeDtype | None = None
    scale: ScaleRule = "match_rms_adamw"

    def __post_init__(self) -> None:
        require_number("momentum", self.momentum, low=0.0, high=1.0, high_open=True)
        require_choice("momentum_form", self.momentum_form, MOMENTUM_FORMS)
        require_count("steps", self.steps, least=1)
        require_choice("method", self.method, METHODS)
        require_choice("normalize", self.normalize, NORMALIZATIONS)
        if self.eps is not None:
            require_number("eps", self.eps, low=0.0)
        require_choice("eps_mode", self.eps_mode, EPS_MODES)
        if self.compute_dtype is not None:
            require_choice("compute_dtype", self.compute_dtype, (*_UNIT_ROUNDOFF, "parameter"))
        require_choice("scale", self.scale, SCALE_RULES)
        if self.restarts != "auto" and min(self.restarts, default=0) < 0:
            raise ValueError(f"restarts={self.restarts!r} is not accepted; accepted: 'auto' or 0-based steps")
        if not isinstance(self.coefficients, str):  # a value that compares and hashes, whatever sequence was given
            object.__setattr__(self, "coefficients", table(self.coefficients))
        _require_sound(self.triples, None if self.compute_dtype == "parameter" else self.compute_dtype)
        if self.restarts != "auto" and self.method != "standard":
            # "parameter" is not known yet: float32 is the finest that the iteration is worth a restart in
            dtype = "float32" if self.compute_dtype == "parameter" else self.compute_dtype or "bfloat16"
            _require_restarts(self.triples, tuple(self.restarts), dtype)

    @property
    def triples(self) -> tuple[Triple, ...]:
        """The quintic of each step."""
        return schedule(self.coefficients, self.steps)


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
    if own is None or own == "parameter" or recipe.restarts == "auto" or dtype not in _UNIT_ROUNDOFF:
        return recipe
    return replace(recipe, restarts="auto") if _UNIT_ROUNDOFF[dtype] > _UNIT_ROUNDOFF[own] else recipe


@lru_cache(maxsize=256)
def _require_sound(triples: tuple[Triple, ...], dtype: DtypeName | None) -> None:
    """Refuse coefficients that can reverse a direction or blow up."""
    roundoff = _UNIT_ROUNDOFF[dtype or "bfloat16"]
    reach = headroom(triples)
    if reach < 1.0 + roundoff:
        raise ValueError(
            f"coefficients={triples!r} blow up beyond a singular value of {reach:.4g}; accepted: bounded up to "
            f"{1.0 + roundoff:.4g}, which rounding in {dtype or 'bfloat16'} can reach (divide by a safety factor)"
        )
    if not keeps_sign(triples):
        raise ValueError(f"coefficients={triples!r} turn a singular value in (0, 1] negative; accepted: positive maps")


def _require_restarts(triples: tuple[Triple, ...], restarts: tuple[int, ...], dtype: DtypeName) -> None:
    """Refuse restarts with which the Gram iteration blows up."""
    if blow_up(triples, restarts, dtype):
        raise ValueError(
            f"restarts={restarts!r} blow up in {dtype} with these coefficients and {len(triples)} steps; "
            "accepted: 'auto', or more restarts"
        )


@dataclass(frozen=True, kw_only=True)
class AdamWRecipe:
    """How AdamW turns a gradient into a direction.

    Attributes
    ----------
    beta_1
        Decay of the first moment, in [0, 1).
    beta_2
        Decay of the second moment, in [0, 1).
    eps
        Added to the root of the second moment, at least 0.
    """

    beta_1: float = 0.9
    beta_2: float = 0.95
    eps: float = 1e-8

    def __post_init__(self) -> None:
        require_number("beta_1", self.beta_1, low=0.0, high=1.0, high_open=True)
        require_number("beta_2", self.beta_2, low=0.0, high=1.0, high_open=True)
        require_number("eps", self.eps, low=0.0)
