"""The learning-rate schedule of a configuration."""

from dataclasses import dataclass, fields
from typing import Any, Literal, TypeAlias

from zeropower.checks import require_choice
from zeropower.fields import from_table, read_integer, read_number
from zeropower.schedules import Constant, Cosine, Exponential, Linear, LrSchedule, Noam, StepDecay

LrScheduleType: TypeAlias = Literal["constant", "cosine", "linear", "exponential", "step", "noam"]

PATH = "optimizer.lr_schedule"
_REQUIRED = object()
# The keys of each type of schedule with their defaults; None: taken from the run.
_SCHEDULE_KEYS: dict[LrScheduleType, dict[str, Any]] = {
    "constant": {"initial_lr": None},
    "cosine": {"initial_lr": None, "min_lr": 0.0, "warmup_steps": 0, "num_iters": None},
    "linear": {"initial_lr": None, "final_lr": _REQUIRED, "num_iters": None},
    "exponential": {"initial_lr": None, "gamma": _REQUIRED},
    "step": {"initial_lr": None, "gamma": 0.1, "step_size": None},
    "noam": {"initial_lr": None, "warmup_steps": None, "model_size": 512},
}


@dataclass(frozen=True, kw_only=True)
class LrScheduleConfig:
    """A learning-rate schedule; a key that its type does not have is an error.

    Attributes
    ----------
    type
        ``"constant"``, ``"cosine"``, ``"linear"``, ``"exponential"``, ``"step"`` or ``"noam"``; all of them are
        classes of :mod:`zeropower.schedules`.
    initial_lr
        The learning rate that it starts with, or its factor (noam); ``None`` for the optimizer's.
    min_lr
        The least learning rate (cosine; 0).
    warmup_steps
        Steps of the warmup (cosine, 0; noam, where ``None`` is the whole run).
    num_iters
        Steps from the first to the last learning rate (cosine, linear); ``None`` for the whole run.
    final_lr
        The last learning rate (linear, which needs it).
    gamma
        The factor (exponential, which needs it; step, 0.1).
    step_size
        Steps from factor to factor (step); ``None`` for the whole run.
    model_size
        Width of the model (noam; 512).
    """

    type: LrScheduleType
    initial_lr: float | None = None
    min_lr: float | None = None
    warmup_steps: int | None = None
    num_iters: int | None = None
    final_lr: float | None = None
    gamma: float | None = None
    step_size: int | None = None
    model_size: int | None = None

    def __post_init__(self) -> None:
        require_choice(f"{PATH}.type", self.type, _SCHEDULE_KEYS)
        accepted = _SCHEDULE_KEYS[self.type]
        for name in (field.name for field in fields(self) if field.name != "type"):
            value = getattr(self, name)
            if value is None:
                value = accepted.get(name)
                if value is _REQUIRED:
                    raise ValueError(f'{PATH}.{name} must be set when {PATH}.type = "{self.type}"')
            elif name not in accepted:
                given = f'{PATH}.{name}={value!r} is not known when {PATH}.type = "{self.type}"'
                raise ValueError(f"{given}; accepted: type, {', '.join(accepted)}")
            else:
                read = read_number if name in {"initial_lr", "min_lr", "final_lr", "gamma"} else read_integer
                value = read(f"{PATH}.{name}", value)
            object.__setattr__(self, name, value)

    @classmethod
    def from_dict(cls, table: Any) -> "LrScheduleConfig":
        """Return what a table, or a type alone, describes; one that is made already is returned."""
        if isinstance(table, cls):
            return table
        return from_table(cls, PATH, {"type": table} if isinstance(table, str) else table)

    def to_schedule(self, learning_rate: float, total_steps: int, *, num_iters: int | None = None) -> LrSchedule:
        """Return the schedule of a run.

        Parameters
        ----------
        learning_rate
            The optimizer's own, where ``initial_lr`` is not given.
        total_steps
            Steps of the run, at least 1.
        num_iters
            Overrules the field of that name; the types without it ignore it.

        Returns
        -------
        LrSchedule
            The schedule.

        Raises
        ------
        ValueError
            If a number is out of range; the message has the path of the field.
        """
        lr = learning_rate if self.initial_lr is None else self.initial_lr
        given = self.num_iters if num_iters is None else num_iters
        try:
            return self._build(lr, total_steps, total_steps if given is None else given)
        except ValueError as error:
            name, _, rest = str(error).partition("=")
            if name in {"lr", "factor", "initial_lr"}:
                path = "learning_rate" if self.initial_lr is None else "lr_schedule.initial_lr"
            else:
                path = f"lr_schedule.{'num_iters' if name == 'num_steps' else name}"
            raise ValueError(f"optimizer.{path}={rest}") from None

    def _build(self, lr: float, total_steps: int, num_steps: int) -> LrSchedule:
        own: Any = self  # that the numbers of its type are there, __post_init__ has seen to
        match self.type:
            case "constant":
                return Constant(lr=lr)
            case "cosine":
                return Cosine(initial_lr=lr, num_steps=num_steps, min_lr=own.min_lr, warmup_steps=own.warmup_steps)
            case "linear":
                return Linear(initial_lr=lr, final_lr=own.final_lr, num_steps=num_steps)
            case "exponential":
                return Exponential(initial_lr=lr, gamma=own.gamma)
            case "step":
                size = total_steps if self.step_size is None else self.step_size
                return StepDecay(initial_lr=lr, step_size=size, gamma=own.gamma)
            case "noam":
                warmup = total_steps if self.warmup_steps is None else self.warmup_steps
                return Noam(factor=lr, warmup_steps=warmup, model_size=own.model_size)
