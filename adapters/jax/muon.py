"""Muon as optax has it, over the core's iteration: the same arguments, the same trajectory in float32."""

from typing import Any, Literal, TypeAlias

import optax
from jax.typing import ArrayLike

from zeropower import AdamWRecipe, MuonRecipe, lr_scale
from zeropower.checks import errors_naming
from zeropower.jax.directions import adamw_directions, muon_directions
from zeropower.jax.dispatch import Compute, follow, follow_leaf, follow_order
from zeropower.jax.missing import spare_missing
from zeropower.jax.options import float_dtype, number, optax_recipe, rate, scalar
from zeropower.jax.precision import rounded
from zeropower.jax.routing import Views, declared_views
from zeropower.jax.updates import as_updates, partition
from zeropower.soundness import DtypeName

Preconditioning: TypeAlias = Literal["frobenius", "aol", "schatten"]
_KELLER = (3.4445, -4.7750, 2.0315)
_RMS_RULE = "match_rms_adamw"
_HELD_BY_A_RECIPE: dict[str, Any] = {
    "ns_coeffs": _KELLER,
    "ns_steps": 5,
    "beta": 0.95,
    "eps": 1e-8,
    "nesterov": True,
    "preconditioning": "frobenius",
}


def scale_by_muon(
    ns_coeffs: Any = _KELLER,
    ns_steps: ArrayLike = 5,
    beta: ArrayLike = 0.95,
    eps: ArrayLike = 1e-8,
    mu_dtype: Any = None,
    *,
    nesterov: bool = True,
    adaptive: bool = False,
    preconditioning: Preconditioning = "frobenius",
    weight_dimension_numbers: Any = None,
    recipe: MuonRecipe | None = None,
    compute_dtype: DtypeName | None = None,
) -> optax.GradientTransformationExtraArgs:
    """Return the bare transformation: momentum, orthogonalised matrix by matrix.

    Its updates are directions, to be scaled by ``-learning_rate``. Described by optax's arguments they do not depend
    on the shape, as in optax; described by a recipe they have its scale. Where the gradient of a parameter is
    ``None``, its update is zero, and its momentum and its count stay as they are; its update needs ``params``.

    Parameters
    ----------
    ns_coeffs
        As for :func:`muon`.
    ns_steps
        As for :func:`muon`.
    beta
        As for :func:`muon`.
    eps
        As for :func:`muon`.
    mu_dtype
        As for :func:`muon`.
    nesterov
        As for :func:`muon`.
    adaptive
        As for :func:`muon`.
    preconditioning
        As for :func:`muon`.
    weight_dimension_numbers
        ``MuonDimensionNumbers`` or ``zeropower.MatrixLayout`` for all parameters, a tree of them, or a function from
        the parameters to such a tree. ``None``: every parameter has two axes, (in, out).
    recipe
        How a direction comes about, instead of the arguments above but ``mu_dtype`` and ``adaptive``.
    compute_dtype
        The dtype of the iteration. ``None``: with a recipe, what it wants and the device multiplies; else the dtype
        of the parameter.

    Returns
    -------
    optax.GradientTransformationExtraArgs
        State: :class:`zeropower.jax.directions.ScaleByMuonState`. Every parameter must have at least two axes.

    Raises
    ------
    ValueError
        If an argument is out of range, or a recipe comes with arguments that it holds.
    """
    arguments: dict[str, Any] = {
        "ns_coeffs": ns_coeffs,
        "ns_steps": ns_steps,
        "beta": beta,
        "eps": eps,
        "nesterov": nesterov,
        "preconditioning": preconditioning,
    }
    mu_dtype = float_dtype("mu_dtype", mu_dtype)
    compute: Compute
    if recipe is None:
        recipe = optax_recipe(**arguments, scale="none")
        compute = follow_leaf(mu_dtype)
    else:
        defaults = _HELD_BY_A_RECIPE
        clashing = [k for k, v in arguments.items() if type(v) is not type(defaults[k]) or v != defaults[k]]
        if clashing:
            raise ValueError(f"recipe={recipe!r} comes with {', '.join(clashing)}; accepted: one or the other")
        compute = follow(recipe.compute_dtype, mu_dtype)
    if compute_dtype is not None:
        compute = follow_order(compute_dtype)
    views = declared_views(weight_dimension_numbers, argument="weight_dimension_numbers")
    directions = muon_directions(recipe, views, compute=compute, mu_dtype=mu_dtype, adaptive=adaptive)
    return spare_missing(rounded(directions))


