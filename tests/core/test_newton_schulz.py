"""Static decisions: the plan of a shape, and the fewest restarts that hold on matrices like momenta."""

import numpy as np
import pytest

import zeropower as zp
from zeropower.newton_schulz import plan
from zeropower.restarts import MAX_MATRIX_ERROR, MAX_SINGULAR_VALUE_ERROR, restarts


def counted(m, n, steps, cuts):
    """Count the multiply-adds of the two iterations by walking them, a symmetric product at half its cost."""
    square, gram, apply = m**3, m * m * n, 2 * m * m * n
    standard = steps * (gram + square + apply)
    total = 0
    for start, stop in zip((0, *cuts), (*cuts, steps), strict=True):
        total += gram + apply  # one Gram matrix, one product with x a segment
        for step in range(start, stop):
            total += square  # Z
            total += 0 if step == start else square  # Q Z
            total += 0 if step == stop - 1 else 2 * square  # R
    return standard, total


@pytest.mark.parametrize("shape", [(64, 256), (256, 64), (4, 3, 96, 128)])
def test_the_plan_takes_the_cheaper_iteration(shape):
    chosen = plan(shape, coefficients="keller", steps=5, restarts=(3,), dtype="float32")
    standard, gram = counted(*sorted(shape[-2:]), 5, (3,))
    assert chosen.flops == min(standard, gram)
    assert chosen.method == ("gram" if gram < standard else "standard")


def test_square_matrices_take_the_standard_iteration():
    assert plan((64, 64), coefficients="keller", steps=5, dtype="bfloat16").method == "standard"


def test_long_matrices_take_the_gram_iteration_with_restarts():
    chosen = plan((64, 256), coefficients="keller", steps=5, dtype="bfloat16")
    assert chosen.method == "gram"
    assert chosen.restarts == restarts(zp.schedule("keller", 5), "bfloat16")
    assert len(chosen.restarts) >= 1  # none at all was found to be wrong on momenta


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32", "float64"])
@pytest.mark.parametrize("steps", [0, 1, 2, 5, 12])
def test_restarts_lie_inside_the_steps(dtype, steps):
    found = restarts(zp.schedule("keller", steps), dtype)
    assert found == tuple(sorted(set(found)))
    assert all(0 < cut < steps for cut in found)


def test_a_restart_more_is_asked_for_where_fewer_bits_are_left():
    triples = zp.schedule("polar_express", 6)
    assert len(restarts(triples, "bfloat16")) > len(restarts(triples, "float16")) - 1
    assert len(restarts(triples, "bfloat16")) >= len(restarts(zp.schedule("keller", 5), "bfloat16"))


def test_the_bounds_are_the_documented_ones():
    assert (MAX_SINGULAR_VALUE_ERROR, MAX_MATRIX_ERROR) == (1.25, 2.0)


def test_the_choice_is_the_same_each_time():
    from zeropower.restarts import _search

    before = restarts(zp.schedule("you", 5), "float16")
    _search.cache_clear()
    assert restarts(zp.schedule("you", 5), "float16") == before


@pytest.mark.parametrize("given", ["all", (-1,), "Auto"])
def test_restarts_that_are_no_steps_are_refused(given):
    with pytest.raises(ValueError, match=r"restarts=.* accepted: 'auto' or 0-based steps"):
        zp.gram_ns(np.eye(2, 3), restarts=given)


def test_a_dtype_that_the_namespace_lacks_is_refused():
    with pytest.raises(ValueError, match="compute_dtype='bfloat16' does not exist"):
        zp.ns_iterate(np.eye(2, 3), compute_dtype="bfloat16")
