"""One optimizer step, composed of the other rooms: directions, and steps that apply them to a parameter."""

from typing import Any, NamedTuple

from array_api_compat import array_namespace

from zeropower.decay import decoupled
from zeropower.kernels import GENERIC, Array, Kernels
from zeropower.layout import OUT_IN, MatrixLayout
from zeropower.moments import adaptive_moment
from zeropower.momentum import momentum_direction, momentum_update
from zeropower.newton_schulz import orthogonalize
from zeropower.normalize import accumulation_dtype
from zeropower.recipes import AdamWRecipe, MuonRecipe
from zeropower.scaling import lr_scale


class MuonState(NamedTuple):
    """What Muon keeps of a parameter."""

    momentum: Array  # like the parameter, float32 at least; changes with every gradient


class AdamWState(NamedTuple):
    """What AdamW keeps of a parameter."""

    moment_1: Array  # like the parameter, float32 at least; changes with every gradient
    moment_2: Array


def muon_direction(
    grad: Array,
    state: MuonState | None,
    recipe: MuonRecipe,
    *,
    step: int | Array | None = None,
    momentum: float | Array | None = None,
    layout: MatrixLayout = OUT_IN,
    compute_dtype: Array | str | None = None,
    kernels: Kernels = GENERIC,
    xp: Any = None,
) -> tuple[Array, MuonState]:
    """Return what Muon subtracts per unit of learning rate, and the new state.

    Momentum, then the matrices of the layout, orthogonalised, times the scale of their shape.

    Parameters
    ----------
    grad
        The gradient, at least two axes, real floating; with ``layout``, a stack of matrices. Never written.
    state
        The state so far; ``None`` at the first step.
    recipe
        How the direction comes about.
    step
        1-based count of this update; needed by ``momentum_form="ema_corrected"`` alone.
    momentum
        The decay of this step, where a schedule changes it; ``None`` takes the recipe's.
    layout
        The matrix view of the gradient.
    compute_dtype
        Overrules the recipe's; a recipe without one computes in the accumulation dtype of the gradient.
    kernels
        The matrix products.
    xp
        The namespace of ``grad``; looked up where it is not given.

    Returns
    -------
    tuple of array and MuonState
        The direction, like ``grad`` in float32 at least, and the new state.

    Raises
    ------
    ValueError
        If ``layout`` does not fit, or ``step`` is missing where it is needed.
    """
    xp = array_namespace(grad) if xp is None else xp
    beta = recipe.momentum if momentum is None else momentum
    own_dtype = grad.dtype
    grad = xp.astype(grad, accumulation_dtype(grad.dtype, xp))
    buffer = momentum_update(grad, None if state is None else state.momentum, beta=beta, form=recipe.momentum_form)
    followed = momentum_direction(
        grad, buffer, beta=beta, form=recipe.momentum_form, nesterov=recipe.nesterov, step=step, xp=xp
    )
    wanted = recipe.compute_dtype if compute_dtype is None else compute_dtype
    matrices = orthogonalize(
        layout.to_matrices(followed, xp),
        method=recipe.method,
        coefficients=recipe.coefficients,
        steps=recipe.steps,
        restarts=recipe.restarts,
        normalize=recipe.normalize,
        eps=recipe.eps,
        eps_mode=recipe.eps_mode,
        compute_dtype=own_dtype if wanted == "parameter" else wanted,
        kernels=kernels,
        xp=xp,
    )
    direction = layout.from_matrices(matrices, grad.shape, xp)
    return lr_scale(recipe.scale, *layout.fans(grad.shape)) * direction, MuonState(buffer)


def adamw_direction(
    grad: Array,
    state: AdamWState | None,
    recipe: AdamWRecipe,
    step: int | Array,
    *,
    beta_1: float | Array | None = None,
    xp: Any = None,
) -> tuple[Array, AdamWState]:
    """Return what AdamW subtracts per unit of learning rate, without decay, and the new state.

    Parameters
    ----------
    grad
        The gradient, any shape, real floating. Never written.
    state
        The state so far; ``None`` at the first step.
    recipe
        How the direction comes about.
    step
        1-based count of this update.
    beta_1
        The decay of this step, where a schedule changes it; ``None`` takes the recipe's.
    xp
        The namespace of ``grad``; looked up where it is not given.

    Returns
    -------
    tuple of array and AdamWState
        The direction, like ``grad`` in float32 at least, and the new state.
    """
    xp = array_namespace(grad) if xp is None else xp
    direction, moment_1, moment_2 = adaptive_moment(
        xp.astype(grad, accumulation_dtype(grad.dtype, xp)),
        None if state is None else state.moment_1,
        None if state is None else state.moment_2,
        step,
        beta_1=recipe.beta_1 if beta_1 is None else beta_1,
        beta_2=recipe.beta_2,
        eps=recipe.eps,
        xp=xp,
    )
    return direction, AdamWState(moment_1, moment_2)


