"""What a peer is: another project's Muon, how to run it, and what it accepts."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as distribution_version
from types import ModuleType
from typing import Literal, Protocol, TypeAlias

import numpy as np

from zeropower.conformance.peers.load import quiet

Arrays: TypeAlias = Mapping[str, np.ndarray]
"""Arrays by the name of the case."""

Shape: TypeAlias = Literal["wide", "tall", "square", "stack", "conv", "vector"]
"""A kind of parameter: three of two axes, ``(batch, rows, columns)``, ``(out, in, height, width)``, and one axis."""

MATRICES: tuple[Shape, ...] = ("wide", "tall", "square")
"""What every peer gives to its Muon."""

ALL_SHAPES: tuple[Shape, ...] = (*MATRICES, "stack", "conv", "vector")
"""Every kind."""


class Run(Protocol):
    """Runs a peer's optimizer."""

    def __call__(
        self, params: Arrays, grads: Sequence[Arrays], *, lr: Sequence[float], weight_decay: float
    ) -> dict[str, np.ndarray]:
        """Take one step for each learning rate and return the parameters after the last.

        Parameters
        ----------
        params
            The start, float32 or float64, ``(out, in)`` as in PyTorch; never written. What has one axis goes to the
            peer's fallback optimizer, all else to its Muon.
        grads
            The gradients of each step, by the same names; never written.
        lr
            The learning rate of each step, for Muon and fallback alike.
        weight_decay
            The weight decay, for Muon and fallback alike.

        Returns
        -------
        dict of str to numpy.ndarray
            The parameters after the last step, in the dtypes of the start.
        """
        ...


@dataclass(frozen=True, kw_only=True)
class Peer:
    """Another project's Muon. Whatever ``run`` is not given is the peer's default.

    Attributes
    ----------
    name
        What tables call it.
    dialect
        The dialect that reproduces it.
    distribution
        What the package registry calls it.
    module
        What is imported.
    run
        Runs it.
    shapes
        The kinds of parameters that it takes.
    stack
        What three axes mean to it: ``"batch"``, the first counts matrices; ``"flatten"``, the last two merge into
        columns; ``None`` where it does not take them.
    hard_wired
        The dtype of its iteration where that does not follow the parameters' dtype; ``None`` where it does.
    load
        Imports ``module``.
    notes
        What to know about it, in a line.
    """

    name: str
    dialect: str
    distribution: str
    module: str
    run: Run = field(repr=False)
    shapes: tuple[Shape, ...]
    stack: Literal["batch", "flatten"] | None = None
    hard_wired: Literal["bfloat16", "float16"] | None = None
    load: Callable[[str], ModuleType] = field(default=import_module, repr=False)
    notes: str = ""


def version(peer: Peer) -> str | None:
    """Return the installed version of a peer's distribution, or ``None``."""
    try:
        return distribution_version(peer.distribution)
    except PackageNotFoundError:
        return None


def missing(peer: Peer) -> str | None:
    """Return why a peer cannot run here, or ``None`` if it can; this imports it.

    Parameters
    ----------
    peer
        The peer.

    Returns
    -------
    str or None
        The reason.
    """
    if version(peer) is None:
        return f"{peer.distribution} is not installed"
    try:
        with quiet():
            peer.load(peer.module)
    except Exception as error:  # a peer's import may fail in any way: a missing compiler, a device, a clash of versions
        return f"{peer.module} cannot be imported: {type(error).__name__}: {error}"
    return None
