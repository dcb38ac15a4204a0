"""One optimizer step, composed of the other rooms: directions, and steps that apply them to a parameter."""

from typing import Any, NamedTuple

from array_api_compat import array_namespace

from zeropower.decay import Decay, apply_direction, decayed_gradient
from zeropower.kernels import GENERIC, Array, Kernels
from zeropower.layout import OUT_IN, MatrixLayout
from zeropower.moments import adaptive_moment
from zeropower.momentum import momentum_direction, momentum_update
from zeropower.newton_schulz import orthogonalize
from zeropower.normalize import accumulation_dtype
from zeropower.recipes import AdamWRecipe, MuonRecipe


class MuonState(NamedTuple):
    """What Muon keeps of a parameter."""

    momentum: Array  # like the parameter, float32 at least; changes with every gradient
    moment_2: Array | None = None  # SecondMoment.shape, float32 at least; None where the recipe has none


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

    Momentum, then the matrices of the layout, orthogonalised, divided by a second moment if the recipe has one, times
    the scale of their shape. A decay that joins the gradient is not in it: :func:`muon_step` adds it before.

    Parameters
    ----------
    grad
        The gradient, at least two axes, real floating; with ``layout``, a stack of matrices. Never written.
    state
        The state so far; ``None`` at the first step.
    recipe
        How the direction comes about.
    step
        1-based count of this update; needed by ``momentum_form="ema_corrected"`` and a second moment that is
        corrected alone.
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
        safety=recipe.safety,
        cast=recipe.cast,
        compute_dtype=own_dtype if wanted == "parameter" else wanted,
        kernels=kernels,
        xp=xp,
    )
    direction, moment_2 = layout.from_matrices(matrices, grad.shape, xp), None
    if recipe.second_moment is not None:
        known = None if state is None else state.moment_2
        direction, moment_2 = recipe.second_moment.apply(direction, known, layout, step=step, xp=xp)
    return recipe.lr_scale(*layout.fans(grad.shape)) * direction, MuonState(buffer, moment_2)


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
        eps_mode=recipe.eps_mode,
        eps_root=recipe.eps_root,
        bias_correction=recipe.bias_correction,
        nesterov=recipe.nesterov,
        xp=xp,
    )
    return direction, AdamWState(moment_1, moment_2)


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
        Weight decay, which acts as the recipe says; decoupled, it is multiplied by ``lr`` before the scale.
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
    xp = array_namespace(param) if xp is None else xp
    direction, state = muon_direction(
        _seen(grad, param, recipe, weight_decay, xp),
        state,
        recipe,
        step=step,
        momentum=momentum,
        layout=layout,
        compute_dtype=grad.dtype if (compute_dtype or recipe.compute_dtype) == "parameter" else compute_dtype,
        kernels=kernels,
        xp=xp,
    )
    scale = recipe.lr_scale(*layout.fans(param.shape))
    moved = apply_direction(param, direction, lr=lr, weight_decay=weight_decay, rule=recipe, scale=scale, xp=xp)
    return moved, state


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
        Weight decay, which acts as the recipe says; decoupled, it is multiplied by ``lr``.
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
    xp = array_namespace(param) if xp is None else xp
    seen = _seen(grad, param, recipe, weight_decay, xp)
    direction, state = adamw_direction(seen, state, recipe, step, beta_1=beta_1, xp=xp)
    return apply_direction(param, direction, lr=lr, weight_decay=weight_decay, rule=recipe, xp=xp), state


def _seen(grad: Array, param: Array, rule: Decay, weight_decay: float | Array, xp: Any) -> Array:
    """Return the gradient with the decay that joins it, in float32 at least where one does."""
    if rule.decay != "gradient":
        return grad
    wide = accumulation_dtype(grad.dtype, xp)
    return decayed_gradient(xp.astype(grad, wide), xp.astype(param, wide), rule, weight_decay)
