"""The oracle of the dialects: what each peer documents, once more, in plain numpy and float64.

Nothing of zeropower is imported. Every matrix is orthogonalised through its singular value decomposition,
``u p(s) vᵀ``, so that no iteration, restart or kernel is shared with what is tested. Casts to 16 or 32 bits are left
out; all else (momentum, eps, coefficients, second moment, scale, decay, Adam) is the peer's own. "Read and run" means
that the formulas were taken from the named file and agreed with that file's own code, run without its 16-bit casts.

``python vectors.py`` writes ``dialects.npz`` beside this file, ``python vectors.py --check`` compares. Its entries:

- ``lr`` (10,) and ``weight_decay`` (), the same for all peers, also where a peer's default is another;
- ``start/<case>`` and ``grads/<case>`` (10, ...);
- ``<peer>/<case>``, the parameter after the last step;
- ``modded-nanogpt:momentum`` (10,), its momentum while it warms up, and ``modded-nanogpt:schedule/wide``, the effect.
"""

import argparse
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

if __package__:
    from . import formulas as f
else:  # run as a script, from any folder
    import formulas as f

FILE = Path(__file__).with_name("dialects.npz")
LR = (0.01, 0.015, 0.02, 0.025, 0.03, 0.0275, 0.0225, 0.0175, 0.0125, 0.011)
WEIGHT_DECAY = 0.1

# case: shape, and the size of a gradient's elements; an eps of 1e-7 is 1e-5 of the norm of all but the tiny ones
MATRICES: dict[str, tuple[f.Shape, float]] = {
    "wide": ((6, 10), 1e-2 / math.sqrt(60)),
    "tall": ((10, 6), 1e-2 / math.sqrt(60)),
    "square": ((8, 8), 1e-2 / 8),
    "uneven": ((10, 6), 1e-2 / math.sqrt(60)),  # one row 1e-5 of the others, for the eps of the second moments
    "tiny": ((6, 10), 1e-7),  # and still less at first: TINY
}
TINY = (1e-16, 3e-9, 1e-2, 1e-1, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0)  # so that every eps, down to 1e-15, decides a step
STACKS: dict[str, tuple[f.Shape, float]] = {"stack": ((3, 6, 10), 1e-2 / math.sqrt(60))}
FILTERS: dict[str, tuple[f.Shape, float]] = {
    "conv": ((6, 3, 2, 2), 1e-2 / math.sqrt(72)),
    "conv-tall": ((12, 2, 3, 1), 1e-2 / math.sqrt(72)),  # 12 x 6, another ratio than the kernel's 3 x 1
}
VECTORS: dict[str, tuple[f.Shape, float]] = {
    "vector": ((7,), 1e-2 / math.sqrt(7)),
    "tiny-vector": ((7,), 1e-8),  # and the first gradient is zero throughout
}
CASES = MATRICES | STACKS | FILTERS | VECTORS


@dataclass(frozen=True)
class Muon:
    """The rule of a parameter with matrices.

    Attributes
    ----------
    momentum, beta
        What is orthogonalised.
    table, divisor
        The polynomials, and what a matrix is divided by.
    scale
        By the rows and columns of ``measure``.
    moment
        The second moment of the orthogonalised.
    decay
        The last step.
    view, measure
        The matrices that are orthogonalised, and those that moment and scale go by.
    extra
        The cases beside ``MATRICES``.
    """

    momentum: f.Momentum
    table: f.Triples
    divisor: f.Divisor
    scale: f.Scale
    beta: float = 0.95
    moment: f.Moment = f.no_moment
    decay: f.Decay = f.decoupled
    view: f.View = f.whole
    measure: f.View = f.whole
    extra: tuple[str, ...] = ()


@dataclass(frozen=True)
class Adam:
    """The rule of all other parameters."""

    betas: tuple[float, float]
    eps: float
    quotient: f.Quotient = f.eps_after
    decay: f.Decay = f.decoupled


