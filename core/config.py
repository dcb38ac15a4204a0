"""A run's optimizer as configuration: burn_dragon's fields, from Python, a mapping or a TOML file.

Whatever can be refused is refused when the configuration is built, with the path of the field: first wrong types and
unknown names, then ranges in the order of the original's own validation, then the learning-rate schedule.
:func:`zeropower.resolution.resolve` says what a configuration means.
"""

import math
import os
import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, cast

from zeropower.checks import require_choice
from zeropower.fields import from_table, read_flag, read_integer, read_number, to_table
from zeropower.progress import MOST_STEPS
from zeropower.schedule_config import LrScheduleConfig

OptimizerKind: TypeAlias = Literal["adamw", "bitnet_published", "muon_hybrid_exp"]
ScheduleMode: TypeAlias = Literal["bdh_reference", "bitnet_b158_reference", "hybrid"]
MuonAdjustLrFn: TypeAlias = Literal["match_rms_adamw"]

OPTIMIZER_KINDS: tuple[OptimizerKind, ...] = ("adamw", "bitnet_published", "muon_hybrid_exp")
SCHEDULE_MODES: tuple[ScheduleMode, ...] = ("bdh_reference", "bitnet_b158_reference", "hybrid")
MUON_ADJUST_LR_FNS: tuple[MuonAdjustLrFn, ...] = ("match_rms_adamw",)


@dataclass(frozen=True, kw_only=True)
class MuonHybridConfig:
    """What the hybrid of Muon and AdamW adds. Its ranges are checked where the optimizer is that hybrid.

    Attributes
    ----------
    enabled
        Whether the hybrid may be used; it refuses to be built otherwise.
    momentum
        Decay of the momentum, in (0, 1).
    nesterov
        Whether the direction looks one update ahead.
    ns_steps
        Steps of the iteration, at least 1.
    adjust_lr_fn
        How the learning rate depends on the shape: ``"match_rms_adamw"``.
    split_decoder_heads
        Whether the first of three axes is a batch of heads; otherwise it merges with the rows.
    target_modules
        Names of the parameters for Muon, by the last component of their path, kept sorted; ``None`` for burn_dragon's.
    """

    enabled: bool = False
    momentum: float = 0.95
    nesterov: bool = True
    ns_steps: int = 5
    adjust_lr_fn: MuonAdjustLrFn = "match_rms_adamw"
    split_decoder_heads: bool = True
    target_modules: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        path = "optimizer.muon"
        for name in ("enabled", "nesterov", "split_decoder_heads"):
            read_flag(f"{path}.{name}", getattr(self, name))
        object.__setattr__(self, "momentum", read_number(f"{path}.momentum", self.momentum))
        object.__setattr__(self, "ns_steps", read_integer(f"{path}.ns_steps", self.ns_steps))
        require_choice(f"{path}.adjust_lr_fn", self.adjust_lr_fn, MUON_ADJUST_LR_FNS)
        names: Any = self.target_modules
        if names is None:
            return
        if not isinstance(names, Collection) or isinstance(names, str | bytes | Mapping):
            raise TypeError(f"{path}.target_modules={names!r} is not a list; accepted: a list of names")
        for name in cast("Collection[Any]", names):
            if not isinstance(name, str):
                raise TypeError(f"{path}.target_modules has {name!r}, which is no text; accepted: a list of names")
        object.__setattr__(self, "target_modules", tuple(sorted(set(cast("Collection[str]", names)))))

    @classmethod
    def from_dict(cls, table: Any) -> "MuonHybridConfig":
        """Return what a table describes; one that is made already is returned."""
        return table if isinstance(table, cls) else from_table(cls, "optimizer.muon", table)


