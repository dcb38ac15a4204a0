"""AdamW for PyTorch, with the two-stage weight decay of BitNet training."""

from typing import Any, Literal, cast

from .adamw import BetasUpdate
from .engine import Engine, Params
from .options import Number, refuse_unknown


class BitNetAdamW(Engine):
    """AdamW whose weight decay drops in the second half of the run, as in BitNet training.

    ``p <- (1 - lr wd) p - lr m̂ / (sqrt(v̂) + eps)`` with bias-corrected moments (Loshchilov and Hutter,
    arXiv:1711.05101), where ``wd`` is :func:`zeropower.weight_decay_for_step`: ``weight_decay`` up to
    ``second_stage_start`` of the run, then linear to ``weight_decay_final``. Plain AdamW where both are equal.

    Moments are kept in float32 at least: a second moment in bfloat16 would never decay.

    Parameters
    ----------
    params
        Parameters, named parameters, or parameter groups, of any shape.
    lr
        Learning rate, a number or a tensor of one element.
    betas
        Decays of the two moments, each in [0, 1).
    eps
        Added to the root of the second moment.
    weight_decay
        Decoupled decay of the first stage, multiplied by ``lr``.
    weight_decay_final
        Decay of the last step; above ``weight_decay`` it grows.
    second_stage_start
        Where the second stage starts, as a share of the run; from 1 on there is none.
    total_steps
        Steps of the run, at least 1.
    clock
        What counts the steps of the run: ``"global"``, the calls of :meth:`step`, or ``"parameter"``, the updates that
        each parameter has seen.
    clip_norm
        As for :class:`AdamW`.
    clip_value
        As for :class:`AdamW`.

    Raises
    ------
    ValueError
        If a value is out of range; the message names it and what is accepted.
    TypeError
        If an argument is unknown, or a value has the wrong type.

    Examples
    --------
    >>> import torch
    >>> from zeropower.torch import BitNetAdamW
    >>> weight = torch.nn.Parameter(torch.ones(3))
    >>> optimizer = BitNetAdamW([weight], lr=0.1, total_steps=10)
    >>> weight.sum().backward()
    >>> optimizer.step()
    >>> weight.data
    tensor([0.8900, 0.8900, 0.8900])
    """

    kind = "bitnet_adamw"
    _of_adamw = BetasUpdate()

    def __init__(
        self,
        params: Params,
        lr: Number,
        betas: tuple[float, float] = (0.9, 0.95),
        eps: float = 1e-8,
        weight_decay: Number = 0.1,
        *,
        weight_decay_final: float = 0.0,
        second_stage_start: float = 0.5,
        total_steps: int,
        clock: Literal["global", "parameter"] = "global",
        clip_norm: Number | None = None,
        clip_value: Number | None = None,
        **unknown: Any,
    ) -> None:
        refuse_unknown(type(self), unknown)
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "weight_decay_final": weight_decay_final,
            "second_stage_start": second_stage_start,
            "total_steps": total_steps,
            "clock": clock,
            "clip_norm": clip_norm,
            "clip_value": clip_value,
        }
        self._of_adamw.read(defaults)
        super().__init__(cast("Any", params), defaults)

    def _update(self, group: Any) -> BetasUpdate:
        return self._of_adamw
