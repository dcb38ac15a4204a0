"""Learning rates over a run, as values: callable with the 1-based step, with equality and a hash.

``schedule(step, *, xp=None)`` gives the learning rate of a step. An int gives a Python float, computed in float64; an
integer array gives an array of its shape in float64, or float32 where the namespace lacks float64, without a branch
on values, so that ``jax.jit`` and ``torch.compile`` trace it; inside ``torch.compile`` give ``xp``. Steps below 1
count as 1.
"""

import math
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from zeropower.checks import require_count, require_number
from zeropower.kernels import Array
from zeropower.progress import MOST_STEPS, Arithmetic, steps_done


def _between(first: float, last: float, share: Any) -> Any:
    return (1.0 - share) * first + share * last  # both ends are exact


class _Schedule:
    """The call that all schedules share; a subclass says what holds after ``done`` steps."""

    def __call__(self, step: int | Array, *, xp: Any = None) -> float | Array:
        """Return the learning rate of a 1-based step; see the module."""
        return self._rate(*steps_done(step, xp))

    def _rate(self, done: Any, a: Arithmetic) -> Any:
        raise NotImplementedError

    def _read_number(self, name: str, **bounds: Any) -> None:
        value = getattr(self, name)
        if not isinstance(value, int | float | np.generic):
            raise TypeError(f"{name}={value!r} is not a number; accepted: a finite number")
        require_number(name, value, **bounds)
        object.__setattr__(self, name, float(value))

    def _read_count(self, name: str, *, least: int = 1, most: int = MOST_STEPS) -> None:
        value = getattr(self, name)
        require_count(name, value, least=least)
        if value > most:
            raise ValueError(f"{name}={value!r} is out of range; accepted: integers from {least} to {most}")
        object.__setattr__(self, name, int(value))


@dataclass(frozen=True, kw_only=True)
class Constant(_Schedule):
    """The same learning rate for every step.

    Attributes
    ----------
    lr
        The learning rate, above 0.
    """

    lr: float

    def __post_init__(self) -> None:
        self._read_number("lr", low=0.0, low_open=True)

    def _rate(self, done: Any, a: Arithmetic) -> Any:
        return a.real(done) * 0.0 + self.lr


