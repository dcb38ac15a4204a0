"""The optimizers that can be compared: names, tuned settings, and how a request for one is read.

Their builders are in `zeropower.cli.torch_optimizers` and `zeropower.cli.jax_optimizers`.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Final

from zeropower import DEFAULT_RULES, DIALECTS, Dialect

from .errors import UsageError

__all__ = ["SWEEP_FACTORS", "TABLES", "Chosen", "Settings", "choose", "without_lr"]

SWEEP_FACTORS: Final = (0.25, 0.5, 1.0, 2.0, 4.0)  # a sweep multiplies the learning rate by each


@dataclass(frozen=True)
class Settings:
    """Numbers that an optimizer is built with.

    Parameters
    ----------
    lr : float
        Learning rate at the top of the schedule.
    weight_decay : float
        Decoupled weight decay, as a rate per unit of learning rate.
    adamw_lr : float, optional
        Learning rate of the AdamW part (embedding, head, norms) where Muon trains the other matrices; None
        for optimizers without parts.
    dialect : str, optional
        A name of `zeropower.DIALECTS`, whose recipes are used with the routing of the default one; None for
        optimizers that have none.
    """

    lr: float
    weight_decay: float
    adamw_lr: float | None = None
    dialect: str | None = None

    def to_dialect(self) -> Dialect:
        """Return the recipes, on the matrices that the default dialect takes: the comparison is one of recipes.

        Returns
        -------
        Dialect
            With the routing of ``"zeropower"``.
        """
        return replace(DIALECTS[self.dialect or "zeropower"], rules=DEFAULT_RULES, layout=None)


# The rates of adamw and muon_adamw are the best of `zeropower compare --sweep` at the default sizes on the default
# text, in torch; jax, the other Muons and bitnet_adamw share them without a sweep of their own.
TABLES: Final[Mapping[str, Mapping[str, Settings]]] = {
    "torch": {
        "adamw": Settings(lr=4e-3, weight_decay=0.1),
        "muon_adamw": Settings(lr=2e-2, weight_decay=0.1, adamw_lr=8e-3, dialect="zeropower"),
        "bitnet_adamw": Settings(lr=4e-3, weight_decay=0.1),
        "torch_muon": Settings(lr=2e-2, weight_decay=0.1, adamw_lr=8e-3),
        "sgd": Settings(lr=0.3, weight_decay=0.0),
    },
    "jax": {
        "adamw": Settings(lr=4e-3, weight_decay=0.1),
        "muon_adamw": Settings(lr=2e-2, weight_decay=0.1, adamw_lr=8e-3, dialect="zeropower"),
        "bitnet_adamw": Settings(lr=4e-3, weight_decay=0.1),
        "optax_muon": Settings(lr=2e-2, weight_decay=0.1, adamw_lr=8e-3),
        "sgd": Settings(lr=0.3, weight_decay=0.0),
    },
}


@dataclass(frozen=True)
class Chosen:
    """An optimizer that takes part in a comparison.

    Parameters
    ----------
    label : str
        How it is called in tables and plots: the request as typed, or ``NAME:lr=VALUE`` in a sweep.
    name : str
        A name of the backend's table, or ``"config"``.
    settings : Settings
        Numbers to build it with.
    config : mapping, optional
        What its configuration file says, as plain values; None for those of the table.
    """

    label: str
    name: str
    settings: Settings
    config: Mapping[str, Any] | None = None


def choose(requests: Sequence[str], backend: str, *, sweep: bool) -> tuple[Chosen, ...]:
    """Read requests for optimizers.

    Parameters
    ----------
    requests : sequence of str
        Each ``NAME`` or ``NAME:key=value,...`` with keys of `Settings`.
    backend : str
        A key of `TABLES`.
    sweep : bool
        Whether each is to be repeated with its learning rate times each of `SWEEP_FACTORS`.

    Returns
    -------
    tuple of Chosen
        In the order of the requests.

    Raises
    ------
    UsageError
        If a name or key is unknown, a value is not a number that can be used, or two requests are the same.
    """
    chosen = [_read(request, backend) for request in requests]
    if sweep:
        chosen = [_with_lr(one, one.settings.lr * factor) for one in chosen for factor in SWEEP_FACTORS]
    labels = [one.label for one in chosen]
    for label in labels:
        if labels.count(label) > 1:
            raise UsageError(f"argument --optimizer: {label!r} is asked for twice")
    return tuple(chosen)


def without_lr(label: str) -> str:
    """Return a request without its learning rate.

    Parameters
    ----------
    label : str
        ``NAME`` or ``NAME:key=value,...``.

    Returns
    -------
    str
        The same but for ``lr``.
    """
    name, _, typed = label.partition(":")
    kept = [pair for pair in typed.split(",") if pair and not pair.startswith("lr=")]
    return f"{name}:{','.join(kept)}" if kept else name


def _read(request: str, backend: str) -> Chosen:
    name, _, typed = request.partition(":")
    table = TABLES[backend]
    if name not in table:
        raise UsageError(
            f"argument --optimizer: {name!r} is unknown; --backend {backend} has {', '.join(sorted(table))}"
        )
    settings = table[name]
    for pair in filter(None, typed.split(",")):
        key, _, value = pair.partition("=")
        keys = [field.name for field in fields(settings) if getattr(settings, field.name) is not None]
        if key not in keys:
            raise UsageError(f"argument --optimizer: {name} has no {key!r}; it takes {', '.join(keys)}")
        read = _dialect if key == "dialect" else _number
        settings = replace(settings, **{key: read(request, key, value)})
    return Chosen(request, name, settings)


def _dialect(request: str, key: str, text: str) -> str:
    if text not in DIALECTS:
        raise UsageError(f"argument --optimizer: {request!r}: {key} must be one of {', '.join(DIALECTS)}, got {text!r}")
    return text


def _number(request: str, key: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value >= 0 and (value > 0 or key == "weight_decay")):
        wanted = "at least 0" if key == "weight_decay" else "above 0"
        raise UsageError(f"argument --optimizer: {request!r}: {key} must be a number {wanted}, got {text!r}")
    return value


def _with_lr(one: Chosen, lr: float) -> Chosen:
    lr = float(f"{lr:.3g}")
    name, _, kept = without_lr(one.label).partition(":")
    label = f"{name}:{','.join(filter(None, [f'lr={lr:g}', kept]))}"
    return Chosen(label, name, replace(one.settings, lr=lr))
