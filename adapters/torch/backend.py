"""PyTorch's entry in the conformance suite."""

import os
import shutil
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import array_api_compat.torch as xp
import numpy as np
import torch
from torch import Tensor, nn
from torch._dynamo.utils import counters

from zeropower import DIALECTS, GENERIC, OUT_IN, AdamWRecipe, Backend, MuonRecipe, Rule
from zeropower.newton_schulz import dtype_name

from .adamw import AdamW
from .engine import Engine
from .hybrid import MuonAdamW
from .kernels import FUSED, STRIPED
from .muon import Muon

_ADAMW: Final = (Rule(optimizer="adamw", reason="asked for"),)
_DTYPES: Final = ("float64", "float32", "float16", "bfloat16")


def from_numpy(array: np.ndarray, dtype: str) -> Tensor:
    """Return a tensor of a dtype with the values of an array."""
    return torch.tensor(array, dtype=getattr(torch, dtype))


def to_numpy(tensor: Tensor) -> np.ndarray:
    """Return a tensor's values; 16-bit dtypes become float32."""
    tensor = tensor.detach().cpu()
    return (tensor.float() if tensor.dtype.itemsize == 2 else tensor).numpy()


def run_optimizer(
    params: Mapping[str, np.ndarray],
    grads: Iterable[Mapping[str, np.ndarray]],
    *,
    kind: str,
    recipe: MuonRecipe | AdamWRecipe,
    lr: Sequence[float],
    weight_decay: float,
) -> dict[str, np.ndarray]:
    """Run one of this adapter's optimizers over given gradients.

    Parameters
    ----------
    params
        Parameters by name.
    grads
        The gradients of each step by name; a parameter without one has none in that step.
    kind
        ``"muon"`` (parameters are stacks of matrices), ``"adamw"``, or ``"muon_adamw"``, where AdamW is the dialect's.
    recipe
        Of the kind; for the hybrid, of Muon. Without a compute dtype, the core's rule holds: that of the parameters.
    lr
        The learning rate of each step.
    weight_decay
        Of every step.

    Returns
    -------
    dict of str to numpy.ndarray
        The parameters after the last step.
    """
    named = {name: nn.Parameter(torch.tensor(value)) for name, value in params.items()}
    optimizer = _build(named, kind, recipe, weight_decay)
    for rate, step_grads in zip(lr, grads, strict=True):
        for name, param in named.items():
            param.grad = torch.tensor(step_grads[name]) if name in step_grads else None
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.step()
    return {name: to_numpy(param) for name, param in named.items()}


def _build(
    named: Mapping[str, nn.Parameter], kind: str, recipe: MuonRecipe | AdamWRecipe, weight_decay: float
) -> Engine:
    pairs = list(named.items())
    if isinstance(recipe, AdamWRecipe):
        if kind != "adamw":
            raise ValueError(f"kind={kind!r} with a recipe of AdamW; accepted: 'adamw'")
        if recipe == AdamWRecipe(beta_1=recipe.beta_1, beta_2=recipe.beta_2, eps=recipe.eps):
            return AdamW(pairs, 0.0, (recipe.beta_1, recipe.beta_2), recipe.eps, weight_decay)
        return MuonAdamW(pairs, 0.0, weight_decay, dialect=replace(DIALECTS["zeropower"], adamw=recipe), rules=_ADAMW)
    dtype = recipe.compute_dtype or dtype_name(pairs[0][1].dtype)
    dialect = replace(DIALECTS["zeropower"], muon=recipe)
    if kind == "muon":
        return Muon(pairs, 0.0, weight_decay, dialect=dialect, layout=OUT_IN, compute_dtype=dtype)
    if kind == "muon_adamw":
        return MuonAdamW(pairs, 0.0, weight_decay, dialect=dialect, muon_args={"compute_dtype": dtype})
    raise ValueError(f"kind={kind!r} is not known; accepted: 'muon', 'adamw', 'muon_adamw'")


def _compiled(backend: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def transform(function: Callable[..., Any]) -> Callable[..., Any]:
        torch.compiler.reset()  # PyTorch bounds the compilations of a function, also of one that is wrapped anew
        compiled = torch.compile(function, fullgraph=True, dynamic=False, backend=backend)

        def run(*args: Any, **kwargs: Any) -> Any:
            with warnings.catch_warnings():
                for category in (DeprecationWarning, FutureWarning):  # where PyTorch's compiler calls PyTorch
                    warnings.filterwarnings("ignore", category=category, module=r"torch\.")
                return compiled(*args, **kwargs)

        return run

    return transform


def _compilations() -> int:
    return counters["stats"]["unique_graphs"]


def _eager(function: Callable[..., Any]) -> Callable[..., Any]:
    return function


def _without_compiler() -> dict[str, str]:
    """Return why inductor cannot run here, if it cannot: its CPU code needs a C++ compiler."""
    compiler = os.environ.get("CXX", "clang++" if sys.platform == "darwin" else "g++")
    return {} if shutil.which(compiler) else {"compile-inductor": f"no C++ compiler: {compiler} is not found"}


BACKEND: Final = Backend(
    name="torch",
    from_numpy=from_numpy,
    to_numpy=to_numpy,
    namespace=lambda: xp,
    dtypes=_DTYPES,
    kernels={"generic": GENERIC, "torch": STRIPED, "torch-fused": FUSED},
    transforms={
        "eager": _eager,
        "compile-aot_eager": _compiled("aot_eager"),
        "compile-inductor": _compiled("inductor"),
    },
    slow=("compile-aot_eager", "compile-inductor"),
    compilations=_compilations,
    unavailable=_without_compiler(),
    optimizer=run_optimizer,
)