def flattened(rule: Muon) -> Muon:
    """Return the rule with all axes after the first merged."""
    return replace(rule, view=f.flat, measure=f.flat, extra=tuple(FILTERS))


TORCH_ADAMW = Adam((0.9, 0.999), 1e-8)  # torch.optim.AdamW, defaults; read and run

# KellerJordan/Muon 857d1ad, muon.py, SingleDeviceMuonWithAuxAdam: read and run. A filter is orthogonalised flat, yet
# its scale goes by the last two of its four axes
_KELLER = Muon(
    f.average_nesterov,
    f.KELLER,
    f.added(1e-7),
    f.shape_scale,
    view=f.flat_filters,
    extra=(*STACKS, *FILTERS),
)
_KELLER_ADAM = Adam((0.9, 0.95), 1e-10)

# huggingface/pytorch-image-models 1.0.31, timm/optim/muon.py and adamw.py: read and run. One eps for all
_TIMM = flattened(Muon(f.average, f.YOU, f.clamped(1e-7), partial(f.side_scale, factor=0.2)))
_TIMM_ADAM = Adam((0.9, 0.95), 1e-7)

# NVIDIA-NeMo/Emerging-Optimizers fd77292, orthogonalized_optimizers/: read and run. It has no Adam
_EMERGING = Muon(f.average, f.YOU, f.clamped(1e-15), f.side_scale)

