"""Normalisation: no scale is special, and neither zero nor the edges of a dtype are."""

import numpy as np
import pytest

from zeropower import gram_ns, ns_iterate
from zeropower.conformance import tolerances
from zeropower.conformance.check import EAGER, check
from zeropower.conformance.laws import (
    ITERATIONS,
    NORMALIZATIONS,
    assert_orthogonalized,
    assert_same,
    options_of,
    restarts_of,
    rounded,
)
from zeropower.conformance.oracles import matrices, normalized, orthogonalized, quintics

KELLER = quintics("keller", 5)


@check("normalize")
@NORMALIZATIONS
@pytest.mark.original("D2", "E5", "R5")
@pytest.mark.parametrize(
    "function", [ns_iterate, pytest.param(gram_ns, marks=EAGER)], ids=lambda function: function.__name__
)
def test_no_step_leaves_the_normalised_matrix(backend, transform, dtype, xp, function, normalize):
    x, array = rounded(matrices((2, 6, 10)) * np.array([1.0, 3.0])[:, None, None], backend, dtype)
    y = backend.to_numpy(transform(function, steps=0, normalize=normalize, xp=xp)(array))
    bounds = tolerances.iteration(x, (), dtype, normalize=normalize)
    assert np.all(tolerances.matrix_errors(y, normalized(x, normalize)) <= bounds)


# ---- scale ----

# Powers of two that keep elements in [1/4, 1] normal, and other scales up to the edges of the dtype.
POWERS = {"float64": (-1020, 1023), "float32": (-124, 127), "bfloat16": (-124, 127), "float16": (-12, 15)}
SCALES = {"float64": (1e-300, 1e300), "float32": (1e-30, 1e30), "bfloat16": (1e-30, 1e30), "float16": (2.5e-4, 6.5e4)}


@check()
@ITERATIONS
@NORMALIZATIONS
@pytest.mark.original("D6")
def test_scale_makes_no_difference(backend, transform, dtype, xp, function, normalize):
    random = np.random.default_rng(0)
    x, array = rounded(random.uniform(0.25, 1.0, (3, 6, 10)) * random.choice([-1.0, 1.0], (3, 6, 10)), backend, dtype)
    run = transform(function, normalize=normalize, xp=xp, **options_of(function))
    y = backend.to_numpy(run(array))
    for power in POWERS[dtype]:
        assert np.array_equal(backend.to_numpy(run(backend.from_numpy(np.ldexp(x, power), dtype))), y)
    for scale in SCALES[dtype]:
        z = backend.to_numpy(run(backend.from_numpy(x * scale, dtype)))
        assert_same(z, y, x, dtype, function=function, normalize=normalize)


@check(dtypes=("float16",))
@ITERATIONS
@pytest.mark.original("E6")
@pytest.mark.parametrize("scale", [2.0**-24, 2.0**12], ids=["subnormal", "huge"])
def test_norm_of_float16_neither_underflows_nor_overflows(backend, transform, dtype, xp, function, scale):
    random = np.random.default_rng(0)
    x = random.integers(1, 8, (6, 20)) * random.choice([-1.0, 1.0], (6, 20)) * scale
    x, array = rounded(x, backend, dtype)
    assert np.linalg.norm(x) > 65504 or np.linalg.norm(x) ** 2 < 2.0**-24  # the point: float16 cannot hold it
    y = backend.to_numpy(transform(function, xp=xp, **options_of(function))(array))
    assert_orthogonalized(y, x, KELLER, dtype, restarts=restarts_of(function))


@check("normalize")
@pytest.mark.original("E6")
def test_norm_of_many_elements_is_accumulated_in_float32(backend, transform, dtype, xp):
    x, array = rounded(np.random.default_rng(0).uniform(0.8, 1.0, (300, 400)), backend, dtype)
    y = backend.to_numpy(transform(ns_iterate, steps=0, xp=xp)(array))  # its square is beyond float16
    assert tolerances.matrix_errors(y, normalized(x, "frobenius")) <= tolerances.norm(x.size, dtype)


# ---- zero and nothing ----


@check()
@ITERATIONS
@NORMALIZATIONS
@pytest.mark.original("D4")
def test_zero_gives_zero(backend, transform, dtype, xp, function, normalize):
    x, array = rounded(matrices((3, 6, 10)) * np.array([1.0, 0.0, 1.0])[:, None, None], backend, dtype)
    y = backend.to_numpy(transform(function, normalize=normalize, xp=xp, **options_of(function))(array))
    assert not y[1].any()
    others = [0, 2]
    assert_orthogonalized(y[others], x[others], KELLER, dtype, normalize=normalize, restarts=restarts_of(function))


@check()
@ITERATIONS
@pytest.mark.original("D12")
@pytest.mark.parametrize("shape", [(0, 4), (4, 0), (0, 0), (3, 0, 4), (0, 3, 4)], ids=str)
@pytest.mark.parametrize("normalize", ["frobenius", pytest.param("aol", marks=EAGER)])
def test_empty_stays_empty(backend, transform, xp, function, shape, normalize):
    array = backend.from_numpy(np.zeros(shape), "float32")
    y = transform(function, normalize=normalize, xp=xp, **options_of(function))(array)
    assert backend.to_numpy(y).shape == shape
    assert y.dtype == array.dtype


# ---- eps ----


