"""Second moments of an orthogonalised direction: what NorMuon and AdaMuon do between the iteration and the scale."""

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from array_api_compat import array_namespace

from zeropower.checks import require_choice, require_number
from zeropower.kernels import Array
from zeropower.layout import MatrixLayout
from zeropower.moments import in_dtype, one_minus_power
from zeropower.normalize import EPS_MODES, EpsMode

Per: TypeAlias = Literal["fan_out", "longer_side", "element"]
PER: tuple[Per, ...] = ("fan_out", "longer_side", "element")
Rescale: TypeAlias = Literal["none", "norm", "orthogonal"]
RESCALES: tuple[Rescale, ...] = ("none", "norm", "orthogonal")


@dataclass(frozen=True, kw_only=True)
class SecondMoment:
    """How a direction ``u`` is divided by the root of a second moment.

    ``v <- beta v + (1 - beta) mean(u²)``, then ``u / (sqrt(v) + eps)``, or ``u / sqrt(max(v, eps))``, then a rescaling
    of each matrix. (NorMuon: Li et al., arXiv:2510.05491; AdaMuon: Si et al., arXiv:2507.11005.)

    Attributes
    ----------
    per
        What has a moment of its own: ``"fan_out"``, each neuron, that is the mean is over the fan-in (NorMuon, Dion);
        ``"longer_side"``, each row or column, whichever there are more of, and the mean is over the shorter side
        (modded-nanogpt, Emerging-Optimizers; of a square matrix, the rows); ``"element"`` (AdaMuon).
    beta
        Decay of the moment, in [0, 1).
    eps
        Keeps the divisor from zero, at least 0.
    eps_mode
        ``"add"``: to the root; ``"clamp"``: the moment from below, under the root. The norm by which ``rescale``
        divides is treated alike.
    bias_correction
        Whether the moment is divided by ``1 - beta^t``.
    rescale
        ``"norm"``: to the Frobenius norm that the matrix had before; ``"orthogonal"``: to that of an orthogonal matrix
        of its shape, ``sqrt(min(m, n))``; ``"none"``.

    Raises
    ------
    ValueError
        If a field is out of range.
    """

    per: Per = "fan_out"
    beta: float = 0.95
    eps: float = 1e-8
    eps_mode: EpsMode = "add"
    bias_correction: bool = False
    rescale: Rescale = "norm"

    def __post_init__(self) -> None:
        require_choice("second_moment.per", self.per, PER)
        require_number("second_moment.beta", self.beta, low=0.0, high=1.0, high_open=True)
        require_number("second_moment.eps", self.eps, low=0.0)
        require_choice("second_moment.eps_mode", self.eps_mode, EPS_MODES)
        require_choice("second_moment.rescale", self.rescale, RESCALES)

    def shape(self, shape: tuple[int, ...], layout: MatrixLayout) -> tuple[int, ...]:
        """Return the shape of the moment of a parameter: its own, with size 1 along the axes of the mean.

        Parameters
        ----------
        shape
            The parameter's.
        layout
            Its matrix view.

        Returns
        -------
        tuple of int
            As many axes as the parameter has.
        """
        axes = self._mean_axes(shape, layout)
        return tuple(1 if axis - len(shape) in axes else size for axis, size in enumerate(shape))

    def apply(
        self, direction: Array, moment: Array | None, layout: MatrixLayout, *, step: int | Array | None, xp: Any = None
    ) -> tuple[Array, Array]:
        """Return the direction over the root of its second moment, and the moment.

        Parameters
        ----------
        direction
            The orthogonalised direction in the parameter's shape, float32 at least.
        moment
            The moment so far, of :meth:`shape`; ``None`` at the first step.
        layout
            The matrix view.
        step
            1-based count of this update; ``bias_correction`` alone needs it.
        xp
            The namespace; looked up where it is not given.

        Returns
        -------
        tuple of array
            The new direction and the new moment.

        Raises
        ------
        ValueError
            If the step is missing where it is needed.
        """
        xp = array_namespace(direction) if xp is None else xp
        axes = self._mean_axes(direction.shape, layout)
        square = direction * direction
        fresh = (1.0 - self.beta) * (xp.mean(square, axis=axes, keepdims=True) if axes else square)
        known: Array = fresh if moment is None else self.beta * moment + fresh
        corrected = known
        if self.bias_correction:
            if step is None:
                raise ValueError("step=None; accepted with bias_correction=True: the 1-based count of this update")
            corrected = known / in_dtype(one_minus_power(self.beta, step, xp=xp), known, xp)
        clamps = self.eps_mode == "clamp"
        root = xp.maximum(corrected, self.eps) ** 0.5 if clamps else corrected**0.5 + self.eps
        divided = direction / xp.where(root == 0, xp.ones_like(root), root)
        return self._rescaled(divided, square, layout, xp), known

    def _rescaled(self, divided: Array, square: Array, layout: MatrixLayout, xp: Any) -> Array:
        if self.rescale == "none":
            return divided
        sides = layout.sides(divided.ndim)
        matrix = sides[0] + sides[1]
        norm = xp.sum(divided * divided, axis=matrix, keepdims=True) ** 0.5
        norm = xp.maximum(norm, self.eps) if self.eps_mode == "clamp" else norm + self.eps
        if self.rescale == "norm":
            wanted = xp.sum(square, axis=matrix, keepdims=True) ** 0.5
        else:
            wanted = min(layout.fans(divided.shape)) ** 0.5
        return divided * (wanted / xp.where(norm == 0, xp.ones_like(norm), norm))

    def _mean_axes(self, shape: tuple[int, ...], layout: MatrixLayout) -> tuple[int, ...]:
        """Return the axes that share a moment, counted from the end."""
        if self.per == "element":
            return ()
        rows, columns = layout.sides(len(shape))
        fan_out, fan_in = layout.fans(shape)
        return rows if self.per == "longer_side" and fan_out < fan_in else columns
