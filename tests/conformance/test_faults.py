"""Checks can fail: each fault is seen, by the checks that it concerns."""

import pytest

# What to run -> the backends whose fault it must see (row of the table), and the columns in which it shows.
ITERATIONS = {"ns_iterate", "gram_ns"}
FAULTS = {
    "test_kernels": (
        ["one-sided", "transposed", "unscaled", "in-half", "columns", "in-place", "in-place-readonly"],
        {"kernels"},
    ),
    "test_input_is_not_written": (["writes"], ITERATIONS),
    "test_dtype_device": (["widens"], ITERATIONS),
    "test_bad_matrix": (["leaks"], ITERATIONS),
    "test_empty": (["skips"], ITERATIONS),
    "test_second_call": (["retraces jit"], ITERATIONS),
    "test_singular_values or test_every_step_is or test_table_with_array": (
        ["off"],
        ITERATIONS | {"adaptive_moment", "second_moment", "weight_decay"},
    ),
    "test_optimizers and default and not muon_adamw": (
        ["no-decay", "coarse", "late"],
        {"optimizer step", "optimizer run"},
    ),
}


def name_of(row):
    return f"faulty:{row.split()[0].replace('-', '_').upper()}"


@pytest.mark.parametrize("checks", list(FAULTS))
def test_fault_is_seen(conformance, checks):
    rows, columns = FAULTS[checks]
    outcome = conformance("--backend", ",".join(map(name_of, rows)), "-k", checks)
    assert outcome.code == 1, outcome.out
    seen = {row: {column for column, (_, failed, _) in outcome.table[row].items() if failed} for row in rows}
    assert seen == dict.fromkeys(rows, columns)


def test_backend_without_a_fault_passes(conformance):
    checks = " or ".join(f"({checks})" for checks in FAULTS)
    outcome = conformance("--backend", "faulty:SOUND,faulty:FAITHFUL", "-k", checks)
    assert outcome.code == 0, outcome.out
    assert outcome.table["faithful"]["optimizer run"][0] > 0


def test_table_of_coefficients_with_a_slip_is_seen(conformance, tmp_path):
    (tmp_path / "slip.py").write_text(
        "from faulty import SOUND as BACKEND\n"
        "from zeropower.coefficients import TABLES\n"
        "TABLES['keller'] = ((3.4445, -4.7705, 2.0315),)\n"
    )
    outcome = conformance("--backend", "slip:BACKEND", "-k", "test_singular_values_follow_the_table or test_reference")
    assert outcome.code == 1, outcome.out
    failed = {column: cell[1] for column, cell in outcome.table["sound"].items()}
    assert failed["ns_iterate"] > 0
    assert failed["gram_ns"] > 0


def test_iteration_that_restarts_too_rarely_is_seen(conformance, tmp_path):
    (tmp_path / "rare.py").write_text(
        "from faulty import SOUND as BACKEND\n"
        "import zeropower.newton_schulz\n"
        "zeropower.newton_schulz.find_restarts = lambda triples, dtype: ()\n"
    )
    outcome = conformance("--backend", "rare:BACKEND", "-k", "test_automatic_restarts_are_as and float32 and keller-5")
    assert outcome.code == 1, outcome.out
    assert outcome.table["sound"]["gram_ns"][1] > 0