@check()
@EAGER
@ITERATIONS
@pytest.mark.original("D2", "D3", "D4", "R19")
@pytest.mark.parametrize("eps_mode", ["clamp", "add"])
@pytest.mark.parametrize("eps", [0.0, 1e-2, 3.0])
def test_eps_is_a_floor_or_an_addend_of_the_norm(backend, dtype, xp, function, eps, eps_mode):
    scales = np.array([1.0, 1e-2, 0.0])[:, None, None]  # norms above, below, and at nothing
    x, array = rounded(matrices((3, 6, 10)) * scales, backend, dtype)
    y = backend.to_numpy(function(array, eps=eps, eps_mode=eps_mode, xp=xp, **options_of(function)))
    exact = orthogonalized(x, KELLER, eps=eps, eps_mode=eps_mode)
    bounds = tolerances.iteration(x, KELLER, dtype, eps=eps, eps_mode=eps_mode, restarts=restarts_of(function))
    assert not y[2].any()
    assert np.all(tolerances.matrix_errors(y, exact) <= bounds)


# Of [[1, 2, 3], [4, 5, 6]] scaled to a norm: the greatest difference between the two modes after five steps, in
# float64, computed with an independent program. Where the norm is large, they agree.
MODES_APART = {9.539392014169456: 1.8e-8, 9.539392014169456e-6: 1.8e-2, 1e-7: 4.6e-2, 9.539392014169456e-8: 8.1e-2}


@check(dtypes=("float64",))
@EAGER
@pytest.mark.original("D3", "R19")
@ITERATIONS
def test_a_floor_is_no_addend(backend, dtype, xp, function):
    x = np.asarray([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])

    def run(norm, **options):
        array = backend.from_numpy(x * (norm / np.linalg.norm(x)), dtype)
        return backend.to_numpy(function(array, xp=xp, **options, **options_of(function)))

    for norm, apart in MODES_APART.items():
        found = np.max(np.abs(run(norm, eps=1e-7) - run(norm, eps=1e-7, eps_mode="add")))
        assert float(f"{found:.1e}") == apart, f"norm {norm}"
    free = run(1.0)  # what no floor touches
    assert tolerances.matrix_errors(run(1e-7, eps=1e-7), free) <= tolerances.iteration(
        x, KELLER, dtype, restarts=(2, 4)
    )
    assert float(f"{np.max(np.abs(run(9.539392014169456e-9, eps=1e-7) - free)):.1e}") == 1.1e-1


# ---- safety, and the order of cast and norm ----


@check()
@EAGER
@ITERATIONS
@NORMALIZATIONS
def test_a_safety_factor_multiplies_the_norm(backend, dtype, xp, function, normalize):
    x, array = rounded(matrices((2, 6, 10)), backend, dtype)
    y = backend.to_numpy(function(array, normalize=normalize, safety=1.25, xp=xp, **options_of(function)))
    (a, b, c), *others = KELLER
    divided = ((a / 1.25, b / 1.25**3, c / 1.25**5), *others)
    assert_orthogonalized(y, x, divided, dtype, normalize=normalize, restarts=restarts_of(function))


@check("normalize")
@EAGER
@pytest.mark.parametrize("safety", [1.0, 1.25])
@pytest.mark.parametrize(("eps", "eps_mode"), [(0.5, "clamp"), (0.5, "add"), (8.0, "clamp")])
def test_safety_comes_before_eps(backend, dtype, xp, eps, eps_mode, safety):
    x, array = rounded(matrices((6, 10)), backend, dtype)
    y = backend.to_numpy(ns_iterate(array, steps=0, eps=eps, eps_mode=eps_mode, safety=safety, xp=xp))
    norm = safety * np.linalg.norm(x)
    exact = x / (max(norm, eps) if eps_mode == "clamp" else norm + eps)
    assert tolerances.matrix_errors(y, exact) <= tolerances.norm(x.size, dtype)


@check("normalize")
@EAGER
@NORMALIZATIONS
def test_a_spectral_norm_is_at_most_one(backend, dtype, xp, normalize):
    """On nearly orthogonal, on nearly rank-one and on random matrices, wide and tall."""
    random = np.random.default_rng(0)
    for shape in ((6, 10), (10, 6), (5, 5)):
        for x in (matrices(shape), np.outer(np.ones(shape[0]), np.ones(shape[1])), random.standard_normal(shape)):
            y = ns_iterate(backend.from_numpy(x, dtype), steps=0, normalize=normalize, xp=xp)
            largest = np.linalg.norm(backend.to_numpy(y).astype(np.float64), 2)
            assert largest <= 1.0 + 8 * tolerances.norm(x.size, dtype)


@check("normalize")
@EAGER
@pytest.mark.parametrize("compute_dtype", ["float16", "bfloat16"])
def test_what_is_cast_before_the_norm_is_rounded_before(backend, xp, compute_dtype):
    if compute_dtype not in backend.dtypes:
        pytest.skip(f"{backend.name} has no {compute_dtype}")
    x = np.asarray(matrices((6, 10)), dtype=np.float32)
    x[0, 0] = 1e-9  # below float16, above bfloat16
    rounded_first, _ = rounded(x, backend, compute_dtype)

    def run(cast, scale):
        array = backend.from_numpy(x * np.float32(scale), "float32")
        options = {"steps": 0, "cast": cast, "compute_dtype": compute_dtype, "eps": 0.0, "eps_mode": "add"}
        return backend.to_numpy(ns_iterate(array, xp=xp, **options))

    exact = rounded_first / np.linalg.norm(rounded_first)
    error = tolerances.matrix_errors(run("before_norm", 1.0), exact)
    assert error <= 3 * tolerances.norm(x.size, compute_dtype)  # the norm and the quotient are rounded as well
    if compute_dtype == "float16":
        assert not run("before_norm", 1e-9).any()  # lost, as in the implementations that cast first
    assert run("after_norm", 1e-9).any()
