"""Tables of quintics: their schedule, what they map singular values to, and what is refused."""

import numpy as np
import pytest

from zeropower import TABLES, headroom, output_range, schedule
from zeropower.coefficients import after_division, apply, positive_up_to

# Computed independently from the published triples, in exact scalar arithmetic on [3e-3, 1]: range, and headroom.
# Five steps each, but four of "aol" and the ten of "deepseek_v4"; "polar_express_jordan" after its norm's 1.02.
MAPS = {
    "keller": (0.682, 1.202, 1.264),
    "you": (0.978, 1.145, 1.325),
    "polar_express": (0.870, 1.124, 1.011),
    "polar_express_raw": (0.876, 1.124, 1.000),
    "polar_express_dao": (0.846, 1.124, 1.055),
    "polar_express_nvidia": (0.870, 1.124, 1.011),
    "polar_express_timm": (0.869, 1.131, 1.011),
    "polar_express_timm_safer": (0.859, 1.141, 1.022),
    "polar_express_jordan": (0.859, 1.141, 1.042),
    "cans": (0.884, 1.120, 1.000),
    "aol": (-1.084, 1.084, None),
    "deepseek_v4": (1.0000, 1.0005, 1.264),
    "cubic": (0.353, 1.300, 1.183),
}
STEPS = {"aol": 4, "deepseek_v4": 10}


def of_table(name):
    return after_division(schedule(name, STEPS.get(name, 5)), 1.02 if name == "polar_express_jordan" else 1.0)


def composed(triples, s):
    for a, b, c in triples:
        s = a * s + b * s**3 + c * s**5
    return s


@pytest.mark.parametrize("name", TABLES)
def test_five_steps_map_to_the_published_range(name):
    assert output_range(of_table(name)) == pytest.approx(MAPS[name][:2], abs=1e-3)


@pytest.mark.parametrize("name", TABLES)
def test_headroom_is_where_the_composed_map_leaves_its_bound(name):
    triples = of_table(name)
    reach = headroom(triples)
    if MAPS[name][2] is not None:
        assert reach == pytest.approx(MAPS[name][2], abs=1e-3)
    assert abs(composed(triples, reach)) <= 2.0
    with np.errstate(over="ignore", invalid="ignore"):
        assert not abs(composed(triples, np.float64(reach + 1e-3))) <= 2.0


def test_polar_express_is_the_paper_divided_by_its_safety_factor():
    first, last = schedule("polar_express", 8)[0], schedule("polar_express", 8)[-1]
    assert first == pytest.approx((
        8.28721201814563 / 1.01,
        -23.595886519098837 / 1.01**3,
        17.300387312530933 / 1.01**5,
    ))
    assert last == (1.875, -1.25, 0.375)


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("steps", [0, 1, 5, 12])
def test_steps_beyond_a_table_repeat_its_last_triple(name, steps):
    triples, table = schedule(name, steps), TABLES[name]
    assert triples == tuple(table[min(step, len(table) - 1)] for step in range(steps))


@pytest.mark.parametrize("name", TABLES)
def test_a_safety_factor_of_the_norm_is_a_division_of_the_first_triple(name):
    s = np.linspace(0.0, 1.0, 101)
    divided = apply(after_division(TABLES[name], 1.02), s)
    np.testing.assert_allclose(divided, composed(TABLES[name], s / 1.02), rtol=1e-12, atol=1e-12)


def test_sequences_of_any_kind_give_the_same_triples():
    assert schedule([1, 2, 3], 2) == schedule(((1.0, 2.0, 3.0),), 2) == ((1.0, 2.0, 3.0), (1.0, 2.0, 3.0))


def test_a_table_that_reverses_a_direction_is_seen():
    # Emerging-Optimizers' "aol" triples after a Frobenius norm: s = 1 ends at -0.99.
    aol = ((4.0098, -7.0585, 2.4635), (3.4585, -5.5479, 2.5959), (2.7573, -3.2939, 1.4254), (2.7215, -3.0494, 1.3169))
    assert composed(aol, 1.0) == pytest.approx(-0.9935, abs=1e-3)
    assert 0.88 < positive_up_to(aol) < 0.8845
    assert [name for name in TABLES if positive_up_to(of_table(name)) < 1.0] == ["aol"]


@pytest.mark.parametrize(
    ("coefficients", "steps", "message"),
    [
        ("kellar", 5, r"coefficients='kellar' is not known; accepted: 'keller', 'you', 'polar_express'"),
        ((), 5, "coefficients is empty"),
        ((1.0, 2.0), 5, "coefficients=.* accepted: a name"),
        (((1.0, 2.0, np.nan),), 5, "coefficients=nan is out of range"),
        ("keller", -1, "steps=-1 is out of range; accepted: integers >= 0"),
    ],
)
def test_what_is_no_table_is_refused(coefficients, steps, message):
    with pytest.raises(ValueError, match=message):
        schedule(coefficients, steps)


@pytest.mark.parametrize("steps", [2.0, True, "5"])
def test_steps_that_are_no_integer_are_refused(steps):
    with pytest.raises(TypeError, match=r"steps=.* is not an integer"):
        schedule("keller", steps)
