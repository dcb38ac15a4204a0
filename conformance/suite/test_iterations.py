"""What both loops share with the mathematics: symmetries, independence of a stack's matrices, their cost."""

from collections import Counter
from itertools import combinations

import numpy as np
import pytest

from zeropower import GENERIC, Kernels, gram_ns, ns_iterate
from zeropower.conformance import tolerances
from zeropower.conformance.check import EAGER, check
from zeropower.conformance.laws import ITERATIONS, assert_same, options_of, rounded
from zeropower.conformance.oracles import matrices, quintics, rotation

# ---- symmetries ----


@check()
@ITERATIONS
@pytest.mark.original("D1", "E3")
def test_transposition_goes_through(backend, transform, dtype, xp, function):
    x, array = rounded(matrices((3, 6, 10)), backend, dtype)
    run = transform(function, xp=xp, **options_of(function))
    turned = backend.to_numpy(run(backend.from_numpy(x.mT, dtype))).mT
    assert_same(turned, backend.to_numpy(run(array)), x, dtype, function=function)


@check()
@ITERATIONS
@pytest.mark.original("D6")
@pytest.mark.parametrize("normalize", ["frobenius", pytest.param("schatten4", marks=EAGER)])
def test_rotations_go_through(backend, transform, dtype, xp, function, normalize):
    x = matrices((3, 6, 10))
    run = transform(function, normalize=normalize, xp=xp, **options_of(function))
    y = backend.to_numpy(run(backend.from_numpy(x, dtype))).astype(np.float64)
    for left, right in ((rotation(6), np.eye(10)), (np.eye(6), rotation(10))):
        z = backend.to_numpy(run(backend.from_numpy(left @ x @ right, dtype)))
        assert_same(z, left @ y @ right, x, dtype, function=function, normalize=normalize)


@check()
@ITERATIONS
@pytest.mark.original("D6")
def test_sign_goes_through_exactly(backend, transform, dtype, xp, function):
    x, array = rounded(matrices((3, 6, 10)), backend, dtype)
    run = transform(function, xp=xp, **options_of(function))
    assert np.array_equal(backend.to_numpy(run(backend.from_numpy(-x, dtype))), -backend.to_numpy(run(array)))


# ---- stacks ----


@check()
@ITERATIONS
@pytest.mark.original("D2", "D8", "R5")
def test_stack_is_a_loop(backend, transform, dtype, xp, function):
    x, array = rounded(matrices((2, 2, 6, 10)), backend, dtype)
    options = options_of(function)
    stacked = backend.to_numpy(transform(function, xp=xp, **options)(array))
    one = transform(function, xp=xp, **options)
    looped = [[backend.to_numpy(one(array[i, j, ...])) for j in range(2)] for i in range(2)]
    assert_same(stacked, np.asarray(looped), x, dtype, function=function)


@check()
@ITERATIONS
@pytest.mark.original("D2", "E9", "R5", "R16")
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf], ids=str)
def test_bad_matrix_leaves_its_neighbours_alone(backend, transform, dtype, xp, function, bad):
    x = matrices((3, 6, 10))
    spoiled = x.copy()
    spoiled[1, 2, 3] = bad
    run = transform(function, xp=xp, **options_of(function))
    good = backend.to_numpy(run(backend.from_numpy(x, dtype)))
    with np.errstate(all="ignore"):
        y = backend.to_numpy(run(backend.from_numpy(spoiled, dtype)))
    others = [0, 2]
    assert np.array_equal(y[others], good[others])
    assert np.isnan(y[1]).all()


# ---- one polynomial, two loops ----


def small_restart_sets(steps):
    """None, each single step (0 and one beyond the last, which change nothing, included), all pairs of five, all."""
    singles = [(step,) for step in range(steps + 1)]
    pairs = list(combinations(range(1, steps), 2)) if steps == 5 else []
    return [(), *singles, *pairs, tuple(range(steps))]


