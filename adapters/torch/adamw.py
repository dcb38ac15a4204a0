"""AdamW for PyTorch, with the two-stage weight decay of BitNet training."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple, cast

import array_api_compat.torch as xp
import torch
from torch import Tensor

from zeropower import AdamWRecipe, AdamWState, adamw_step

from .decay import STEPS_PASSED, read_decay
from .engine import Engine, Job
from .groups import Piece, pieces, write
from .muon import Params
from .options import Group, Names, Number, read_number, refuse_unknown, renamed, to_number
from .state import STEP, State, entry_of, updates_of

BETA_NAMES: Names = {"beta_1": "betas[0]", "beta_2": "betas[1]"}
_KEYS = (STEP, "exp_avg", "exp_avg_sq")


class AdamWOptions(NamedTuple):
    """The options of a group, read."""

    recipe: AdamWRecipe
    lr: float
    weight_decay: Callable[[int], float]  # of the 1-based count of the parameter's update


class AdamWUpdate:
    """The step of AdamW on the elements of a group whose first decay is called ``momentum``."""

    def read(self, group: Group) -> AdamWOptions:
        """Return the options of a group, checked."""
        return AdamWOptions(self._read_recipe(group), read_number("lr", group["lr"]), read_decay(group))

    def _read_recipe(self, group: Group) -> AdamWRecipe:
        return read_adamw_recipe(group["momentum"], group["beta_2"], group["eps"], {"beta_1": "momentum"})

    def check(self, group: Group) -> None:
        """Refuse a group whose options are not accepted."""
        self.read(group)

    def state_keys(self, group: Group) -> tuple[str, ...]:
        """Return what is kept: both moments and the count."""
        return _KEYS

    def jobs(self, group: Group, params: Sequence[Tensor], state: State) -> list[Job]:
        """Return one job for each bounded number of elements, and those that count."""
        options = self.read(group)
        steps = {param: updates_of(state, param) + 1 for param in params}
        work = pieces(params, key=steps.__getitem__, is_flat=partial(_is_flat, state=state))
        return [
            *(partial(_run, batch, options, steps[batch[0].param], state) for batch in work),
            *(partial(_count, param, step, state) for param, step in steps.items()),
        ]


def read_adamw_recipe(beta_1: Any, beta_2: Any, eps: Any, names: Names) -> AdamWRecipe:
    """Return the recipe of three options, checked; errors call them by these names."""
    with renamed(names):
        return AdamWRecipe(beta_1=to_number(beta_1), beta_2=to_number(beta_2), eps=to_number(eps))


def _run(batch: list[Piece], options: AdamWOptions, step: int, state: State) -> None:
    """Apply the core's step to some elements of some parameters at once."""
    entries = [entry_of(state, piece.param, _KEYS) for piece in batch]
    params = [piece.of(piece.param) for piece in batch]
    grads = [piece.of(cast("Tensor", piece.param.grad)) for piece in batch]
    first, second = ([piece.of(entry[key]) for piece, entry in zip(batch, entries, strict=True)] for key in _KEYS[1:])
    alone = len(batch) == 1
    param, grad, moment_1, moment_2 = (x[0] if alone else torch.cat(x) for x in (params, grads, first, second))
    moved, kept = adamw_step(
        param,
        grad,
        AdamWState(moment_1, moment_2),
        options.recipe,
        lr=options.lr,
        weight_decay=options.weight_decay(step),
        step=step,
        xp=xp,
    )
    sizes = [part.numel() for part in params]
    for result, targets in ((kept.moment_1, first), (kept.moment_2, second), (moved, params)):
        write([result] if alone else result.split(sizes), targets)


def _count(param: Tensor, step: int, state: State) -> None:
    entry_of(state, param, _KEYS)[STEP] = step


def _is_flat(param: Tensor, state: State) -> bool:
    kept = (value for value in state.get(param, {}).values() if isinstance(value, Tensor))
    return all(tensor.is_contiguous() for tensor in (param, cast("Tensor", param.grad), *kept))


class BitNetUpdate(AdamWUpdate):
    """The step of AdamW on the elements of a group that has ``betas`` as one option."""

    def _read_recipe(self, group: Group) -> AdamWRecipe:
        return read_adamw_recipe(*read_betas(group["betas"]), group["eps"], BETA_NAMES)


def read_betas(betas: Any) -> tuple[Any, Any]:
    """Return both decays of a pair; refuse anything else."""
    if not isinstance(betas, tuple | list) or len(cast("tuple[Any, ...]", betas)) != 2:
        raise TypeError(f"betas={betas!r} is not a pair; accepted: (beta_1, beta_2), each in [0, 1)")
    return betas[0], betas[1]


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

    _of_adamw = BitNetUpdate()

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
            STEPS_PASSED: 0,
        }
        self._of_adamw.read(defaults)
        super().__init__(cast("Any", params), defaults)

    def _update(self, group: Any) -> BitNetUpdate:
        return self._of_adamw