PEERS: dict[str, tuple[Muon, Adam | None]] = {
    "keller": (_KELLER, _KELLER_ADAM),
    # pytorch 2.13, torch/optim/_muon.py, adjust_lr_fn=None: read and run
    "torch": (Muon(f.average_nesterov, f.KELLER, f.clamped(1e-7), f.shape_scale), TORCH_ADAMW),
    # MoonshotAI/Moonlight c2ad5b2, examples/toy_train.py: read and run
    "moonlight": (
        Muon(f.heavy_ball_nesterov, f.KELLER, f.added(1e-7), partial(f.side_scale, factor=0.2)),
        Adam((0.9, 0.95), 1e-8, f.eps_before),
    ),
    # google-deepmind/optax 0.2.8, contrib/_muon.py, parameters (out, in) as MuonDimensionNumbers(1, 0): read and run
    "optax": (
        Muon(f.average_corrected, f.KELLER, f.added(1e-8), f.shape_scale),
        Adam((0.9, 0.999), 1e-8, f.nesterov),
    ),
    # keras-team/keras 3.15.1, optimizers/muon.py: read and run
    "keras": (
        Muon(f.heavy_ball_nesterov, f.KELLER, f.added(1e-7), partial(f.side_scale, factor=0.2)),
        Adam((0.9, 0.999), 1e-7, f.eps_before),
    ),
    "timm": (_TIMM, _TIMM_ADAM),
    # algo="adamuon": the norm that is given back is that of the whole parameter
    "timm-adamuon": (
        replace(_TIMM, moment=partial(f.elements_unit, beta2=0.95, eps=1e-7), scale=f.size_scale),
        _TIMM_ADAM,
    ),
    # microsoft/dion 0a059a4, dion/muon.py, polar_express.py, scalar_opts.py: read and run
    "dion": (
        Muon(f.heavy_ball, f.POLAR_NANOGPT, f.added(1e-8, 1.02), f.spectral_scale, extra=tuple(STACKS)),
        Adam((0.9, 0.95), 1e-8),
    ),
    # zichongli5/NorMuon d45c9a4, normuon.py, SingleDeviceNorMuonWithAuxAdam: read and run. The second moment of a
    # filter, too, goes by the last two of its four axes
    "normuon": (replace(_KELLER, moment=partial(f.rows, beta2=0.95, eps=1e-10)), _KELLER_ADAM),
    # KellerJordan/modded-nanogpt f411b3d, train_gpt.py, NorMuonAndAdam with lr_mul and wd_mul 1: read and run
    "modded-nanogpt": (
        Muon(
            f.average_nesterov,
            f.POLAR_NANOGPT,
            f.added(1e-6, 1.02),
            f.shape_scale,
            moment=partial(f.longer_side, beta2=0.9, eps=1e-10),
            decay=f.cautious,
            extra=tuple(STACKS),
        ),
        Adam((0.9, 0.95), 1e-10, f.eps_before, f.strictly_cautious),
    ),
    # Dao-AILab/gram-newton-schulz 0.1.6, muon/muon.py, coefficients.py: read and run
    "gram": (
        Muon(
            f.heavy_ball_nesterov,
            f.POLAR_GRAM,
            f.added(1e-7),
            partial(f.side_scale, factor=0.2),
            extra=tuple(STACKS),
        ),
        TORCH_ADAMW,
    ),
    "emerging": (_EMERGING, None),
    # NVIDIA/Megatron-LM, whose wrapper of the former turns Nesterov on: the former, read and run with nesterov=True
    "megatron": (replace(_EMERGING, momentum=f.average_nesterov), None),
    # adaptive_muon.py, moment2_method="normuon" and "adamuon"
    "emerging-normuon": (replace(_EMERGING, moment=partial(f.longer_side, beta2=0.95, eps=1e-8)), None),
    "emerging-adamuon": (replace(_EMERGING, moment=partial(f.elements, beta2=0.95, eps=1e-8)), None),
    # HomebrewML/HeavyBall 3.2.1, heavyball/utils.py and chainable.py, MuonAdamW: read and run
    "heavyball": (
        flattened(Muon(f.average_added, f.YOU, f.clamped(1e-7), f.shape_scale, beta=0.9)),
        Adam((0.9, 0.99), 1e-8, f.eps_clamps),
    ),
    # kozistr/pytorch_optimizer 4.1.0, optimizer/muon/muon.py, base.py: read and run
    "pytorch-optimizer": (
        flattened(Muon(f.average_nesterov, f.KELLER, f.clamped(1e-7), f.shape_scale)),
        Adam((0.9, 0.95), 1e-10),
    ),
    # tracel-ai/burn 050c750, burn-optim/src/optim/muon.rs (dampening 0, Nesterov), momentum.rs: read, not run; its own
    # AdamW's defaults beside it
    "burn": (
        Muon(f.heavy_ball_nesterov, f.KELLER, f.clamped(1e-7), f.shape_scale),
        Adam((0.9, 0.999), 1e-5),
    ),
    # burn_dragon, headwise Muon with split heads, and its AdamW at a constant decay: from a written specification of
    # it, and agreed with the reference values there
    "burn-dragon": (
        Muon(
            f.heavy_ball_nesterov,
            f.KELLER,
            f.clamped(1e-7),
            partial(f.side_scale, factor=0.2),
            extra=tuple(STACKS),
        ),
        Adam((0.9, 0.999), 1e-5),
    ),
    # openvpi/DiffSinger 753b7cc, modules/optimizer/muon.py: read and run
    "diffsinger": (
        flattened(Muon(f.average_nesterov, f.KELLER, f.clamped(1e-7), f.side_scale)),
        TORCH_ADAMW,
    ),
}


def gradients(case: str, steps: int = len(LR)) -> tuple[f.Array, f.Array]:
    """Draw the start of a case, N(0, 0.01), and its gradients: two directions that drift, and noise of a third."""
    shape, size = CASES[case]
    rng = np.random.default_rng([20260822, list(CASES).index(case)])
    lead, (m, n) = ((), f.flat(shape)) if case not in STACKS else (shape[:-2], shape[-2:])
    start = 0.1 * rng.standard_normal(shape)
    left, right = rng.standard_normal((*lead, m, 2)), rng.standard_normal((*lead, 2, n))
    drawn: list[f.Array] = []
    for _ in range(steps):
        left = left + 0.1 * rng.standard_normal(left.shape)
        right = right + 0.1 * rng.standard_normal(right.shape)
        drawn.append(size * (left @ right + 0.3 * rng.standard_normal((*lead, m, n))).reshape(shape))
    grads = np.stack(drawn)
    if case == "uneven":
        grads[:, 3] *= 1e-5
    if case == "tiny":
        grads *= np.array(TINY)[:, None, None]
    if case == "tiny-vector":
        grads[:, 0] = 0.0
    return start, grads