def muon(
    learning_rate: optax.ScalarOrSchedule,
    ns_coeffs: Any = _KELLER,
    ns_steps: ArrayLike = 5,
    beta: ArrayLike = 0.95,
    eps: ArrayLike = 1e-8,
    weight_decay: ArrayLike = 0.0,
    weight_decay_mask: Any = None,
    mu_dtype: Any = None,
    *,
    nesterov: bool = True,
    adaptive: bool = False,
    preconditioning: Preconditioning = "frobenius",
    adam_b1: ArrayLike = 0.9,
    adam_b2: ArrayLike = 0.999,
    adam_eps_root: ArrayLike = 0.0,
    adam_weight_decay: ArrayLike = 0.0,
    adam_learning_rate: optax.ScalarOrSchedule | None = None,
    muon_weight_dimension_numbers: Any = None,
    consistent_rms: ArrayLike | None = None,
) -> optax.GradientTransformationExtraArgs:
    """Return Muon for matrices and Adam for all else, with the arguments of ``optax.contrib.muon``.

    Changing the import changes the speed, not the trajectory (float32, optax 0.2.8), but for what loses training
    there: norms and moments are computed in float32 at least, so that float16 neither overflows nor turns a zero
    gradient into NaN and a 16-bit second moment does not freeze; and no floor stalls small gradients under ``"aol"``
    and ``"schatten"``. As in optax, embeddings and heads of two axes go to Muon unless
    ``muon_weight_dimension_numbers`` says otherwise, and Adam is Nesterov's; :func:`muon_adamw` does neither. Where
    the gradient of a parameter is ``None``, its update is zero, and its state and its count stay as they are.

    Parameters
    ----------
    learning_rate
        A number, a 0-d array (possibly traced), or a schedule of the count of updates so far.
    ns_coeffs
        ``"muon"`` or ``"standard"`` (Keller Jordan's), ``"dion"``, another name of ``zeropower.TABLES``, one
        ``(a, b, c)``, or one triple a step.
    ns_steps
        Steps of the iteration, at least 1. ``"dion"`` and given triples decide themselves, and it must not be less.
    beta
        Decay of the momentum, in [0, 1).
    eps
        Added to the Frobenius norm, and to the root of Adam's second moment.
    weight_decay
        Decoupled decay of matrices, multiplied by the learning rate; a number or a schedule.
    weight_decay_mask
        Where matrices decay, as ``optax.add_decayed_weights`` takes it.
    mu_dtype
        The dtype that momentum and Adam's first moment are kept in; ``None`` is the parameter's, float32 at least.
    nesterov
        Whether momentum and Adam's first moment look one update ahead.
    adaptive
        Whether a direction is multiplied by its inner product with the momentum, over the whole parameter.
    preconditioning
        ``"frobenius"``, ``"aol"`` or ``"schatten"``. optax's ``"spectral"``, an SVD at every step, is refused, and
        ``"aol"`` weighs the first side in memory of a square matrix, where optax weighs fan-in.
    adam_b1
        Decay of Adam's first moment.
    adam_b2
        Decay of Adam's second moment.
    adam_eps_root
        Added to Adam's second moment under the root.
    adam_weight_decay
        Decoupled decay of what is no matrix.
    adam_learning_rate
        Adam's learning rate; ``None`` takes ``learning_rate``.
    muon_weight_dimension_numbers
        ``MuonDimensionNumbers`` or ``zeropower.MatrixLayout`` by parameter: one for all, a tree, or a function from
        the parameters to a tree; ``None`` in it means Adam. ``None``: parameters of two axes are (in, out).
    consistent_rms
        ``None`` scales by ``sqrt(max(1, fan_out / fan_in))``; a number r by ``r sqrt(max(fan_in, fan_out))``.

    Returns
    -------
    optax.GradientTransformationExtraArgs
        ``optax.partition`` of ``"muon"`` and ``"adam"``; its updates have the dtype of the parameters.

    Raises
    ------
    ValueError
        If an argument is out of range.
    """
    learning_rate = rate("learning_rate", learning_rate)
    adam_learning_rate = rate("adam_learning_rate", adam_learning_rate, default=learning_rate)
    weight_decay, adam_weight_decay = rate("weight_decay", weight_decay), rate("adam_weight_decay", adam_weight_decay)
    recipe = optax_recipe(
        ns_coeffs=ns_coeffs,
        ns_steps=ns_steps,
        beta=beta,
        eps=eps,
        nesterov=nesterov,
        preconditioning=preconditioning,
        scale="original" if consistent_rms is None else _RMS_RULE,
    )
    with errors_naming({"beta_1": "adam_b1", "beta_2": "adam_b2", "eps_root": "adam_eps_root"}):
        adam_recipe = AdamWRecipe(
            beta_1=scalar(adam_b1),
            beta_2=scalar(adam_b2),
            eps=scalar(eps),
            eps_root=scalar(adam_eps_root),
            nesterov=nesterov,
        )
    rms = _rms(consistent_rms)
    mu_dtype = float_dtype("mu_dtype", mu_dtype)
    views = declared_views(muon_weight_dimension_numbers, argument="muon_weight_dimension_numbers")
    adam = adamw_directions(adam_recipe, mu_dtype=mu_dtype)
    compute = follow_leaf(mu_dtype)

    def matrices(views: Views) -> optax.GradientTransformation:
        directions = muon_directions(recipe, views, compute=compute, mu_dtype=mu_dtype, adaptive=adaptive)
        return as_updates(
            directions, rms, learning_rate=learning_rate, weight_decay=weight_decay, mask=weight_decay_mask
        )

    others = as_updates(adam, learning_rate=adam_learning_rate, weight_decay=adam_weight_decay)
    return spare_missing(partition(matrices, others, views, adamw_label="adam"))


def _rms(wanted: ArrayLike | None) -> optax.GradientTransformation:
    """Bring the constant root mean square of the core's rule to the one that is wanted."""
    if wanted is None:
        return optax.identity()
    return optax.scale(number("consistent_rms", wanted) / lr_scale(_RMS_RULE, 1, 1))
