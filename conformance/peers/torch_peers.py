"""The peers that are PyTorch optimizers."""

from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from importlib import import_module
from typing import Any, Literal, TypeAlias
from unittest.mock import patch

import numpy as np

from zeropower.conformance.peers.lift import default_dtype, lifted
from zeropower.conformance.peers.load import load_submodule, quiet
from zeropower.conformance.peers.peer import Arrays

Build: TypeAlias = Callable[[list[Any], list[Any], float, float], list[Any]]
"""From matrices, vectors, learning rate and weight decay to optimizers."""


@quiet()
def run_torch(
    params: Arrays, grads: Sequence[Arrays], *, lr: Sequence[float], weight_decay: float
) -> dict[str, np.ndarray]:
    """Run ``torch.optim.Muon``, and ``torch.optim.AdamW`` for vectors."""
    from torch.optim import Muon

    def build(matrices: list[Any], vectors: list[Any], rate: float, decay: float) -> list[Any]:
        muon = [Muon(matrices, lr=rate, weight_decay=decay)] if matrices else []
        return [*muon, *_adamw(vectors, rate, decay)]

    return _run(build, params, grads, lr, weight_decay)


@quiet()
def run_keller(
    params: Arrays, grads: Sequence[Arrays], *, lr: Sequence[float], weight_decay: float
) -> dict[str, np.ndarray]:
    """Run ``muon.SingleDeviceMuonWithAuxAdam`` of muon-optimizer."""
    optimizer = import_module("muon").SingleDeviceMuonWithAuxAdam

    def build(matrices: list[Any], vectors: list[Any], rate: float, decay: float) -> list[Any]:
        return [optimizer(_flagged_groups(matrices, vectors, rate, decay))]

    return _run(build, params, grads, lr, weight_decay)


@quiet()
def run_timm(
    params: Arrays, grads: Sequence[Arrays], *, lr: Sequence[float], weight_decay: float
) -> dict[str, np.ndarray]:
    """Run ``timm.optim.muon.Muon``; its flags, not its rules about sizes, say what is a matrix."""
    return _run(_timm_builder("muon"), params, grads, lr, weight_decay)


@quiet()
def run_timm_adamuon(
    params: Arrays, grads: Sequence[Arrays], *, lr: Sequence[float], weight_decay: float
) -> dict[str, np.ndarray]:
    """Run ``timm.optim.muon.Muon(algo="adamuon")``."""
    return _run(_timm_builder("adamuon"), params, grads, lr, weight_decay)


def _timm_builder(algo: Literal["muon", "adamuon"]) -> Build:
    optimizer: Any = load_submodule("timm.optim.muon").Muon

    def build(matrices: list[Any], vectors: list[Any], rate: float, decay: float) -> list[Any]:
        groups = [{"params": matrices, "use_muon": True}, {"params": vectors, "use_fallback": True}]
        groups = [group for group in groups if group["params"]]
        return [optimizer(groups, lr=rate, weight_decay=decay, algo=algo)]

    return build


@quiet()
def run_heavyball(
    params: Arrays, grads: Sequence[Arrays], *, lr: Sequence[float], weight_decay: float
) -> dict[str, np.ndarray]:
    """Run ``heavyball.Muon``, and ``heavyball.AdamW`` for vectors; uncompiled, which its ``compile_mode`` provides."""
    heavyball: Any = import_module("heavyball")

    def build(matrices: list[Any], vectors: list[Any], rate: float, decay: float) -> list[Any]:
        muon = [heavyball.Muon(matrices, lr=rate, weight_decay=decay)] if matrices else []
        adamw = [heavyball.AdamW(vectors, lr=rate, weight_decay=decay)] if vectors else []
        return [*muon, *adamw]

    with ExitStack() as stack:
        stack.enter_context(patch.object(heavyball.utils, "compile_mode", None))
        if lifted():
            # it rounds by masking bits, which is no cast
            stack.enter_context(patch.object(heavyball.utils, "stochastic_round_", _unrounded))
        return _run(build, params, grads, lr, weight_decay)