def apply_direction(
    param: Array, direction: Array, *, lr: float | Array, weight_decay: float | Array, xp: Any = None
) -> Array:
    """Return ``param (1 - lr weight_decay) - lr direction``: decoupled decay, then the step.

    Parameters
    ----------
    param
        The parameter, any shape. Never written.
    direction
        What is subtracted per unit of learning rate, like ``param``, float32 at least.
    lr
        Learning rate of this step.
    weight_decay
        Weight decay of this step.
    xp
        The namespace of ``param``; looked up where it is not given.

    Returns
    -------
    array
        Like ``param``; computed in the dtype of ``direction`` and rounded once.
    """
    xp = array_namespace(param) if xp is None else xp
    wide = xp.astype(param, direction.dtype)
    return xp.astype(decoupled(wide, lr * weight_decay) - lr * direction, param.dtype)


def muon_step(
    param: Array,
    grad: Array,
    state: MuonState | None,
    recipe: MuonRecipe,
    *,
    lr: float | Array,
    weight_decay: float | Array = 0.0,
    step: int | Array | None = None,
    momentum: float | Array | None = None,
    layout: MatrixLayout = OUT_IN,
    compute_dtype: Array | str | None = None,
    kernels: Kernels = GENERIC,
    xp: Any = None,
) -> tuple[Array, MuonState]:
    """Return the parameter after one step of Muon, and the new state.

    Parameters
    ----------
    param
        The parameter, at least two axes. Never written.
    grad
        Its gradient, of the same shape.
    state
        The state so far; ``None`` at the first step.
    recipe
        How the direction comes about.
    lr
        Learning rate, before the recipe's scale.
    weight_decay
        Decoupled decay, multiplied by ``lr`` before the scale.
    step
        As for :func:`muon_direction`.
    momentum
        As for :func:`muon_direction`.
    layout
        The matrix view of the parameter.
    compute_dtype
        As for :func:`muon_direction`.
    kernels
        The matrix products.
    xp
        The namespace of ``param``; looked up where it is not given.

    Returns
    -------
    tuple of array and MuonState
        The new parameter, like ``param``, and the new state.

    Raises
    ------
    ValueError
        If ``layout`` does not fit, or ``step`` is missing where it is needed.
    """
    direction, state = muon_direction(
        grad,
        state,
        recipe,
        step=step,
        momentum=momentum,
        layout=layout,
        compute_dtype=compute_dtype,
        kernels=kernels,
        xp=xp,
    )
    return apply_direction(param, direction, lr=lr, weight_decay=weight_decay, xp=xp), state


def adamw_step(
    param: Array,
    grad: Array,
    state: AdamWState | None,
    recipe: AdamWRecipe,
    *,
    lr: float | Array,
    weight_decay: float | Array = 0.0,
    step: int | Array,
    beta_1: float | Array | None = None,
    xp: Any = None,
) -> tuple[Array, AdamWState]:
    """Return the parameter after one step of AdamW, and the new state.

    Parameters
    ----------
    param
        The parameter, any shape. Never written.
    grad
        Its gradient, of the same shape.
    state
        The state so far; ``None`` at the first step.
    recipe
        How the direction comes about.
    lr
        Learning rate.
    weight_decay
        Decoupled decay, multiplied by ``lr``.
    step
        1-based count of this update.
    beta_1
        As for :func:`adamw_direction`.
    xp
        The namespace of ``param``; looked up where it is not given.

    Returns
    -------
    tuple of array and AdamWState
        The new parameter, like ``param``, and the new state.
    """
    direction, state = adamw_direction(grad, state, recipe, step, beta_1=beta_1, xp=xp)
    return apply_direction(param, direction, lr=lr, weight_decay=weight_decay, xp=xp), state
