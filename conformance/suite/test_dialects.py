"""Every dialect against vectors that an independent float64 program computed from its original's formulas."""

from dataclasses import replace

import numpy as np
import pytest

from zeropower import DIALECTS, momentum_for_step
from zeropower.conformance.check import EAGER, check
from zeropower.conformance.laws import require_optimizer
from zeropower.conformance.tolerances import UNIT_ROUNDOFF, gradient_response
from zeropower.conformance.vectors import FORMULA, cases_of, moved_apart, run_steps, stored

MATRICES = ("wide", "tall", "square", "uneven", "tiny")
COMPARED = [name for name in DIALECTS if cases_of(name)]


def trained(dialect, case, backend, dtype, xp, momenta=None):
    golden = stored()
    start, *grads = (backend.from_numpy(x, dtype) for x in (golden[f"start/{case}"], *golden[f"grads/{case}"]))
    return backend.to_numpy(run_steps(dialect, case, start, grads, xp=xp, momenta=momenta))


@check("dialects", dtypes=("float64",))
@EAGER
@pytest.mark.parametrize("dialect", COMPARED)
def test_dialects_do_what_their_originals_do(backend, dtype, xp, dialect):
    cases = cases_of(dialect)
    assert {"wide", "tall", "square"} <= set(cases)
    for case in cases:
        exact = stored()[f"{dialect}/{case}"]
        assert moved_apart(case, trained(dialect, case, backend, dtype, xp), exact) <= FORMULA, case


@check("dialects", dtypes=("float64",))
@EAGER
def test_the_momentum_of_modded_nanogpt_follows_its_schedule(backend, dtype, xp):
    golden = stored()
    found = trained("modded-nanogpt", "wide", backend, dtype, xp, momenta=golden["modded-nanogpt:momentum"])
    exact = golden["modded-nanogpt:schedule/wide"]
    assert moved_apart("wide", found, exact) <= FORMULA
    assert moved_apart("wide", golden["modded-nanogpt/wide"], exact) > 1e-3  # the schedule shows


@check("dialects", dtypes=("float64", "float32"))
@EAGER
@pytest.mark.parametrize("kind", ["int", "array"])
def test_momentum_for_step_is_the_schedule_of_its_original(backend, dtype, xp, kind):
    """The vectors hold its first steps; the end is written out."""

    def at(step):
        found = momentum_for_step(1000, step if kind == "int" else xp.asarray(step, dtype=xp.int32), xp=xp)
        return found if kind == "int" else float(backend.to_numpy(found))

    recorded = stored()["modded-nanogpt:momentum"].tolist()
    written = {301: 0.95, 951: 0.95, 976: 0.9, 1001: 0.85, 2000: 0.85}
    for step, wanted in {**dict(enumerate(recorded, start=1)), **written}.items():
        assert abs(at(step) - wanted) <= 4 * UNIT_ROUNDOFF["float64" if kind == "int" else "float32"], step


@check("dialects", dtypes=("float64", "float32"))
@pytest.mark.parametrize("dialect", COMPARED)
def test_optimizers_do_what_the_originals_of_dialects_do(backend, dtype, dialect):
    """The backend's own optimizer; in float32 within its response to gradients that move by one unit."""
    require_optimizer(backend)
    golden, chosen = stored(), DIALECTS[dialect]
    cases = cases_of(dialect)
    matrices = [case for case in MATRICES if case in cases]
    if dtype == "float32":
        matrices.remove("tiny")  # squares of 1e-22 are no numbers of float32
    muon = replace(chosen.muon, compute_dtype=dtype)
    options = {"lr": golden["lr"].tolist(), "weight_decay": float(golden["weight_decay"])}
    for kind, recipe, taken in (("muon", muon, matrices), ("adamw", chosen.adamw, {"vector"} & set(cases))):
        if not taken:
            continue
        start = {case: golden[f"start/{case}"].astype(dtype) for case in taken}
        grads = [{case: golden[f"grads/{case}"][t].astype(dtype) for case in taken} for t in range(10)]

        def core(grads, start=start):
            return {case: run_steps(dialect, case, start[case], [step[case] for step in grads]) for case in start}

        bounds = gradient_response(core, grads) if dtype == "float32" else {}
        for case, found in backend.optimizer(start, grads, kind=kind, recipe=recipe, **options).items():
            exact = golden[f"{dialect}/{case}"]
            size = np.linalg.norm(exact) / np.linalg.norm(exact - golden[f"start/{case}"])
            assert moved_apart(case, found, exact) <= (bounds[case] * size if bounds else FORMULA), case