def _unrounded(ref: Any, source: Any = None) -> Any:
    return ref if source is None else source


@quiet()
def run_pytorch_optimizer(
    params: Arrays, grads: Sequence[Arrays], *, lr: Sequence[float], weight_decay: float
) -> dict[str, np.ndarray]:
    """Run ``pytorch_optimizer.Muon``."""
    optimizer: Any = import_module("pytorch_optimizer").Muon

    def build(matrices: list[Any], vectors: list[Any], rate: float, decay: float) -> list[Any]:
        return [optimizer(_flagged_groups(matrices, vectors, rate, decay))]

    return _run(build, params, grads, lr, weight_decay)


@quiet()
def run_gram(
    params: Arrays, grads: Sequence[Arrays], *, lr: Sequence[float], weight_decay: float
) -> dict[str, np.ndarray]:
    """Run ``gram_newton_schulz.Muon`` without kernels, and ``torch.optim.AdamW`` below it for vectors."""
    optimizer: Any = import_module("gram_newton_schulz").Muon

    def build(matrices: list[Any], vectors: list[Any], rate: float, decay: float) -> list[Any]:
        if not matrices:
            return _adamw(vectors, rate, decay)
        below = next(iter(_adamw(vectors, rate, decay)), None)
        return [optimizer(matrices, lr=rate, weight_decay=decay, ns_use_kernels=False, scalar_optimizer=below)]

    return _run(build, params, grads, lr, weight_decay)


@quiet()
def run_optimuon(
    params: Arrays, grads: Sequence[Arrays], *, lr: Sequence[float], weight_decay: float
) -> dict[str, np.ndarray]:
    """Run ``optimuon.Muon``, and ``torch.optim.AdamW`` for vectors, the default of ``optimuon.CompositeMuon``."""
    optimizer: Any = import_module("optimuon").Muon

    def build(matrices: list[Any], vectors: list[Any], rate: float, decay: float) -> list[Any]:
        muon = [optimizer(matrices, lr=rate, weight_decay=decay)] if matrices else []
        return [*muon, *_adamw(vectors, rate, decay)]

    return _run(build, params, grads, lr, weight_decay)


def _flagged_groups(matrices: list[Any], vectors: list[Any], rate: float, decay: float) -> list[dict[str, Any]]:
    """Return groups with the flag ``use_muon``, none of them empty."""
    kinds = ((matrices, True), (vectors, False))
    return [{"params": params, "use_muon": flag, "lr": rate, "weight_decay": decay} for params, flag in kinds if params]


def _adamw(vectors: list[Any], rate: float, decay: float) -> list[Any]:
    from torch.optim import AdamW

    return [AdamW(vectors, lr=rate, weight_decay=decay)] if vectors else []


def _run(
    build: Build, params: Arrays, grads: Sequence[Arrays], lr: Sequence[float], weight_decay: float
) -> dict[str, np.ndarray]:
    """Build optimizers over copies of the parameters and take a step for each learning rate."""
    import torch

    with _eager_and_seeded(), default_dtype(params.values()):
        tensors = {name: torch.nn.Parameter(torch.tensor(array)) for name, array in params.items()}
        matrices = [tensor for tensor in tensors.values() if tensor.ndim > 1]
        vectors = [tensor for tensor in tensors.values() if tensor.ndim <= 1]
        optimizers = build(matrices, vectors, lr[0], weight_decay)
        for rate, gradient in zip(lr, grads, strict=True):
            for optimizer in optimizers:
                for group in optimizer.param_groups:
                    group["lr"] = rate
            for name, tensor in tensors.items():
                tensor.grad = torch.tensor(gradient[name])  # a copy: some peers write their gradients
            for optimizer in optimizers:
                optimizer.step()
        return {name: tensor.detach().numpy().copy() for name, tensor in tensors.items()}


@contextmanager
def _eager_and_seeded() -> Generator[None]:
    """Ignore ``torch.compile`` and start the random numbers, which stochastic rounding draws, from a seed."""
    import torch

    with torch.compiler.set_stance("force_eager"), torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield
