"""AdamW for PyTorch, with moments that keep their precision."""

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any, NamedTuple, cast

import array_api_compat.torch as xp
import torch
from torch import Tensor

from zeropower import AdamWRecipe, AdamWState, adamw_step
from zeropower.checks import errors_naming
from zeropower.record import Slot

from .clipping import Clip, read_clip
from .decay import read_decay
from .engine import Engine, Job, Params
from .gradients import Gradients
from .groups import Piece, pieces, write
from .options import Group, Names, Number, read_number, refuse_unknown, to_number
from .state import STEP, Buffers, State, entry_of, of_its_shape, updates_of

BETA_NAMES: Names = {"beta_1": "betas[0]", "beta_2": "betas[1]"}
ADAMW_NAMES: Names = {
    "eps_mode": "adam_eps_mode",
    "eps_root": "eps_root",
    "bias_correction": "bias_correction",
    "nesterov": "nadam",
    "decay": "decay",
    "decay_rate": "decay_rate",
    "decay_mask": "decay_mask",
}
"""Fields of a recipe -> what groups call them, where those of Muon might have the same name and mean another thing."""
_MOMENTS = ("exp_avg", "exp_avg_sq")
_BUFFERS: Buffers = dict.fromkeys((STEP, *_MOMENTS), of_its_shape)


class AdamWOptions(NamedTuple):
    """The options of a group, read."""

    recipe: AdamWRecipe
    lr: float
    weight_decay: Callable[[int], float]  # of the 1-based count of the parameter's update
    clip: Clip


class AdamWUpdate:
    """The step of AdamW on the elements of a group whose first decay is called ``momentum``."""

    def read(self, group: Group) -> AdamWOptions:
        """Return the options of a group, checked."""
        lr = read_number("lr", group["lr"])
        return AdamWOptions(self._read_recipe(group), lr, read_decay(group), read_clip(group))

    def _read_recipe(self, group: Group) -> AdamWRecipe:
        names = {"beta_1": "momentum", **ADAMW_NAMES}
        variant = {field: group[name] for field, name in ADAMW_NAMES.items() if name in group}
        return read_adamw_recipe(group["momentum"], group["beta_2"], group["eps"], names, **variant)

    def check(self, group: Group) -> None:
        """Refuse a group whose options are not accepted."""
        self.read(group)

    def buffers(self, group: Group) -> Buffers:
        """Return what is kept: both moments and the count."""
        return _BUFFERS

    def slot(self, group: Group, param: Tensor) -> Slot:
        """Return what is kept, as a record is asked for it."""
        return Slot("adamw", tuple(param.shape))

    def jobs(self, group: Group, params: Sequence[Tensor], gradients: Gradients, state: State) -> list[Job]:
        """Return one job for each bounded number of elements, and those that count."""
        options = self.read(group)
        steps = {param: updates_of(state, param) + 1 for param in params}

        @lru_cache(maxsize=1)  # the pieces of a parameter come one after another
        def clipped(param: Tensor) -> Tensor:
            return options.clip(gradients[param])

        def run(batch: list[Piece]) -> None:
            grads = [piece.of(clipped(piece.param)) for piece in batch]
            _run(batch, grads, options, steps[batch[0].param], state)

        def is_flat(param: Tensor) -> bool:
            kept = (value for value in state.get(param, {}).values() if isinstance(value, Tensor))
            return all(tensor.is_contiguous() for tensor in (param, gradients[param], *kept))

        work = pieces(params, key=lambda param: (gradients[param].dtype, steps[param]), is_flat=is_flat)
        return [
            *(partial(run, batch) for batch in work),
            *(partial(_count, param, step, state) for param, step in steps.items()),
        ]


def read_adamw_recipe(beta_1: Any, beta_2: Any, eps: Any, names: Names, **variant: Any) -> AdamWRecipe:
    """Return the recipe of some options, checked; errors call them by these names."""
    with errors_naming(names):
        return AdamWRecipe(beta_1=to_number(beta_1), beta_2=to_number(beta_2), eps=to_number(eps), **variant)


def _run(batch: list[Piece], grads: list[Tensor], options: AdamWOptions, step: int, state: State) -> None:
    """Apply the core's step to some elements of some parameters at once."""
    entries = [entry_of(state, piece.param, _BUFFERS) for piece in batch]
    params = [piece.of(piece.param) for piece in batch]
    first, second = ([piece.of(entry[key]) for piece, entry in zip(batch, entries, strict=True)] for key in _MOMENTS)
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
    entry_of(state, param, _BUFFERS)[STEP] = step


class BetasUpdate(AdamWUpdate):
    """The step of AdamW on the elements of a group that has ``betas`` as one option."""

    def _read_recipe(self, group: Group) -> AdamWRecipe:
        return read_adamw_recipe(*read_betas(group["betas"]), group["eps"], BETA_NAMES)


def read_betas(betas: Any) -> tuple[Any, Any]:
    """Return both decays of a pair; refuse anything else."""
    if not isinstance(betas, tuple | list) or len(cast("tuple[Any, ...]", betas)) != 2:
        raise TypeError(f"betas={betas!r} is not a pair; accepted: (beta_1, beta_2), each in [0, 1)")
    return betas[0], betas[1]


class AdamW(Engine):
    """AdamW with moments in float32 at least, clipping, and records.

    ``p <- (1 - lr weight_decay) p - lr m̂ / (sqrt(v̂) + eps)`` with bias-corrected moments (Loshchilov and Hutter,
    arXiv:1711.05101): ``torch.optim.AdamW`` with the same defaults, but a second moment in bfloat16 would never decay.

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
        Decoupled decay, multiplied by ``lr``.
    clip_norm
        Greatest norm of a parameter's gradient, each clipped alone before it enters the moments; ``None`` for any.
    clip_value
        Greatest magnitude of an element of a gradient, instead of ``clip_norm``.

    Raises
    ------
    ValueError
        If a value is out of range; the message names it and what is accepted.
    TypeError
        If an argument is unknown, or a value has the wrong type.

    Examples
    --------
    >>> import torch
    >>> from zeropower.torch import AdamW
    >>> weight = torch.nn.Parameter(torch.ones(3))
    >>> optimizer = AdamW([weight], lr=0.1, weight_decay=0.1)
    >>> weight.sum().backward()
    >>> optimizer.step()
    >>> weight.data
    tensor([0.8900, 0.8900, 0.8900])
    """

    kind = "adamw"
    _of_adamw = BetasUpdate()

    def __init__(
        self,
        params: Params,
        lr: Number = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: Number = 1e-2,
        *,
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
            "clip_norm": clip_norm,
            "clip_value": clip_value,
        }
        self._of_adamw.read(defaults)
        super().__init__(cast("Any", params), defaults)

    def _update(self, group: Any) -> BetasUpdate:
        return self._of_adamw
