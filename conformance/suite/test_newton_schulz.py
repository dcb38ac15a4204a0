"""The iterations against a float64 singular value decomposition, and what they keep of their input."""

import array_api_compat
import numpy as np
import pytest

from zeropower import DIALECTS, GENERIC, gram_ns, ns_iterate, orthogonalize
from zeropower.conformance import tolerances
from zeropower.conformance.check import EAGER, REPRESENTATIVE, check
from zeropower.conformance.laws import (
    ITERATIONS,
    NORMALIZATIONS,
    assert_orthogonalized,
    assert_same,
    options_of,
    restarts_of,
    rounded,
)
from zeropower.conformance.oracles import matrices, orthogonalized, quintics
from zeropower.newton_schulz import plan

SHAPES = [(6, 10), (3, 6, 10), (3, 10, 6), (8, 8), (2, 2, 6, 10), (1, 7), (7, 1), (1, 1)]
EVERY = pytest.mark.parametrize("function", [ns_iterate, gram_ns, orthogonalize], ids=lambda f: f.__name__)
CUBIC = (2.0, -1.5, 0.5)
SEQUENCE = ((2.0, -1.5, 0.5), (1.875, -1.25, 0.375))


def name(value):
    return "x".join(map(str, value)) if isinstance(value, tuple) else None


# ---- singular values ----


@check()
@ITERATIONS
@pytest.mark.original("D7", "D9")
@pytest.mark.parametrize(  # which numbers they are is nothing to a transform
    "table", ["keller", *(pytest.param(t, marks=EAGER) for t in ("you", "polar_express", CUBIC, SEQUENCE))], ids=str
)
def test_singular_values_follow_the_table(backend, transform, dtype, xp, function, table):
    x, array = rounded(matrices((3, 6, 10)), backend, dtype)
    y = transform(function, coefficients=table, steps=5, xp=xp, **options_of(function))(array)
    triples = quintics((table,) if table is CUBIC else table, 5)
    assert_orthogonalized(backend.to_numpy(y), x, triples, dtype, restarts=restarts_of(function))


@check()
@ITERATIONS
@pytest.mark.original("D1", "D9", "D10", "E3")
@pytest.mark.parametrize("shape", SHAPES, ids=name)
def test_every_shape_is_a_stack_of_matrices(backend, transform, dtype, xp, function, shape):
    x, array = rounded(matrices(shape), backend, dtype)
    y = transform(function, xp=xp, **options_of(function))(array)
    assert_orthogonalized(backend.to_numpy(y), x, quintics("keller", 5), dtype, restarts=restarts_of(function))


@check()
@ITERATIONS
@pytest.mark.parametrize("normalize", ["schatten4", "aol"])
@pytest.mark.parametrize("shape", [(3, 6, 10), pytest.param((3, 10, 6), marks=EAGER)], ids=name)
def test_normalisation_is_that_of_its_name(backend, transform, dtype, xp, function, normalize, shape):
    x, array = rounded(matrices(shape), backend, dtype)
    y = transform(function, normalize=normalize, xp=xp, **options_of(function))(array)
    triples, restarts = quintics("keller", 5), restarts_of(function)
    assert_orthogonalized(backend.to_numpy(y), x, triples, dtype, normalize=normalize, restarts=restarts)


@check(dtypes=("float32",))
@EAGER
@ITERATIONS
@pytest.mark.original("D7")
@pytest.mark.parametrize(("table", "steps"), [("you", 7), ("polar_express", 10), (SEQUENCE, 4)], ids=str)
def test_steps_beyond_the_table_repeat_its_last(backend, dtype, xp, function, table, steps):
    x, array = rounded(matrices((6, 10)), backend, dtype)
    restarts = range(2, steps, 2)
    y = function(array, coefficients=table, steps=steps, xp=xp, **options_of(function, restarts))
    triples = quintics(table, steps)
    assert_orthogonalized(backend.to_numpy(y), x, triples, dtype, restarts=restarts_of(function, restarts))


# K. Jordan's coefficients in float64, computed with an independent program.
M = [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]
S = [[1.0, 2.0], [3.0, 4.0]]
REFERENCE = [
    (M, 0, [[0.10482848367219183, 0.20965696734438366, 0.3144854510165755],
            [0.4193139346887673, 0.5241424183609592, 0.628970902033151]]),
    (M, 1, [[-0.0890846341077175, 0.1252297066817869, 0.3395440474712913],
            [0.3642340289500319, 0.3794427924632344, 0.39465155597643653]]),
    (M, 2, [[-0.45152758377899194, 0.15440731340726632, 0.7603422105935247],
            [0.7053630571765013, 0.617338201229314, 0.529313345282126]]),
    (M, 5, [[-0.5682900920894455, 0.05774194327350796, 0.6837739786364614],
            [0.5633546843416661, 0.4056128235639824, 0.2478709627862985]]),
    (S, 1, [[-0.00723521212443679, 0.35285058023267435], [0.44579382387593225, 0.4719514303407273]]),
    (S, 2, [[-0.288102889956136, 0.7532481243855365], [0.8277235719651663, 0.6604801278542861]]),
    (S, 5, [[-0.6806610001216598, 0.8255396074706305], [0.7412954094527766, 0.2594400100323857]]),
    ([[1.0, 0.0], [0.0, 1.0]], 5, [[1.1081111156829333, 0.0], [0.0, 1.1081111156829333]]),
    ([[3.0, 4.0]], 5, [[0.41786184568185125, 0.5571491275758023]]),
]  # fmt: skip


