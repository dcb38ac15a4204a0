"""``restarts="auto"`` on momenta of real training, which are nearly of rank one."""

from functools import cache
from pathlib import Path

import numpy as np
import pytest

from zeropower import gram_ns, ns_iterate
from zeropower.conformance import tolerances
from zeropower.conformance.check import EAGER, check
from zeropower.conformance.oracles import orthogonalized, quintics
from zeropower.restarts import MAX_MATRIX_ERROR, MAX_SINGULAR_VALUE_ERROR

PLANS = [("keller", 4), ("keller", 5), ("keller", 6), ("you", 5), ("polar_express", 5), ("polar_express", 6),
         ("polar_express", 8)]  # fmt: skip
DATA = Path(__file__).parents[1] / "data" / "momentum.npz"


@cache
def momenta():
    """Momenta of a byte-level transformer after 100 steps of Muon: one whole, of two others the leading columns."""
    with np.load(DATA) as file:
        return [file[name] for name in sorted(file.files)]


@cache
def exact(index, table, steps):
    return orthogonalized(momenta()[index], quintics(table, steps))


def errors(outputs, table, steps):
    """The greatest relative error of a matrix, and the greatest error of a singular value."""
    matrix = value = 0.0
    for index, output in enumerate(outputs):
        wanted = exact(index, table, steps)
        matrix = max(matrix, float(tolerances.matrix_errors(output, wanted)))
        values = [np.linalg.svd(x.astype(np.float64), compute_uv=False) for x in (output, wanted)]
        value = max(value, float(np.max(np.abs(values[0] - values[1]))))
    return matrix, value


@check("gram_ns", dtypes=("float32", "float16", "bfloat16"))
@EAGER
@pytest.mark.original("R13")
@pytest.mark.parametrize(("table", "steps"), PLANS)
def test_automatic_restarts_are_as_accurate_as_the_standard_loop(backend, dtype, xp, table, steps):
    arrays = [backend.from_numpy(x, "float32") for x in momenta()]
    options = {"coefficients": table, "steps": steps, "compute_dtype": dtype, "xp": xp}
    standard = errors([backend.to_numpy(ns_iterate(x, **options)) for x in arrays], table, steps)
    gram = errors([backend.to_numpy(gram_ns(x, restarts="auto", **options)) for x in arrays], table, steps)
    if dtype in {"float16", "bfloat16"}:
        assert gram[0] <= MAX_MATRIX_ERROR * standard[0]
        assert gram[1] <= MAX_SINGULAR_VALUE_ERROR * standard[1]
    else:
        # the largest of the three, and the worst conditioned: rounding harms it most
        assert gram[0] <= tolerances.iteration(momenta()[-1], quintics(table, steps), "float32")


@check("gram_ns", dtypes=("float64", "float32", "bfloat16"))
def test_automatic_restarts_are_found_under_a_transform(backend, transform, dtype, xp):
    arrays = [backend.from_numpy(x, dtype) for x in momenta()]
    run = transform(gram_ns, restarts="auto", xp=xp)
    eager = [gram_ns(x, restarts="auto", xp=xp) for x in arrays]
    for x, y, z in zip(momenta(), map(run, arrays), eager, strict=True):
        x = backend.to_numpy(backend.from_numpy(x, dtype)).astype(np.float64)
        bound = tolerances.iteration(x, quintics("keller", 5), dtype)
        assert tolerances.matrix_errors(backend.to_numpy(y), backend.to_numpy(z)) <= 2 * bound


CROWD = 600
TABLES_OF_FIVE = ("keller", "you", "polar_express", "polar_express_dao", "polar_express_jordan", "cubic")


def crowd():
    """Small matrices with one large singular value, a second of any size, and many small ones."""
    random = np.random.default_rng(1)
    values = np.exp(random.uniform(np.log(1e-5), np.log(1e-2), (CROWD, 6)))
    values[:, 0], values[:, 1] = 1.0, random.uniform(0.01, 1.0, CROWD)
    left, _ = np.linalg.qr(random.standard_normal((CROWD, 6, 6)))
    right, _ = np.linalg.qr(random.standard_normal((CROWD, 12, 6)))
    return (left * values[:, None, :]) @ right.mT


@check("gram_ns", dtypes=("float16", "bfloat16"))
@EAGER
@pytest.mark.parametrize("table", TABLES_OF_FIVE)
def test_automatic_restarts_blow_up_on_none_of_many(backend, dtype, xp, kernels, table):
    """A plan that fails on one matrix in a hundred looks perfect on a few."""
    array = backend.from_numpy(crowd(), "float32")
    options = {"coefficients": table, "compute_dtype": dtype, "kernels": kernels, "xp": xp}
    greatest = [
        np.linalg.norm(backend.to_numpy(y), ord=2, axis=(-2, -1)).max()
        for y in (ns_iterate(array, **options), gram_ns(array, restarts="auto", **options))
    ]
    assert np.isfinite(greatest[1])
    assert greatest[1] <= MAX_SINGULAR_VALUE_ERROR * greatest[0]