@check("gram_ns", dtypes=("float64", "float32"))
@pytest.mark.original("E1", "E4")
@pytest.mark.parametrize("steps", [pytest.param(s, marks=() if s == 5 else EAGER) for s in range(8)])
def test_gram_is_the_standard_iteration(backend, transform, dtype, xp, steps):
    x, array = rounded(matrices((6, 10)), backend, dtype)
    triples = quintics("keller", steps)
    standard = backend.to_numpy(transform(ns_iterate, steps=steps, xp=xp)(array))
    for restarts in small_restart_sets(steps):
        gram = backend.to_numpy(transform(gram_ns, steps=steps, restarts=restarts, xp=xp)(array))
        bound = tolerances.iteration(x, triples, dtype) + tolerances.iteration(x, triples, dtype, restarts=restarts)
        assert tolerances.matrix_errors(gram, standard) <= bound, f"restarts={restarts}"


@check("gram_ns")
@pytest.mark.original("E2")
@pytest.mark.parametrize("shape", [(8, 8), pytest.param((3, 5, 5), marks=EAGER)], ids=str)
def test_gram_of_square_matrices_is_the_standard_iteration_to_the_bit(backend, transform, dtype, xp, shape):
    array = backend.from_numpy(matrices(shape), dtype)
    standard = transform(ns_iterate, xp=xp)(array)
    gram = transform(gram_ns, restarts=(2,), xp=xp)(array)
    assert np.array_equal(backend.to_numpy(gram), backend.to_numpy(standard))


# ---- cost ----


class CountingKernels:
    """The generic products, counted, with the shapes that went in."""

    def __init__(self):
        self.calls = Counter()
        self.kernels = Kernels(*(self.counted(name) for name in Kernels._fields))

    def counted(self, name):
        product = getattr(GENERIC, name)

        def run(*arrays, **scalars):
            self.calls[name, *(tuple(array.shape) for array in arrays[:2])] += 1
            return product(*arrays, **scalars)

        return run


@check("ns_iterate")
@EAGER
@pytest.mark.parametrize(("steps", "normalize"), [(0, "frobenius"), (1, "frobenius"), (5, "frobenius"), (5, "aol")])
def test_standard_step_costs_three_products(backend, xp, steps, normalize):
    counting = CountingKernels()
    x = backend.from_numpy(matrices((2, 6, 10)), "float32")
    ns_iterate(x, steps=steps, normalize=normalize, kernels=counting.kernels, xp=xp)
    square, wide = (2, 6, 6), (2, 6, 10)
    per_step = Counter({("gram", wide): steps, ("symmul", square, square): steps, ("muladd", square, wide): steps})
    assert counting.calls == +per_step


@check("gram_ns")
@EAGER
@pytest.mark.original("E4")
@pytest.mark.parametrize("shape", [(6, 10), (10, 6)], ids=str)
@pytest.mark.parametrize(
    ("steps", "restarts", "segments"),
    [(5, (), [5]), (5, (2,), [2, 3]), (5, (1, 2, 3, 4), [1] * 5), (5, (0, 7), [5]), (1, (), [1]), (0, (), [])],
    ids=str,
)
def test_gram_segment_costs_two_large_products(backend, xp, shape, steps, restarts, segments):
    counting = CountingKernels()
    gram_ns(
        backend.from_numpy(matrices(shape), "float32"), steps=steps, restarts=restarts, kernels=counting.kernels, xp=xp
    )
    calls = Counter()
    for (name, *shapes), count in counting.calls.items():
        calls[name] += count
        assert name != "symmul" or shapes == [(6, 6), (6, 6)], "the small side is iterated"
    # R², then Q and R: of the first step Q is no product, after the last step there is no R
    symmul = sum(length + (length - 1) + 2 * (length - 1) for length in segments)
    assert calls == Counter(gram=len(segments), symmul=symmul, muladd=len(segments))