@check(dtypes=("float64",))
@ITERATIONS
@pytest.mark.original("D1", "D5", "D10", "E3")
@pytest.mark.parametrize("case", REFERENCE, ids=lambda case: f"{name(np.shape(case[0]))}-{case[1]}")
def test_reference_numbers(backend, transform, dtype, xp, function, case):
    x, steps, expected = case
    run = transform(function, steps=steps, xp=xp, **options_of(function))
    for turn in (np.asarray, np.transpose):
        y = backend.to_numpy(run(backend.from_numpy(turn(x), dtype)))
        bound = tolerances.iteration(np.asarray(x), quintics("keller", steps), dtype, restarts=restarts_of(function))
        assert tolerances.matrix_errors(y, turn(expected)) <= bound


# What the original's float16 was measured to differ by from float64 at most, with products that are rounded once.
MATRIX_ERROR, ELEMENT_ERROR = 1e-2, 5e-3
SIZES = [(2, 3), (3, 2), (5, 3), (7, 20), (17, 33), (96, 64), (128, 256), (256, 257)]


@check("gram_ns", dtypes=("float16",))
@EAGER
@pytest.mark.original("E10")
@pytest.mark.parametrize("shape", SIZES, ids=name)
def test_float16_gram_iteration_is_as_accurate_as_the_original_s(backend, dtype, xp, kernels, shape):
    recipe = DIALECTS["diffsinger"].muon
    x, array = rounded(matrices(shape), backend, "float32")
    options = {"coefficients": recipe.coefficients, "steps": recipe.steps, "restarts": recipe.restarts}
    y = backend.to_numpy(gram_ns(array, **options, eps=recipe.eps, compute_dtype=dtype, kernels=kernels, xp=xp))
    exact = orthogonalized(x, quintics("keller", 5))
    assert y.dtype == np.float32
    roundings = 4 if kernels is GENERIC else 1  # of the product, of both its factors' scalings, of the sum
    assert tolerances.matrix_errors(y, exact) <= roundings * MATRIX_ERROR
    assert np.max(np.abs(y - exact)) <= roundings * ELEMENT_ERROR


# ---- what is kept ----


@check()
@ITERATIONS
def test_dtype_device_and_namespace_are_kept(backend, transform, dtype, xp, function):
    array = backend.from_numpy(matrices((3, 6, 10)), dtype)
    y = transform(function, xp=xp, **options_of(function))(array)
    assert type(y) is type(array)
    assert y.dtype == array.dtype
    assert array_api_compat.device(y) == array_api_compat.device(array)
    assert array_api_compat.array_namespace(y) is array_api_compat.array_namespace(array)


@check()
@ITERATIONS
@NORMALIZATIONS
def test_input_is_not_written(backend, transform, dtype, xp, function, normalize):
    x, array = rounded(matrices((3, 6, 10)), backend, dtype)
    transform(function, normalize=normalize, xp=xp, **options_of(function))(array)
    assert np.array_equal(backend.to_numpy(array), x)


@check()
@ITERATIONS
def test_strides_make_no_difference(backend, transform, dtype, xp, function):
    whole = backend.from_numpy(matrices((3, 12, 20)), dtype)
    views = [whole[:, ::2, ::2], whole.mT[:, :10, :6].mT]
    run = transform(function, xp=xp, **options_of(function))
    for view in views:
        x = backend.to_numpy(view).astype(np.float64)
        y, z = run(view), run(backend.from_numpy(x, dtype))
        assert_same(backend.to_numpy(y), backend.to_numpy(z), x, dtype, function=function)


@check()
@EAGER
@EVERY
@pytest.mark.original("E6", "E7")
def test_compute_dtype_is_that_of_the_products(backend, dtype, xp, function):
    x, array = rounded(matrices((6, 10)), backend, dtype)
    for compute_dtype in backend.dtypes:
        wanted, seen = getattr(xp, compute_dtype), list[object]()
        kernels = GENERIC._replace(gram=recording(seen))
        coarser = max(dtype, compute_dtype, key=tolerances.UNIT_ROUNDOFF.__getitem__)
        for asked in (compute_dtype, wanted):
            y = function(array, compute_dtype=asked, kernels=kernels, xp=xp, **options_of(function))
            bound_of = restarts_of(function)
            assert y.dtype == array.dtype
            assert_orthogonalized(backend.to_numpy(y), x, quintics("keller", 5), coarser, restarts=bound_of)
        assert seen
        assert all(own == wanted for own in seen)


