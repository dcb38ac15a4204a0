"""Every dialect against vectors that an independent float64 program computed from its original's formulas."""

from dataclasses import replace
from functools import cache
from importlib.resources import files

import numpy as np
import pytest

from zeropower import CONV, DIALECTS, OUT_IN, adamw_step, muon_step
from zeropower.conformance.check import EAGER, check
from zeropower.conformance.laws import require_optimizer
from zeropower.conformance.tolerances import gradient_response

# Relative to how far the parameter moved. Measured: 2e-14, the roundings of ten steps and of the two programs.
AGREEMENT = 1e-12
MATRICES = ("wide", "tall", "square", "uneven", "tiny", "stack")
VECTORS = ("vector", "tiny-vector")
# The originals take scale and second moment of a kernel by its last two axes, its height and width, though they
# orthogonalise it flat; the dialects have one view of a matrix for all of it.
BY_KERNEL_SIZE = {("keller", "conv-tall"), ("normuon", "conv"), ("normuon", "conv-tall")}


@cache
def vectors():
    with files("zeropower.conformance.golden").joinpath("dialects.npz").open("rb") as file:
        return dict(np.load(file))


def cases_of(dialect, among):
    return [case for case in among if f"{dialect}/{case}" in vectors() and (dialect, case) not in BY_KERNEL_SIZE]


def has_vectors(dialect):
    return any(key.startswith(f"{dialect}/") for key in vectors())


COMPARED = [name for name in DIALECTS if has_vectors(name)]


def moved_from(case, found, exact):
    """The difference, relative to how far the original moved."""
    start = vectors()[f"start/{case}"]
    return np.linalg.norm(found - exact) / np.linalg.norm(exact - start)


def steps(dialect, case, param, grads, xp, momenta=None):
    """The parameter after all steps, by the core's functions, computed in its dtype."""
    chosen, golden, state = DIALECTS[dialect], vectors(), None
    decay = float(golden["weight_decay"])
    for t, (lr, grad) in enumerate(zip(golden["lr"], grads, strict=True), start=1):
        if case in VECTORS:
            options = {"lr": float(lr), "weight_decay": decay, "step": t, "xp": xp}
            param, state = adamw_step(param, grad, state, chosen.adamw, **options)
            continue
        param, state = muon_step(
            param,
            grad,
            state,
            chosen.muon,
            lr=float(lr),
            weight_decay=decay,
            step=t,
            momentum=None if momenta is None else float(momenta[t - 1]),
            layout=(chosen.layout or OUT_IN) if case == "stack" else CONV if case.startswith("conv") else OUT_IN,
            compute_dtype=param.dtype,
            xp=xp,
        )
    return param


def trained(dialect, case, backend, dtype, xp, momenta=None):
    golden = vectors()
    grads = [backend.from_numpy(grad, dtype) for grad in golden[f"grads/{case}"]]
    return backend.to_numpy(
        steps(dialect, case, backend.from_numpy(golden[f"start/{case}"], dtype), grads, xp, momenta)
    )


@check("dialects", dtypes=("float64",))
@EAGER
@pytest.mark.parametrize("dialect", COMPARED)
def test_dialects_do_what_their_originals_do(backend, dtype, xp, dialect):
    cases = cases_of(dialect, (*MATRICES, "conv", "conv-tall", *VECTORS))
    assert {"wide", "tall", "square"} <= set(cases)
    for case in cases:
        exact = vectors()[f"{dialect}/{case}"]
        assert moved_from(case, trained(dialect, case, backend, dtype, xp), exact) <= AGREEMENT, case


@check("dialects", dtypes=("float64",))
@EAGER
def test_the_momentum_of_modded_nanogpt_follows_its_schedule(backend, dtype, xp):
    golden = vectors()
    found = trained("modded-nanogpt", "wide", backend, dtype, xp, momenta=golden["modded-nanogpt:momentum"])
    exact = golden["modded-nanogpt:schedule/wide"]
    assert moved_from("wide", found, exact) <= AGREEMENT
    assert moved_from("wide", golden["modded-nanogpt/wide"], exact) > 1e-3  # the schedule shows


@check("dialects", dtypes=("float64", "float32"))
@pytest.mark.parametrize("dialect", COMPARED)
def test_optimizers_do_what_the_originals_of_dialects_do(backend, dtype, dialect):
    """The backend's own optimizer; in float32 within its response to gradients that move by one unit."""
    require_optimizer(backend)
    golden, chosen = vectors(), DIALECTS[dialect]
    matrices = [case for case in cases_of(dialect, MATRICES) if case != "stack"]
    if dtype == "float32":
        matrices = [case for case in matrices if case != "tiny"]  # squares of 1e-22 are no numbers of float32
    muon = replace(chosen.muon, compute_dtype=dtype)
    options = {"lr": golden["lr"].tolist(), "weight_decay": float(golden["weight_decay"])}
    for kind, recipe, cases in (("muon", muon, matrices), ("adamw", chosen.adamw, cases_of(dialect, VECTORS[:1]))):
        if not cases:
            continue
        start = {case: golden[f"start/{case}"].astype(dtype) for case in cases}
        grads = [{case: golden[f"grads/{case}"][t].astype(dtype) for case in cases} for t in range(10)]

        def core(grads, start=start):
            return {case: steps(dialect, case, start[case], [step[case] for step in grads], np) for case in start}

        bounds = gradient_response(core, grads) if dtype == "float32" else {}
        for case, found in backend.optimizer(start, grads, kind=kind, recipe=recipe, **options).items():
            exact = golden[f"{dialect}/{case}"]
            size = np.linalg.norm(exact) / np.linalg.norm(exact - golden[f"start/{case}"])
            assert moved_from(case, found, exact) <= (bounds[case] * size if bounds else AGREEMENT), case
