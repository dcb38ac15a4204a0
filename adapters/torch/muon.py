"""Muon for PyTorch: momentum, orthogonalised matrix by matrix."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, NamedTuple, cast

import array_api_compat.torch as xp
import torch
from torch import Tensor

from zeropower import OUT_IN, Dialect, MatrixLayout, MuonRecipe, MuonState, muon_step
from zeropower.dialects import get_dialect
from zeropower.newton_schulz import dtype_name
from zeropower.recipes import computed_in
from zeropower.record import Slot
from zeropower.soundness import DtypeName

from .clipping import Clip, read_clip
from .decay import needs_count, read_decay
from .dispatch import Choice, choose
from .engine import Engine, Job, Params
from .gradients import Gradients
from .groups import stacks, write
from .names import members
from .options import (
    FROM_DIALECT,
    TORCH_NAMES,
    Group,
    Names,
    Number,
    Unset,
    given,
    layout_from_plain,
    layout_to_plain,
    read_dtype,
    read_number,
    recipe_from_group,
    recipe_to_group,
    refuse_unknown,
)
from .state import STEP, Buffers, State, entry_of, of_its_shape, updates_of

_MOMENTUM: Final = "momentum_buffer"
_SECOND_MOMENT: Final = "second_moment_buffer"


class MuonOptions(NamedTuple):
    """The options of a group, read."""

    recipe: MuonRecipe
    lr: float
    weight_decay: Callable[[int], float]  # of the 1-based count of the parameter's update
    momentum: float
    layout: MatrixLayout | None
    asked_dtype: DtypeName | None
    clip: Clip


class MuonUpdate:
    """The step of Muon on the matrices of a group.

    Parameters
    ----------
    names
        What the group calls the fields of a recipe.
    """

    def __init__(self, names: Names) -> None:
        self._names = names

    def read(self, group: Group) -> MuonOptions:
        """Return the options of a group, checked."""
        return MuonOptions(
            recipe_from_group(group, self._names),
            lr=read_number("lr", group["lr"]),
            weight_decay=read_decay(group),
            momentum=read_number("momentum", group["momentum"], below=1.0),
            layout=layout_from_plain(group["layout"]),
            asked_dtype=read_dtype("compute_dtype", group["compute_dtype"]),
            clip=read_clip(group),
        )

    def check(self, group: Group) -> None:
        """Refuse a group whose options are not accepted, or whose parameters are no matrices."""
        options = self.read(group)
        for name, param in members(group):
            _check_matrices(name, param, options.layout)
            _choose(param, options)

    def buffers(self, group: Group) -> Buffers:
        """Return what is kept: the momentum, a second moment if there is one, and the count where it is needed."""
        recipe, layout = recipe_from_group(group, self._names), layout_from_plain(group["layout"]) or OUT_IN
        found: dict[str, Callable[[tuple[int, ...]], tuple[int, ...]]] = {_MOMENTUM: of_its_shape}
        if recipe.second_moment is not None:
            found[_SECOND_MOMENT] = partial(recipe.second_moment.shape, layout=layout)
        if recipe.counts_steps or needs_count(group):
            found[STEP] = of_its_shape
        return found

    def slot(self, group: Group, param: Tensor) -> Slot:
        """Return what is kept, as a record is asked for it."""
        momentum = read_number("momentum", group["momentum"], below=1.0)
        shapes = [of(tuple(param.shape)) for key, of in self.buffers(group).items() if key == _SECOND_MOMENT]
        return Slot("muon", tuple(param.shape), group["momentum_form"], momentum, shapes[0] if shapes else None)

    def jobs(self, group: Group, params: Sequence[Tensor], gradients: Gradients, state: State) -> list[Job]:
        """Return one job for each stack of equal parameters."""
        options = self.read(group)
        buffers = self.buffers(group)

        def next_step(param: Tensor) -> int | None:
            return updates_of(state, param) + 1 if STEP in buffers else None

        def run(stack: list[Tensor]) -> None:
            grads = [options.clip(gradients[param]) for param in stack]
            _run(stack, grads, options, buffers, next_step(stack[0]), state)

        work = stacks(params, key=lambda param: (gradients[param].dtype, next_step(param)))
        return [partial(run, stack) for stack in work]


def _run(
    params: list[Tensor],
    grads: list[Tensor],
    options: MuonOptions,
    buffers: Buffers,
    step: int | None,
    state: State,
) -> None:
    """Apply the core's step to equal parameters at once."""
    choice = _choose(params[0], options)
    entries = [entry_of(state, param, buffers) for param in params]
    alone = len(params) == 1

    def together(tensors: Sequence[Tensor]) -> Tensor:
        return tensors[0] if alone else torch.stack(tuple(tensors))

    kept_of = {key: [entry[key] for entry in entries] for key in buffers if key != STEP}
    moment_2 = together(kept_of[_SECOND_MOMENT]) if _SECOND_MOMENT in kept_of else None
    param, grad = together(params), together(grads)
    moved, kept = muon_step(
        param,
        grad,
        MuonState(together(kept_of[_MOMENTUM]), moment_2),
        computed_in(options.recipe, choice.compute_dtype),
        lr=options.lr,
        weight_decay=options.weight_decay(step or 0),
        step=step,
        momentum=options.momentum,
        layout=OUT_IN if options.layout is None else options.layout.at(params[0].ndim),
        compute_dtype=choice.compute_dtype,
        kernels=choice.kernels,
        xp=xp,
    )
    results: dict[str, Any] = {_MOMENTUM: kept.momentum, _SECOND_MOMENT: kept.moment_2}
    for key, targets in kept_of.items():
        write([results[key]] if alone else results[key], targets)
    write([moved] if alone else moved, params)
    if step is not None:
        for entry in entries:
            entry[STEP] = step