def muon(rule: Muon, start: f.Array, grads: f.Array, betas: Sequence[float] | None = None) -> f.Array:
    """Return the parameter after all steps.

    Parameters
    ----------
    rule
        The peer's.
    start
        The parameter.
    grads
        One gradient for each learning rate of ``LR``.
    betas
        The momentum of each step, instead of the rule's.

    Returns
    -------
    f.Array
        Shaped like start.
    """
    p, m, v, shape = start, np.zeros_like(start), np.zeros(()), start.shape
    for t, (g, lr) in enumerate(zip(grads, LR, strict=True), start=1):
        direction, m = rule.momentum(g, m, rule.beta if betas is None else betas[t - 1], t)
        u = f.orthogonalized(direction.reshape(rule.view(shape)), rule.table, rule.divisor)
        u, v = rule.moment(u.reshape(rule.measure(shape)), v)
        scale = rule.scale(u.shape[-2], u.shape[-1])
        p = rule.decay(p, u.reshape(shape), lr, scale, WEIGHT_DECAY)
    return p


def adam(rule: Adam, start: f.Array, grads: f.Array) -> f.Array:
    """Return the parameter after all steps."""
    p, m, v = start, np.zeros_like(start), np.zeros_like(start)
    for t, (g, lr) in enumerate(zip(grads, LR, strict=True), start=1):
        m = rule.betas[0] * m + (1 - rule.betas[0]) * g
        v = rule.betas[1] * v + (1 - rule.betas[1]) * g * g
        p = rule.decay(p, rule.quotient(g, m, v, rule.betas, rule.eps, t), lr, 1.0, WEIGHT_DECAY)
    return p


def vectors() -> dict[str, f.Array]:
    """Return all entries of the file."""
    inputs = {case: gradients(case) for case in CASES}
    out = {"lr": np.array(LR), "weight_decay": np.array(WEIGHT_DECAY)}
    for case, (start, grads) in inputs.items():
        out |= {f"start/{case}": start, f"grads/{case}": grads}
    for name, (matrix_rule, vector_rule) in PEERS.items():
        out |= {f"{name}/{case}": muon(matrix_rule, *inputs[case]) for case in (*MATRICES, *matrix_rule.extra)}
        if vector_rule is not None:
            out |= {f"{name}/{case}": adam(vector_rule, *inputs[case]) for case in VECTORS}
    betas = [f.nanogpt_momentum(step) for step in range(len(LR))]  # train_gpt.py, get_muon_momentum
    out["modded-nanogpt:momentum"] = np.array(betas)
    out["modded-nanogpt:schedule/wide"] = muon(PEERS["modded-nanogpt"][0], *inputs["wide"], betas)
    return out


def differences(rtol: float = 1e-12) -> list[str]:
    """Name the entries of the file that are missing, unknown, or off by more than ``rtol`` of their norm."""
    fresh = vectors()
    with np.load(FILE) as file:
        stored: dict[str, f.Array] = dict(file)
    return sorted(fresh.keys() ^ stored.keys()) + [
        key
        for key in sorted(fresh.keys() & stored.keys())
        if fresh[key].shape != stored[key].shape
        or not np.linalg.norm(fresh[key] - stored[key]) <= rtol * np.linalg.norm(fresh[key])
    ]


def main() -> None:
    """Write the file, or with ``--check`` exit with the names of what differs."""
    parser = argparse.ArgumentParser(description="Write dialects.npz, the vectors of the dialects.")
    parser.add_argument("--check", action="store_true", help="compare with the stored file, write nothing")
    if not parser.parse_args().check:
        np.savez_compressed(FILE, allow_pickle=False, **vectors())
    elif names := differences():
        raise SystemExit("dialects.npz differs in " + ", ".join(names))


if __name__ == "__main__":
    main()
