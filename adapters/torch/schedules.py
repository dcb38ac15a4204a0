"""Learning-rate schedules of the core as PyTorch schedulers."""

from dataclasses import asdict
from typing import Any, Final, cast, get_args

from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR

from zeropower.schedules import LrSchedule

from .options import read_number

_KINDS: Final[dict[str, Any]] = {kind.__name__: kind for kind in get_args(LrSchedule)}


class _Factor:
    """The factor of a step.

    ``LambdaLR`` saves the attributes of a callable and puts them back, so they are plain values, which
    ``torch.load(..., weights_only=True)`` accepts, and all that the factor depends on.
    """

    def __init__(self, schedule: LrSchedule, own_lr: float) -> None:
        self.kind = type(schedule).__name__
        self.fields = asdict(schedule)
        self.own_lr = own_lr

    def __call__(self, epoch: int) -> float:
        schedule: LrSchedule = _KINDS[self.kind](**self.fields)
        return cast("float", schedule(epoch + 1)) / self.own_lr


def lr_scheduler(optimizer: Optimizer, schedule: LrSchedule, last_epoch: int = -1) -> LambdaLR:
    """Return a scheduler that gives an optimizer the learning rates of a schedule.

    Update ``k`` of the optimizer, counted from 1, gets ``schedule(k)`` where ``step`` of the scheduler is called once
    after each. A group's learning rate is ``group["initial_lr"] * (schedule(k) / own)``: ``initial_lr`` is what the
    group had when its first scheduler was built, ``own`` is ``optimizer.defaults["lr"]``, what the optimizer was
    built with (or its default). So groups without a learning rate of their own have that of the schedule, and one with
    another keeps its ratio to the optimizer's. What the optimizer was built with sets these ratios and nothing else.

    ``state_dict`` of the scheduler holds plain values alone. ``load_state_dict`` brings back the schedule that was
    saved, whatever this scheduler was built with, as PyTorch's schedulers do.

    Parameters
    ----------
    optimizer
        Any PyTorch optimizer with a learning rate above 0.
    schedule
        A schedule of :mod:`zeropower.schedules`.
    last_epoch
        Updates of an earlier run less one, where that is continued without ``load_state_dict``.

    Returns
    -------
    torch.optim.lr_scheduler.LambdaLR
        The scheduler; it has set the learning rates of the first update.

    Raises
    ------
    TypeError
        If ``schedule`` is none of the core's.
    ValueError
        If the optimizer's own learning rate is 0, to which no group has a ratio.

    Examples
    --------
    >>> import torch
    >>> from zeropower.schedules import Linear
    >>> from zeropower.torch.schedules import lr_scheduler
    >>> optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(3))], lr=0.5)
    >>> scheduler = lr_scheduler(optimizer, Linear(initial_lr=0.5, final_lr=0.1, num_steps=4))
    >>> optimizer.step()
    >>> scheduler.step()
    >>> scheduler.get_last_lr()
    [0.4]
    """
    if not isinstance(schedule, tuple(_KINDS.values())):
        raise TypeError(f"schedule={schedule!r} is no schedule; accepted: {', '.join(_KINDS)}")
    own_lr = read_number("lr", optimizer.defaults["lr"])
    if own_lr == 0:
        raise ValueError(
            f"lr={own_lr!r} of the optimizer is out of range; accepted: above 0, for ratios of groups to it"
        )
    return LambdaLR(optimizer, _Factor(schedule, own_lr), last_epoch)