@dataclass(frozen=True, kw_only=True)
class OptimizerConfig:
    """The optimizer of a run, refused as a whole if anything in it cannot be used.

    Attributes
    ----------
    name
        ``"adamw"``, ``"bitnet_published"`` or ``"muon_hybrid_exp"``.
    learning_rate
        Learning rate, above 0.
    weight_decay
        Decoupled weight decay, at least 0.
    weight_decay_final
        Weight decay of the last step, at least 0, where the decay is scheduled.
    lr_schedule
        Schedule of the learning rate; ``None`` leaves it to ``schedule_mode``.
    schedule_mode
        ``"bdh_reference"`` (constant), ``"bitnet_b158_reference"`` or ``"hybrid"`` (both in two stages).
    grad_clip_norm
        Greatest norm of the gradient of a parameter, above 0.
    grad_clip_value
        Greatest element of a gradient, above 0; not together with ``grad_clip_norm``.
    muon
        What ``"muon_hybrid_exp"`` needs.
    """

    name: OptimizerKind = "adamw"
    learning_rate: float
    weight_decay: float
    weight_decay_final: float | None = None
    lr_schedule: LrScheduleConfig | None = None
    schedule_mode: ScheduleMode = "bdh_reference"
    grad_clip_norm: float | None = None
    grad_clip_value: float | None = None
    muon: MuonHybridConfig | None = None

    def __post_init__(self) -> None:
        require_choice("optimizer.name", self.name, OPTIMIZER_KINDS)
        require_choice("optimizer.schedule_mode", self.schedule_mode, SCHEDULE_MODES)
        for name, optional, _ in _NUMBERS:
            if (value := getattr(self, name)) is not None or not optional:
                object.__setattr__(self, name, read_number(f"optimizer.{name}", value))
        for name, kind in (("lr_schedule", LrScheduleConfig), ("muon", MuonHybridConfig)):
            value = getattr(self, name)
            if value is not None and not isinstance(value, kind):
                raise TypeError(f"optimizer.{name}={value!r} is not accepted; accepted: {kind.__name__}, None")
        self._check_ranges()
        if self.name == "muon_hybrid_exp":
            _check_hybrid(self.muon)
        elif self.muon is not None and not math.isfinite(self.muon.momentum):
            raise _out_of_range("muon.momentum", self.muon.momentum, "a finite number")
        if self.lr_schedule is not None:
            self.lr_schedule.to_schedule(self.learning_rate, MOST_STEPS)  # the length of the run is not known yet

    def _check_ranges(self) -> None:
        for name, _, accepted in _NUMBERS:
            value = getattr(self, name)
            if value is not None and not (math.isfinite(value) and (value > 0 or (value == 0 and accepted == ">= 0"))):
                raise _out_of_range(name, value, f"a finite number {accepted}")
        if self.grad_clip_norm is not None and self.grad_clip_value is not None:
            both = (
                f"optimizer.grad_clip_norm={self.grad_clip_norm} and optimizer.grad_clip_value={self.grad_clip_value}"
            )
            raise ValueError(f"{both} are mutually exclusive; accepted: one of them at most")

    @classmethod
    def from_dict(cls, mapping: Mapping[str, Any]) -> "OptimizerConfig":
        """Return the configuration that a mapping describes.

        Parameters
        ----------
        mapping
            Values by the names of the fields; ``lr_schedule`` and ``muon`` are mappings too, and a schedule that has
            nothing but its type may be that type alone.

        Returns
        -------
        OptimizerConfig
            The configuration.
        """
        return from_table(
            cls, "optimizer", mapping, lr_schedule=LrScheduleConfig.from_dict, muon=MuonHybridConfig.from_dict
        )

    @classmethod
    def from_toml(cls, path: str | os.PathLike[str]) -> "OptimizerConfig":
        """Return the configuration in a TOML file: its table ``[optimizer]``, or the whole file if it has none.

        Parameters
        ----------
        path
            The file.

        Returns
        -------
        OptimizerConfig
            The configuration.

        Raises
        ------
        OSError
            If the file cannot be read, as ``FileNotFoundError`` where there is none.
        ValueError
            If it is no TOML, or no configuration; the message begins with the path.
        TypeError
            If a value in it has the wrong type.
        """
        try:
            with open(path, "rb") as file:
                document = tomllib.load(file)
        except OSError as error:
            raise type(error)(f"{os.fspath(path)} cannot be read ({error.strerror}); accepted: a TOML file") from None
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise ValueError(f"{os.fspath(path)} is not valid TOML: {error}; accepted: a TOML file") from None
        try:
            return cls.from_dict(document.get("optimizer", document))
        except (TypeError, ValueError) as error:
            raise type(error)(f"{os.fspath(path)}: {error}") from None

    def to_dict(self) -> dict[str, Any]:
        """Return plain values by field, without those that are ``None``; :meth:`from_dict` takes them back."""
        return to_table(self)


def read_config(source: OptimizerConfig | Mapping[str, Any] | str | os.PathLike[str]) -> OptimizerConfig:
    """Return the configuration that something describes.

    Parameters
    ----------
    source
        A configuration, which is returned; a mapping, as :meth:`OptimizerConfig.from_dict` takes it; or the path of
        a TOML file.

    Returns
    -------
    OptimizerConfig
        The configuration.

    Raises
    ------
    TypeError
        If it is anything else.
    """
    given = cast("object", source)
    if isinstance(given, OptimizerConfig):
        return given
    if isinstance(given, Mapping):
        return OptimizerConfig.from_dict(cast("Mapping[str, Any]", given))
    if isinstance(given, str | os.PathLike):
        return OptimizerConfig.from_toml(cast("str | os.PathLike[str]", given))
    raise TypeError(f"source={source!r} is no configuration; accepted: OptimizerConfig, a mapping, a path")


_NUMBERS: tuple[tuple[str, bool, str], ...] = (  # field, whether it may be None, range
    ("learning_rate", False, "> 0"),
    ("weight_decay", False, ">= 0"),
    ("weight_decay_final", True, ">= 0"),
    ("grad_clip_norm", True, "> 0"),
    ("grad_clip_value", True, "> 0"),
)


def _check_hybrid(muon: MuonHybridConfig | None) -> None:
    hybrid = 'when optimizer.name = "muon_hybrid_exp"'
    if muon is None:
        raise ValueError(f"optimizer.muon must be set {hybrid}")
    if not muon.enabled:
        raise ValueError(f"optimizer.muon.enabled={muon.enabled} is not accepted {hybrid}; accepted: true")
    if not 0 < muon.momentum < 1:
        raise _out_of_range("muon.momentum", muon.momentum, "a finite number in (0, 1)")
    if muon.ns_steps < 1:
        raise _out_of_range("muon.ns_steps", muon.ns_steps, "integers >= 1")
    if muon.target_modules is not None and not muon.target_modules:
        raise ValueError("optimizer.muon.target_modules=[] is empty; accepted: at least one name, or no list")


def _out_of_range(name: str, value: object, accepted: str) -> ValueError:
    return ValueError(f"optimizer.{name}={value!r} is out of range; accepted: {accepted}")
