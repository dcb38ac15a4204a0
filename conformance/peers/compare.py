"""Dialects beside the peers that they reproduce: the same start, the same gradients, ten steps.

Three questions, each with a bound that is not chosen:

* **formula**: the peer with its 16-bit casts lifted, in float64, against the core in float64. Both compute the same
  real function, so only roundings of 1e-16 may be between them.
* **float32**: the same in float32, against the core and against each optimizer of ours. The bound is four times what
  the core's own result changes by when every gradient moves by one unit in the last place, and what the peer's float32
  differs from its float64 (some compute ``1 - beta^t`` in float32, which is wrong by 2e-5 at 0.999).
* **as installed**: a peer that hard-wires 16 bits, against the core in the same dtype. The peer differs from its own
  order of operations in float32 by what 16 bits cost, at most, over its cases; the core may differ from the peer by
  four times that. Where the peer's recipe is unsound, single roundings decide whether a matrix blows up, and nothing
  is compared.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from zeropower import CONV, DIALECTS, OUT_IN, Backend, MatrixLayout, adamw_step, muon_step
from zeropower.conformance.peers.answers import Answer, Question
from zeropower.conformance.peers.lift import full_precision
from zeropower.conformance.peers.peer import Arrays, Peer
from zeropower.conformance.tolerances import SAFETY, gradient_response
from zeropower.conformance.vectors import FORMULA, stored


class Problem(NamedTuple):
    """A start and gradients for the cases that a peer takes."""

    params: dict[str, np.ndarray]
    grads: list[dict[str, np.ndarray]]
    lr: list[float]
    weight_decay: float

    def run(self, run: Callable[..., Mapping[str, np.ndarray]]) -> Mapping[str, np.ndarray]:
        """Return what a peer makes of it."""
        return run(self.params, self.grads, lr=self.lr, weight_decay=self.weight_decay)


def compare(peer: Peer, backends: Sequence[Backend] = ()) -> list[Answer]:
    """Run a peer and what reproduces it, and compare.

    Parameters
    ----------
    peer
        One that can run here.
    backends
        Those whose optimizers are compared as well.

    Returns
    -------
    list of Answer
        For every question that the peer gives cause to, and every case that it takes.
    """
    wide, single = _problem(peer, "float64"), _problem(peer, "float32")
    with full_precision():
        exact, lifted = wide.run(peer.run), single.run(peer.run)
    answers = _answers("formula", "core", _core(peer, wide), exact, wide.params, dict.fromkeys(exact, FORMULA))

    def core(grads: Sequence[Arrays]) -> Mapping[str, np.ndarray]:
        return _core(peer, single._replace(grads=list(map(dict, grads))))

    allowed = gradient_response(core, single.grads)
    bounds = {
        case: (allowed[case] * _size(lifted[case]) + _size(lifted[case] - exact[case]))
        / _movement(lifted, single.params, case)
        for case in lifted
    }
    answers += _answers("float32", "core", core(single.grads), lifted, single.params, bounds)
    for backend in backends:
        ours = _optimizer(backend, peer, single)
        answers += _answers("float32", backend.name, ours, lifted, single.params, bounds)
    if peer.hard_wired is None or DIALECTS[peer.dialect].muon.unsound:
        return answers
    matrices = [case for case in single.params if case != "vector"]
    installed = single.run(peer.run)
    rounding = max(
        _size(installed[case] - lifted[case]) / _movement(installed, single.params, case) for case in matrices
    )
    ours = _core(peer, single, compute_dtype=peer.hard_wired)
    bounds = dict.fromkeys(matrices, SAFETY * rounding)
    return [*answers, *_answers("as installed", "core", ours, installed, single.params, bounds)]


def _problem(peer: Peer, dtype: str) -> Problem:
    golden = stored()
    params = {case: golden[f"start/{case}"].astype(dtype) for case in peer.shapes}
    count = len(golden["lr"])
    grads = [{case: golden[f"grads/{case}"][t].astype(dtype) for case in peer.shapes} for t in range(count)]
    return Problem(params, grads, golden["lr"].tolist(), float(golden["weight_decay"]))


def _layout(peer: Peer, case: str) -> MatrixLayout:
    flat = case == "conv" or (case == "stack" and peer.stack == "flatten")
    return CONV if flat else OUT_IN


def _core(peer: Peer, problem: Problem, compute_dtype: str | None = None) -> dict[str, np.ndarray]:
    """Run the core's functions: in numpy, or in PyTorch where numpy lacks the compute dtype."""
    import array_api_compat.torch as xp
    import torch

    dialect, moved = DIALECTS[peer.dialect], dict[str, np.ndarray]()
    for case, start in problem.params.items():
        param: Any = torch.tensor(start)
        state: Any = None
        for step, (lr, grads) in enumerate(zip(problem.lr, problem.grads, strict=True), start=1):
            grad = torch.tensor(grads[case])
            rates: dict[str, Any] = {"lr": lr, "weight_decay": problem.weight_decay, "step": step, "xp": xp}
            if case == "vector":
                param, state = adamw_step(param, grad, state, dialect.adamw, **rates)
                continue
            options: dict[str, Any] = {
                "layout": _layout(peer, case),
                "compute_dtype": compute_dtype or start.dtype.name,
            }
            param, state = muon_step(param, grad, state, dialect.muon, **rates, **options)
        moved[case] = param.numpy()
    return moved


def _optimizer(backend: Backend, peer: Peer, problem: Problem) -> dict[str, np.ndarray]:
    """Run a backend's own optimizer on what has one or two axes."""
    dialect, run = DIALECTS[peer.dialect], backend.optimizer
    moved: dict[str, np.ndarray] = {}
    if run is None:
        return moved
    matrices = [case for case, start in problem.params.items() if start.ndim == 2]
    vectors = [case for case, start in problem.params.items() if start.ndim == 1]
    muon = replace(dialect.muon, compute_dtype="float32")
    for kind, recipe, cases in (("muon", muon, matrices), ("adamw", dialect.adamw, vectors)):
        if cases:
            params = {case: problem.params[case] for case in cases}
            grads = [{case: step[case] for case in cases} for step in problem.grads]
            decay = problem.weight_decay
            moved |= run(params, grads, kind=kind, recipe=recipe, lr=problem.lr, weight_decay=decay)
    return moved


def _answers(
    question: Question,
    name: str,
    ours: Mapping[str, np.ndarray],
    theirs: Mapping[str, np.ndarray],
    start: Arrays,
    bounds: Mapping[str, float],
) -> list[Answer]:
    return [
        Answer(question, name, case, _size(ours[case] - theirs[case]) / _movement(theirs, start, case), bounds[case])
        for case in bounds
        if case in ours
    ]


def _movement(end: Mapping[str, np.ndarray], start: Arrays, case: str) -> float:
    return _size(end[case] - start[case])


def _size(x: np.ndarray) -> float:
    return float(np.linalg.norm(np.asarray(x, dtype=np.float64).ravel()))
