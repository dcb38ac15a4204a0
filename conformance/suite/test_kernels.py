"""Every set of products against float64, elementwise, within the bound of the operations counted."""

import numpy as np
import pytest

from zeropower import GENERIC
from zeropower.conformance.check import EAGER, REPRESENTATIVE, check
from zeropower.conformance.laws import rounded
from zeropower.conformance.oracles import matrices
from zeropower.conformance.tolerances import product

CASES = pytest.mark.parametrize(  # leading axes, with an addend or not, alpha, beta
    ("stack", "addend", "alpha", "beta"),
    [
        ((), False, 1.0, 1.0),
        ((), True, 1.0, 1.0),
        ((3,), True, 2.0315, -4.775),
        ((3,), False, -0.5, 1.0),
        ((2, 2), True, 1.0, 3.4445),
        ((2, 2), True, -0.5, 0.0),
    ],
    ids=str,
)


def symmetric(shape, seed=0):
    """Symmetric matrices that commute, as powers of one another do: two of them."""
    x = matrices(shape, seed)
    gram = x @ x.mT
    return gram, gram @ gram


def assert_product(y, a, b, c, alpha, beta, dtype):
    exact = alpha * (a @ b) + (0 if c is None else beta * c)
    assert y.shape == exact.shape
    assert np.all(np.abs(y - exact) <= product(a, b, c, alpha, beta, dtype))


@EAGER
@check("kernels")
@pytest.mark.parametrize("shape", [(5, 9), (3, 9, 5), (2, 2, 5, 9), (1, 4)], ids=str)
def test_gram(backend, transform, dtype, kernels, shape):
    x, array = rounded(matrices(shape), backend, dtype)
    run = transform(kernels.gram)
    assert_product(backend.to_numpy(run(array)), x, x.mT, None, 1.0, 1.0, dtype)
    assert_product(backend.to_numpy(run(array.mT)), x.mT, x, None, 1.0, 1.0, dtype)
    assert np.array_equal(backend.to_numpy(array), x)


@EAGER
@check("kernels")
@CASES
def test_muladd(backend, transform, dtype, kernels, stack, addend, alpha, beta):
    (a, left), (b, right) = (rounded(matrices((*stack, *s)), backend, dtype) for s in ((5, 6), (6, 9)))
    c, added = rounded(matrices((*stack, 5, 9), seed=1), backend, dtype) if addend else (None, None)
    run = transform(kernels.muladd, alpha=alpha, beta=beta)
    assert_product(backend.to_numpy(run(left, right, added)), a, b, c, alpha, beta, dtype)
    # transposed views, as the iterations of tall matrices have them
    turned = backend.to_numpy(run(right.mT, left.mT, added.mT if addend else None))
    assert_product(turned, b.mT, a.mT, c.mT if addend else None, alpha, beta, dtype)
    for array, before in ((left, a), (right, b), (added, c)):
        assert before is None or np.array_equal(backend.to_numpy(array), before)


@EAGER
@check("kernels")
@CASES
def test_symmul(backend, transform, dtype, kernels, stack, addend, alpha, beta):
    (a, left), (b, right) = (rounded(x, backend, dtype) for x in symmetric((*stack, 7, 9)))
    c, added = (a, left) if addend else (None, None)
    run = transform(kernels.symmul, alpha=alpha, beta=beta)
    assert_product(backend.to_numpy(run(left, right, added)), a, b, c, alpha, beta, dtype)
    square = backend.to_numpy(run(left, left, added))  # one array three times over, as in the iterations
    assert_product(square, a, a, c, alpha, beta, dtype)
    assert np.array_equal(backend.to_numpy(left), a)
    assert np.array_equal(backend.to_numpy(right), b)


@EAGER
@check("kernels")
@pytest.mark.parametrize("stack", [(), (3,)], ids=str)
def test_symmul_mirrors_or_multiplies_what_it_is_given(backend, transform, dtype, kernels, stack):
    """With operands that are hardly symmetric, which shows what becomes of their rounding errors."""
    (a, left), (b, right), (c, added) = (rounded(matrices((*stack, 7, 7), seed), backend, dtype) for seed in (0, 1, 2))
    y = backend.to_numpy(transform(kernels.symmul, alpha=2.0315, beta=-4.775)(left, right, added))
    if not np.array_equal(y, np.swapaxes(y, -2, -1)):
        assert_product(y, a, b, c, 2.0315, -4.775, dtype)


@check("kernels")
@REPRESENTATIVE
def test_small_integers_are_exact(backend, transform, kernels, dtype):
    random = np.random.default_rng(0)
    x = random.integers(-1, 2, (3, 6, 8)).astype(np.float64)
    s = np.triu(random.integers(-1, 2, (6, 6)))
    s = np.maximum(s, s.T).astype(np.float64)  # symmetric; its square and its triple commute with it
    array, square = backend.from_numpy(x, dtype), backend.from_numpy(s, dtype)
    assert np.array_equal(backend.to_numpy(transform(kernels.gram)(array)), x @ x.mT)
    symmul = transform(kernels.symmul, alpha=2.0, beta=-1.0)(square, square, square)
    assert np.array_equal(backend.to_numpy(symmul), 2 * s @ s - s)
    stacked = backend.from_numpy(np.stack([s, s.T, -s]), dtype)
    muladd = transform(kernels.muladd, beta=2.0)(stacked, array, array)
    assert np.array_equal(backend.to_numpy(muladd), np.stack([s, s.T, -s]) @ x + 2 * x)


@check("kernels")
def test_sizes_at_which_a_kernel_changes_its_form(backend, transform, kernels, dtype):
    for size in (64,) if kernels is GENERIC else (300, 770):  # below and above a few strips, which do not divide it
        (a, left), (b, right) = (rounded(x, backend, dtype) for x in symmetric((size, size)))
        x, array = rounded(np.random.default_rng(0).standard_normal((size, 33)) / size**0.5, backend, dtype)
        gram = backend.to_numpy(transform(kernels.gram)(array))
        assert_product(gram, x, x.mT, None, 1.0, 1.0, dtype)
        symmul = backend.to_numpy(transform(kernels.symmul, alpha=2.0315, beta=-4.775)(left, right, left))
        assert_product(symmul, a, b, a, 2.0315, -4.775, dtype)
        muladd = backend.to_numpy(transform(kernels.muladd, beta=3.4445)(left, array, array))
        assert_product(muladd, a, x, x, 1.0, 3.4445, dtype)
