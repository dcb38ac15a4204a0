"""The formulas of the peers, each in one place: plain numpy, float64, and nothing of zeropower."""

import math
from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[np.float64]
Shape: TypeAlias = tuple[int, ...]
Triples: TypeAlias = tuple[tuple[float, float, float], ...]

# --- coefficients, one (a, b, c) for each step -------------------------------------------------------------------

KELLER: Triples = ((3.4445, -4.7750, 2.0315),) * 5  # K. Jordan, kellerjordan.github.io/posts/muon
YOU: Triples = (  # J. You, x.com/YouJiacheng/status/1905861218138804534
    (4.0848, -6.8946, 2.9270),
    (3.9505, -6.3029, 2.6377),
    (3.7418, -5.5913, 2.3037),
    (2.8769, -3.1427, 1.2046),
    (2.8366, -3.0525, 1.2012),
)
POLAR_NANOGPT: Triples = (  # Polar Express, arXiv:2505.16932, five steps, safety 2e-2, cushion 2; modded-nanogpt, dion
    (8.156554524902461, -22.48329292557795, 15.878769915207462),
    (4.042929935166739, -2.808917465908714, 0.5000178451051316),
    (3.8916678022926607, -2.772484153217685, 0.5060648178503393),
    (3.285753657755655, -2.3681294933425376, 0.46449024233003106),
    (2.3465413258596377, -1.7097828382687081, 0.42323551169305323),
)
_POLAR_PAPER: Triples = (  # arXiv:2505.16932, the first five
    (8.28721201814563, -23.595886519098837, 17.300387312530933),
    (4.107059111542203, -2.9478499167379106, 0.5448431082926601),
    (3.9486908534822946, -2.908902115962949, 0.5518191394370137),
    (3.3184196573706015, -2.488488024314874, 0.51004894012372),
    (2.300652019954817, -1.6689039845747493, 0.4188073119525673),
)
# gram-newton-schulz, coefficients.py: all five shrunk
POLAR_GRAM: Triples = tuple((a / 1.05, b / 1.05**3, c / 1.05**5) for a, b, c in _POLAR_PAPER)

# --- momentum: (gradient, buffer, beta, step from 1) -> (direction, new buffer) ------------------------------------

Momentum: TypeAlias = Callable[[Array, Array, float, int], tuple[Array, Array]]


def average(g: Array, m: Array, beta: float, t: int) -> tuple[Array, Array]:
    """Return the exponential average, and it."""
    m = beta * m + (1 - beta) * g
    return m, m


def average_nesterov(g: Array, m: Array, beta: float, t: int) -> tuple[Array, Array]:
    """Return the exponential average mixed with the gradient once more, and the average."""
    m = beta * m + (1 - beta) * g
    return beta * m + (1 - beta) * g, m


def average_corrected(g: Array, m: Array, beta: float, t: int) -> tuple[Array, Array]:
    """Return NAdam's direction, each part with its own bias correction, and the average."""
    m = beta * m + (1 - beta) * g
    return beta * m / (1 - beta ** (t + 1)) + (1 - beta) * g / (1 - beta**t), m


def average_added(g: Array, m: Array, beta: float, t: int) -> tuple[Array, Array]:
    """Return the gradient plus its exponential average, and the average."""
    m = beta * m + (1 - beta) * g
    return g + m, m


def heavy_ball(g: Array, m: Array, beta: float, t: int) -> tuple[Array, Array]:
    """Return the heavy ball, and it."""
    m = beta * m + g
    return m, m


def heavy_ball_nesterov(g: Array, m: Array, beta: float, t: int) -> tuple[Array, Array]:
    """Return the heavy ball looked ahead, and the heavy ball."""
    m = beta * m + g
    return g + beta * m, m


def nanogpt_momentum(step: int) -> float:
    """Return modded-nanogpt's momentum while it warms up; ``step`` from 0."""
    return 0.85 + min(step / 300, 1.0) * (0.95 - 0.85)


# --- orthogonalisation -------------------------------------------------------------------------------------------

Divisor: TypeAlias = Callable[[Array], Array]


def added(eps: float, safety: float = 1.0) -> Divisor:
    """Return the rule that divides by ``safety * norm + eps``."""
    return lambda norm: safety * norm + eps


def clamped(eps: float) -> Divisor:
    """Return the rule that divides by ``max(norm, eps)``."""
    return lambda norm: np.maximum(norm, eps)


def norms(x: Array) -> Array:
    """Return the Frobenius norm of each matrix ``(..., m, n)`` as ``(..., 1, 1)``."""
    return np.sqrt(np.sum(x * x, axis=(-2, -1), keepdims=True))


def orthogonalized(x: Array, table: Triples, divisor: Divisor) -> Array:
    """Return ``u p(s) vᵀ`` of each normalised matrix ``u s vᵀ``, p being the polynomials of the table in turn.

    It is formed as ``x v (p(s) / s) vᵀ``, or with u from the left where that is the shorter side: so each row of a tall
    matrix, however small, keeps all its digits, which second moments need.

    Parameters
    ----------
    x
        Matrices (..., m, n).
    table
        One (a, b, c) for each step.
    divisor
        What the norm makes the divisor.

    Returns
    -------
    Array
        Shaped like x.
    """
    x = x / divisor(norms(x))
    u, s, vt = np.linalg.svd(x, full_matrices=False)
    gain = np.ones_like(s)
    for a, b, c in table:
        factor = a + b * s**2 + c * s**4
        gain, s = gain * factor, s * factor
    if x.shape[-2] > x.shape[-1]:
        return x @ ((vt.mT * gain[..., None, :]) @ vt)
    return ((u * gain[..., None, :]) @ u.mT) @ x