def recording(seen):
    def gram(x, /):
        seen.append(x.dtype)
        return GENERIC.gram(x)

    return gram


@check()
@EAGER
@EVERY
def test_compute_dtype_that_is_missing_is_refused(backend, xp, function):
    x = backend.from_numpy(matrices((6, 10)), backend.dtypes[0])
    standard = xp.__array_namespace_info__().dtypes(kind="real floating")
    missing = {"float64"} - standard.keys() | {name for name in ("float16", "bfloat16") if not hasattr(xp, name)}
    for name in (*missing, "float8", "int32"):
        with pytest.raises(ValueError, match=f"^compute_dtype='{name}'"):
            function(x, compute_dtype=name, xp=xp)


@check(dtypes=("float32", "bfloat16"))
@REPRESENTATIVE
@ITERATIONS
def test_second_call_compiles_nothing(backend, transform, dtype, xp, function):
    first, second = matrices((3, 6, 10), seed=1), matrices((3, 6, 10), seed=2)
    run = transform(function, xp=xp, **options_of(function))
    for x in (first, second):
        y = backend.to_numpy(run(backend.from_numpy(x, dtype)))
        assert_orthogonalized(y, x, quintics("keller", 5), dtype, restarts=restarts_of(function))
    if transform.traces:
        assert run.compilations(backend.from_numpy(first, dtype)) == 0
        assert run.compilations(backend.from_numpy(matrices((7, 5)), dtype)) == 1


# ---- which iteration ----


@check("orthogonalize", dtypes=("float64", "float32"))
@pytest.mark.parametrize("shape", [(4, 24), (24, 4), (2, 8, 8), (3, 0)], ids=name)
@pytest.mark.parametrize("method", [pytest.param("standard", marks=EAGER), pytest.param("gram", marks=EAGER), "auto"])
def test_method_is_one_of_the_iterations(backend, transform, dtype, xp, method, shape):
    array = backend.from_numpy(matrices(shape) if 0 not in shape else np.zeros(shape), dtype)
    y = transform(orthogonalize, method=method, restarts=(3,), xp=xp)(array)
    chosen = (
        plan(shape, coefficients="keller", steps=5, restarts=(3,), dtype=dtype).method if method == "auto" else method
    )
    if chosen == "standard":
        expected = transform(ns_iterate, xp=xp)(array)
    else:
        expected = transform(gram_ns, restarts=(3,), xp=xp)(array)
    assert np.array_equal(backend.to_numpy(y), backend.to_numpy(expected))
    assert chosen == ("standard" if shape[-1] == shape[-2] or 0 in shape else "gram") or method != "auto"


# ---- refusals ----

REFUSED = {
    "coefficients": [
        ("nobody", ValueError),
        ((1.0, 2.0), ValueError),
        ((), ValueError),
        ([(1.0, np.nan, 0.0)], ValueError),
    ],
    "steps": [(-1, ValueError), (2.0, TypeError), (True, TypeError)],
    "normalize": [("spectral", ValueError), (None, ValueError)],
    "eps": [(np.nan, ValueError), (-1e-8, ValueError), (np.inf, ValueError), ("small", TypeError)],
    "eps_mode": [("max", ValueError)],
}  # fmt: skip


@check()
@EAGER
@ITERATIONS
@pytest.mark.parametrize(
    ("argument", "value", "error"), [(name, *case) for name, cases in REFUSED.items() for case in cases], ids=str
)
def test_wrong_option_is_named(backend, xp, function, argument, value, error):
    x = backend.from_numpy(matrices((6, 10)), backend.dtypes[0])
    with pytest.raises(error, match=rf"^{argument}[= ].*"):
        function(x, xp=xp, **{argument: value})


@check("gram_ns")
@EAGER
@pytest.mark.parametrize("restarts", ["never", (-1,), (2, -3)], ids=str)
def test_wrong_restarts_are_named(backend, xp, restarts):
    x = backend.from_numpy(matrices((6, 10)), backend.dtypes[0])
    with pytest.raises(ValueError, match=r"^restarts="):
        gram_ns(x, restarts=restarts, xp=xp)


@check("orthogonalize")
@EAGER
@pytest.mark.parametrize("method", ["fast", None], ids=str)
def test_wrong_method_is_named(backend, xp, method):
    x = backend.from_numpy(matrices((6, 10)), backend.dtypes[0])
    with pytest.raises(ValueError, match=r"^method="):
        orthogonalize(x, method=method, xp=xp)


@check()
@EAGER
@EVERY
@pytest.mark.original("D11")
def test_only_stacks_of_real_matrices_are_accepted(backend, xp, function):
    for shape in ((), (5,)):
        with pytest.raises(ValueError, match=r"^x has shape"):
            function(backend.from_numpy(np.ones(shape), backend.dtypes[0]), xp=xp)
    for dtype in (xp.int32, xp.bool, xp.complex64):
        with pytest.raises(TypeError, match=r"^x has dtype"):
            function(xp.ones((2, 3), dtype=dtype), xp=xp)
