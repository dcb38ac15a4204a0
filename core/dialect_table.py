"""Dialects in words: one row each, for people."""

from collections.abc import Iterable, Mapping, Sequence

from zeropower.decay import Decay
from zeropower.dialects import DIALECTS, Dialect
from zeropower.recipes import AdamWRecipe, MuonRecipe

COLUMNS: tuple[str, ...] = (
    "dialect",
    "momentum",
    "iteration",
    "norm",
    "computed in",
    "second moment",
    "scale",
    "decay",
    "AdamW",
    "lr",
    "weight decay",
)
"""What the columns of a row say."""

_FORMS = {
    "ema": "EMA",
    "heavy_ball": "heavy ball",
    "ema_corrected": "EMA, bias-corrected",
    "ema_added": "EMA added to the gradient",
}
_RATES = {
    "lr": "lr",
    "scaled_lr": "lr scale",
    "lr_squared": "lr²",
    "lr_times_scaled_lr": "lr² scale",
    "independent": "1",
}
_MASKS = {"none": "", "aligned": ", p d >= 0", "strictly_aligned": ", p d > 0", "same_sign_bit": ", same sign bit"}


def rows(dialects: Mapping[str, Dialect] = DIALECTS) -> list[tuple[str, ...]]:
    """Return one row for each dialect, a cell for each of :data:`COLUMNS`."""
    return [_row(name, dialect) for name, dialect in dialects.items()]


def as_markdown(header: Sequence[str], body: Iterable[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    lines = [header, ["---"] * len(header), *body]
    return "\n".join(f"| {' | '.join(cell or '–' for cell in line)} |" for line in lines)


def _row(name: str, dialect: Dialect) -> tuple[str, ...]:
    muon = dialect.muon
    return (
        name,
        f"{_FORMS[muon.momentum_form]} {muon.momentum:g}{_look_ahead(muon)}",
        _iteration(muon),
        _norm(muon),
        _computed_in(muon),
        _second_moment(muon),
        muon.scale if muon.scale_factor == 1.0 else f"{muon.scale_factor:g} {muon.scale}",
        _decay(muon),
        _adamw(dialect.adamw),
        _rates(dialect.lr, dialect.adamw_lr),
        _rates(dialect.weight_decay, dialect.adamw_weight_decay),
    )


def _look_ahead(muon: MuonRecipe) -> str:
    return "" if muon.momentum_form == "ema_added" or not muon.nesterov else ", Nesterov"


def _iteration(muon: MuonRecipe) -> str:
    table = muon.coefficients if isinstance(muon.coefficients, str) else "custom"
    how = {"auto": "", "standard": ", standard", "gram": ", Gram"}[muon.method]
    if muon.method == "gram" and muon.restarts != "auto":
        how += f" restarted at {', '.join(map(str, muon.restarts))}"
    return f"{table} x {muon.steps}{how}"


def _norm(muon: MuonRecipe) -> str:
    norm = muon.normalize if muon.safety == 1.0 else f"{muon.safety:g} {muon.normalize}"
    if muon.eps is None:
        return norm
    return f"{norm} + {muon.eps:g}" if muon.eps_mode == "add" else f"max({norm}, {muon.eps:g})"


def _computed_in(muon: MuonRecipe) -> str:
    dtype = {None: "what the device multiplies fastest", "parameter": "the parameter's dtype"}.get(
        muon.compute_dtype, str(muon.compute_dtype)
    )
    return dtype if muon.cast == "after_norm" else f"{dtype}, norm too"


def _second_moment(muon: MuonRecipe) -> str:
    second = muon.second_moment
    if second is None:
        return ""
    eps = f"sqrt(v) + {second.eps:g}" if second.eps_mode == "add" else f"sqrt(max(v, {second.eps:g}))"
    rescaled = {"none": "", "norm": ", norm kept", "orthogonal": ", norm of an orthogonal matrix"}[second.rescale]
    corrected = ", corrected" if second.bias_correction else ""
    return f"per {second.per.replace('_', ' ')}, {second.beta:g}, {eps}{corrected}{rescaled}"


def _decay(rule: Decay) -> str:
    if rule.decay in {"none", "gradient"}:
        return {"none": "none", "gradient": "in the gradient"}[rule.decay]
    when = "" if rule.decay == "before" else ", after the step"
    return f"{_RATES[rule.decay_rate]} w{_MASKS[rule.decay_mask]}{when}"


def _adamw(adamw: AdamWRecipe) -> str:
    said = [f"{adamw.beta_1:g}, {adamw.beta_2:g}", f"eps {adamw.eps:g}"]
    said += [adamw.eps_mode] if adamw.eps_mode != "corrected" else []
    said += [f"eps_root {adamw.eps_root:g}"] if adamw.eps_root else []
    said += ["Nesterov"] if adamw.nesterov else []
    said += ["no bias correction"] if not adamw.bias_correction else []
    decay = _decay(adamw)
    return ", ".join(said if decay == "lr w" else [*said, f"decay {decay}"])


def _rates(own: float, adamw: float | None) -> str:
    return f"{own:g}" if adamw is None or adamw == own else f"{own:g}; AdamW {adamw:g}"