@dataclass(frozen=True, kw_only=True)
class TwoStage(_Schedule):
    """A linear warmup, the peak up to the middle of the run, then linear to two thirds of the peak.

    Step ``k`` has ``peak k / warmup_steps``, from step ``warmup_steps`` on ``peak``, and from ``stage_step`` on
    ``peak + (final - peak) (k - stage_step) / (total_steps - stage_step)``, up to the end; later steps are as the
    last. (burn_dragon's, after the training of BitNet b1.58. A run of one or two steps never leaves the peak.)

    Attributes
    ----------
    peak
        The greatest learning rate, above 0.
    total_steps
        Steps of the run, at least 0; 0 counts as 1.
    warmup
        Its steps, from 1 to ``stage_step``; ``None`` for a twentieth of the run, rounded up, 375 at most.

    Examples
    --------
    >>> schedule = TwoStage(peak=1.2e-3, total_steps=10)
    >>> [round(schedule(step), 5) for step in (1, 6, 7, 8, 9, 10, 11)]
    [0.0012, 0.0012, 0.0011, 0.001, 0.0009, 0.0008, 0.0008]
    """

    peak: float
    total_steps: int
    warmup: int | None = None

    def __post_init__(self) -> None:
        self._read_number("peak", low=0.0, low_open=True)
        self._read_count("total_steps", least=0)
        if self.warmup is not None:
            self._read_count("warmup", most=self.stage_step)

    @property
    def warmup_steps(self) -> int:
        """The first step with the peak."""
        return min(-(-max(self.total_steps, 1) // 20), 375) if self.warmup is None else self.warmup

    @property
    def stage_step(self) -> int:
        """The last step with the peak: 1 + half the other steps, and half a step counts as one."""
        return min(self.total_steps // 2 + 1, max(self.total_steps, 1))

    @property
    def final(self) -> float:
        """The learning rate of the last step."""
        return self.peak * 2 / 3

    def _rate(self, done: Any, a: Arithmetic) -> Any:
        after = a.share(done, self.stage_step - 1, max(self.total_steps - self.stage_step, 0))
        return a.share(done + 1, 0, self.warmup_steps) * _between(self.peak, self.final, after)


@dataclass(frozen=True, kw_only=True)
class Cosine(_Schedule):
    """Half a cosine from the initial to the least learning rate, again and again (arXiv:1608.03983).

    After a linear warmup of ``W = warmup_steps``, whose step ``k`` has ``initial_lr k / W``, step ``k`` has
    ``min_lr + (initial_lr - min_lr) (1 + cos(pi i / n)) / 2`` with ``n = num_steps - W`` and
    ``i = (k - 1 - W) mod (n + 1)``: the least comes at step ``num_steps + 1``, and after it the greatest again.

    Attributes
    ----------
    initial_lr
        The greatest learning rate, in (0, 1].
    num_steps
        Steps from the first to the least learning rate, at least 1.
    min_lr
        The least learning rate, in [0, ``initial_lr``].
    warmup_steps
        Steps of the warmup, at least 0 and less than ``num_steps``.
    """

    initial_lr: float
    num_steps: int
    min_lr: float = 0.0
    warmup_steps: int = 0

    def __post_init__(self) -> None:
        self._read_number("initial_lr", low=0.0, high=1.0, low_open=True)
        self._read_count("num_steps")
        self._read_number("min_lr", low=0.0, high=self.initial_lr)
        self._read_count("warmup_steps", least=0, most=self.num_steps - 1)

    def _rate(self, done: Any, a: Arithmetic) -> Any:
        length = self.num_steps - self.warmup_steps
        into = a.real(a.since(done, self.warmup_steps) % min(length + 1, a.most))
        rate = _between(self.min_lr, self.initial_lr, 0.5 + 0.5 * a.cos(into * (math.pi / length)))
        return rate * a.share(done + 1, 0, max(self.warmup_steps, 1))


@dataclass(frozen=True, kw_only=True)
class Linear(_Schedule):
    """A straight line from the initial to the final learning rate, which step ``num_steps + 1`` has and all later.

    Attributes
    ----------
    initial_lr
        The learning rate of the first step, in (0, 1].
    final_lr
        The final learning rate, in [0, 1]; it may be the greater one.
    num_steps
        Steps from one to the other, at least 1.
    """

    initial_lr: float
    final_lr: float
    num_steps: int

    def __post_init__(self) -> None:
        self._read_number("initial_lr", low=0.0, high=1.0, low_open=True)
        self._read_number("final_lr", low=0.0, high=1.0)
        self._read_count("num_steps")

    def _rate(self, done: Any, a: Arithmetic) -> Any:
        return _between(self.initial_lr, self.final_lr, a.share(done, 0, self.num_steps))


@dataclass(frozen=True, kw_only=True)
class Exponential(_Schedule):
    """The learning rate ``initial_lr gamma^(k - 1)`` of step ``k``.

    Attributes
    ----------
    initial_lr
        The learning rate of the first step, in (0, 1].
    gamma
        The factor of each step, in (0, 1].
    """

    initial_lr: float
    gamma: float

    def __post_init__(self) -> None:
        self._read_number("initial_lr", low=0.0, high=1.0, low_open=True)
        self._read_number("gamma", low=0.0, high=1.0, low_open=True)

    def _rate(self, done: Any, a: Arithmetic) -> Any:
        return a.power(self.gamma, done) * self.initial_lr


@dataclass(frozen=True, kw_only=True)
class StepDecay(_Schedule):
    """The learning rate ``initial_lr gamma^floor((k - 1) / step_size)`` of step ``k``.

    Attributes
    ----------
    initial_lr
        The learning rate of the first steps, above 0.
    step_size
        After how many steps the next factor comes, at least 1.
    gamma
        The factor, above 0.
    """

    initial_lr: float
    step_size: int
    gamma: float = 0.1

    def __post_init__(self) -> None:
        self._read_number("initial_lr", low=0.0, low_open=True)
        self._read_count("step_size")
        self._read_number("gamma", low=0.0, low_open=True)

    def _rate(self, done: Any, a: Arithmetic) -> Any:
        return a.power(self.gamma, done // min(self.step_size, a.most)) * self.initial_lr


@dataclass(frozen=True, kw_only=True)
class Noam(_Schedule):
    """The learning rate ``factor model_size^(-1/2) min(k^(-1/2), k warmup_steps^(-3/2))`` (arXiv:1706.03762, eq. 3).

    Attributes
    ----------
    factor
        The scale, above 0.
    warmup_steps
        The step of the greatest learning rate, at least 1.
    model_size
        Width of the model, at least 1.
    """

    factor: float
    warmup_steps: int
    model_size: int

    def __post_init__(self) -> None:
        self._read_number("factor", low=0.0, low_open=True)
        self._read_count("warmup_steps")
        self._read_count("model_size")

    def _rate(self, done: Any, a: Arithmetic) -> Any:
        step = a.real(done) + 1.0
        return a.minimum(step**-0.5, step * self.warmup_steps**-1.5) * (self.factor * self.model_size**-0.5)


LrSchedule: TypeAlias = Constant | TwoStage | Cosine | Linear | Exponential | StepDecay | Noam
"""Any of the schedules."""


def count_steps(*, steps_per_epoch: int, epochs: int | None = None, max_iters: int) -> int:
    """Return the steps of a run that is given in epochs or in steps; 0 of either counts as 1.

    Parameters
    ----------
    steps_per_epoch
        Steps of one epoch, at least 0.
    epochs
        Epochs of the run, at least 0; ``None`` where the run is given in steps.
    max_iters
        Steps of a run without epochs, at least 0.

    Returns
    -------
    int
        ``steps_per_epoch * epochs`` where ``epochs`` is given, else ``max_iters``.

    Raises
    ------
    ValueError
        If a number is negative, or the run is longer than :data:`MOST_STEPS`.
    """
    require_count("steps_per_epoch", steps_per_epoch, least=0)
    require_count("max_iters", max_iters, least=0)
    if epochs is None:
        return max(int(max_iters), 1)
    require_count("epochs", epochs, least=0)
    steps = int(steps_per_epoch) * max(int(epochs), 1)
    if steps > MOST_STEPS:
        raise ValueError(f"epochs={epochs!r} of {steps_per_epoch!r} steps overflow; accepted: up to {MOST_STEPS} steps")
    return steps