# --- second moments of orthogonalised matrices: (matrix, state) -> (matrix, new state); the state starts at 0 -------

Moment: TypeAlias = Callable[[Array, Array], tuple[Array, Array]]


def no_moment(u: Array, v: Array) -> tuple[Array, Array]:
    """Return both as they are."""
    return u, v


def elements(u: Array, v: Array, *, beta2: float, eps: float) -> tuple[Array, Array]:
    """Divide by the root of the averaged squares."""
    v = beta2 * v + (1 - beta2) * u * u
    return u / (np.sqrt(v) + eps), v


def elements_unit(u: Array, v: Array, *, beta2: float, eps: float) -> tuple[Array, Array]:
    """Divide by the root of the averaged squares, and the whole by its norm plus eps."""
    u, v = elements(u, v, beta2=beta2, eps=eps)
    return u / (np.linalg.norm(u) + eps), v


def rows(u: Array, v: Array, *, beta2: float, eps: float) -> tuple[Array, Array]:
    """Divide each row by the root of its averaged mean square, and give each matrix its norm back; eps is added."""
    v = beta2 * v + (1 - beta2) * np.mean(u * u, axis=-1, keepdims=True)
    divided = u / (np.sqrt(v) + eps)
    return divided * norms(u) / (norms(divided) + eps), v


def longer_side(u: Array, v: Array, *, beta2: float, eps: float) -> tuple[Array, Array]:
    """Divide the rows of a tall or square matrix, the columns of a wide one, and give the norm back; eps clamps."""
    axis = -1 if u.shape[-2] >= u.shape[-1] else -2
    v = beta2 * v + (1 - beta2) * np.mean(u * u, axis=axis, keepdims=True)
    divided = u / np.sqrt(np.maximum(v, eps))
    return divided * norms(u) / np.maximum(norms(divided), eps), v


# --- scales of a matrix of m rows and n columns --------------------------------------------------------------------

Scale: TypeAlias = Callable[[int, int], float]


def shape_scale(m: int, n: int) -> float:
    """Return ``sqrt(max(1, m / n))``."""
    return math.sqrt(max(1.0, m / n))


def spectral_scale(m: int, n: int) -> float:
    """Return ``sqrt(m / n)``."""
    return math.sqrt(m / n)


def side_scale(m: int, n: int, *, factor: float = 1.0) -> float:
    """Return the root of the longer side, times a factor."""
    return factor * math.sqrt(max(m, n))


def size_scale(m: int, n: int) -> float:
    """Return 0.2 times the root of the number of elements."""
    return 0.2 * math.sqrt(m * n)


# --- the new parameter: (parameter, unscaled step, lr, scale, weight decay) -> parameter ---------------------------

Decay: TypeAlias = Callable[[Array, Array, float, float, float], Array]


def decoupled(p: Array, step: Array, lr: float, scale: float, weight_decay: float) -> Array:
    """Decay everywhere, by the unscaled lr; before or after the step is the same."""
    return p - lr * weight_decay * p - lr * scale * step


def cautious(p: Array, step: Array, lr: float, scale: float, weight_decay: float) -> Array:
    """Decay where step and parameter do not disagree, by lr times the scaled lr."""
    return p - (step * p >= 0) * weight_decay * lr * (scale * lr) * p - lr * scale * step


def strictly_cautious(p: Array, step: Array, lr: float, scale: float, weight_decay: float) -> Array:
    """Decay where step and parameter agree, by lr times the scaled lr."""
    return p - (step * p > 0) * weight_decay * lr * (scale * lr) * p - lr * scale * step


# --- Adam: (gradient, average, averaged squares, betas, eps, step from 1) -> step ----------------------------------

Quotient: TypeAlias = Callable[[Array, Array, Array, tuple[float, float], float, int], Array]


def eps_after(g: Array, m: Array, v: Array, betas: tuple[float, float], eps: float, t: int) -> Array:
    """Add eps to the root of the corrected squares."""
    return m / (1 - betas[0] ** t) / (np.sqrt(v / (1 - betas[1] ** t)) + eps)


def eps_before(g: Array, m: Array, v: Array, betas: tuple[float, float], eps: float, t: int) -> Array:
    """Add eps to the root of the squares, and correct the whole."""
    return m / (np.sqrt(v) + eps) * math.sqrt(1 - betas[1] ** t) / (1 - betas[0] ** t)


def eps_clamps(g: Array, m: Array, v: Array, betas: tuple[float, float], eps: float, t: int) -> Array:
    """Let eps bound the root of the corrected squares."""
    return m / (1 - betas[0] ** t) / np.maximum(np.sqrt(v / (1 - betas[1] ** t)), eps)


def nesterov(g: Array, m: Array, v: Array, betas: tuple[float, float], eps: float, t: int) -> Array:
    """Take NAdam's direction, with eps added to the root of the corrected squares."""
    ahead = betas[0] * m / (1 - betas[0] ** (t + 1)) + (1 - betas[0]) * g / (1 - betas[0] ** t)
    return ahead / (np.sqrt(v / (1 - betas[1] ** t)) + eps)


# --- the matrices of a parameter: shape -> shape -------------------------------------------------------------------

View: TypeAlias = Callable[[Shape], Shape]


def whole(shape: Shape) -> Shape:
    """Keep the shape: the last two axes are the matrix, those before a stack."""
    return shape


def flat(shape: Shape) -> Shape:
    """Merge all axes after the first."""
    return (shape[0], math.prod(shape[1:]))


def flat_filters(shape: Shape) -> Shape:
    """Merge the axes after the first of four."""
    return flat(shape) if len(shape) == 4 else shape