def _choose(param: Tensor, options: MuonOptions) -> Choice:
    return choose(
        param.device.type,
        cast("DtypeName", dtype_name(param.dtype)),
        wanted=options.recipe.compute_dtype,
        asked=options.asked_dtype,
    )


def _check_matrices(name: str, param: Tensor, layout: MatrixLayout | None) -> None:
    shape = tuple(param.shape)
    if layout is None:
        if param.ndim != 2:
            wanted = "two axes, or any shape with layout=zeropower.MatrixLayout(fan_out, fan_in)"
            raise ValueError(f"{name} has shape {shape}; accepted by Muon: {wanted}")
        return
    try:
        layout.fans(shape)
    except ValueError:
        raise ValueError(f"{name} has shape {shape}; accepted with layout={layout}: shapes with these axes") from None


class Muon(Engine):
    """``torch.optim.Muon``, faster, with the other conventions of Muon behind one argument.

    ``m <- momentum m + (1 - momentum) g``, then ``p <- (1 - lr weight_decay) p - lr scale NS(direction)``, where the
    direction is ``m``, or with Nesterov ``momentum m + (1 - momentum) g``, and NS the Newton-Schulz iteration of
    :func:`zeropower.orthogonalize` (K. Jordan et al., "Muon", 2024). With the default dialect, changing the import
    changes nothing but the speed: results agree within the rounding of bfloat16. Arguments, parameter groups and
    checkpoints are those of ``torch.optim.Muon``.

    Momentum is kept in float32 at least, and nothing but momentum changes it (with bfloat16 gradients and without
    Nesterov, ``torch.optim.Muon`` of PyTorch 2.13 normalises its buffer in place). Matrices of equal shape are stacked
    and iterated together.

    Parameters
    ----------
    params
        Parameters, named parameters, or parameter groups. Two axes each, unless there is a ``layout``; embeddings,
        output heads, biases and gains belong to another optimizer (:class:`MuonAdamW` sorts them).
    lr
        Learning rate: length of a step in the spectral norm, before the scale. A number or a tensor of one element.
    weight_decay
        Decoupled decay, multiplied by ``lr`` before the scale.
    momentum
        Decay of the momentum, in [0, 1).
    nesterov
        Whether the direction looks one update ahead.
    ns_coefficients
        ``(a, b, c)`` of the quintic, one triple a step, or a name of :data:`zeropower.TABLES`.
    eps
        Floor of the matrix norm; ``None`` guards an exact zero alone.
    ns_steps
        Steps of the iteration, at least 1.
    adjust_lr_fn
        Scale of the learning rate with the shape: a rule of :func:`zeropower.lr_scale`; ``None`` takes the dialect's.
    dialect
        A name of :data:`zeropower.DIALECTS`, or a :class:`zeropower.Dialect`: decides what is not given. The defaults
        of all arguments above are ``torch.optim.Muon``'s with ``"torch"``.
    layout
        How a parameter is a stack of matrices, for parameters with other than two axes; ``None`` takes the
        dialect's, if it has one.
    compute_dtype
        The dtype of the iteration, a ``torch.dtype`` or its name. ``None`` leaves it to the dialect and the device:
        bfloat16 on CUDA and on CPUs that multiply it, else float32; float64 for parameters in float64.
    clip_norm
        Greatest norm of a parameter's gradient, each clipped alone before it enters the momentum; ``None`` takes the
        dialect's, which is any in all named ones. Of a single step it changes nothing but the share in the momentum: a
        direction does not depend on the norm.
    clip_value
        Greatest magnitude of an element of a gradient, instead of ``clip_norm``.

    Raises
    ------
    ValueError
        If a value is out of range, or a parameter is not a matrix; the message names it and what is accepted.
    TypeError
        If an argument is unknown, or a value has the wrong type.

    Examples
    --------
    >>> import torch
    >>> from zeropower.torch import Muon
    >>> weight = torch.nn.Parameter(torch.eye(4, 6))
    >>> optimizer = Muon([("weight", weight)], lr=0.02)
    >>> weight.square().sum().backward()
    >>> optimizer.step()
    >>> weight[0, 0].item() < 1
    True
    """

    kind = "muon"
    _of_muon = MuonUpdate(TORCH_NAMES)

    def __init__(
        self,
        params: Params,
        lr: Number | Unset = FROM_DIALECT,
        weight_decay: Number | Unset = FROM_DIALECT,
        momentum: Number | Unset = FROM_DIALECT,
        nesterov: bool | Unset = FROM_DIALECT,
        ns_coefficients: str | Sequence[float] | Sequence[Sequence[float]] | Unset = FROM_DIALECT,
        eps: float | Unset | None = FROM_DIALECT,
        ns_steps: int | Unset = FROM_DIALECT,
        adjust_lr_fn: str | None = None,
        *,
        dialect: str | Dialect = "torch",
        layout: MatrixLayout | None = None,
        compute_dtype: torch.dtype | str | None = None,
        clip_norm: Number | None = None,
        clip_value: Number | None = None,
        **unknown: Any,
    ) -> None:
        refuse_unknown(type(self), unknown)
        convention = get_dialect(dialect)
        defaults = {
            "lr": convention.lr,
            "weight_decay": convention.weight_decay,
            **recipe_to_group(convention.muon, TORCH_NAMES),
            "layout": layout_to_plain(convention.layout if layout is None else layout),
            "compute_dtype": read_dtype("compute_dtype", compute_dtype),
            "adjust_lr_fn": adjust_lr_fn,
            "clip_norm": convention.clip_norm if clip_norm is None and clip_value is None else clip_norm,
            "clip_value": clip_value,
            **given(
                lr=lr,
                weight_decay=weight_decay,
                momentum=momentum,
                nesterov=nesterov,
                ns_coefficients=ns_coefficients,
                eps=eps,
                ns_steps=ns_steps,
            ),
        }
        self._of_muon.read(defaults)
        super().__init__(cast("Any", params), defaults)

    def _update(self, group: Any) -> MuonUpdate:
        return self._of_muon
