"""Checks can fail: each fault is seen, by the checks that it concerns."""

import pytest

FAULTS = {  # backend -> row of the table, checks that must see it, columns in which it shows
    "ONE_SIDED": ("one-sided", "test_symmul or test_small_integers", {"kernels"}),
    "UNSCALED": ("unscaled", "test_muladd", {"kernels"}),
    "IN_HALF": ("in-half", "test_muladd", {"kernels"}),
    "COLUMNS": ("columns", "test_gram and not standard", {"kernels"}),
    "IN_PLACE": ("in-place", "test_muladd", {"kernels"}),
    "IN_PLACE_READONLY": ("in-place-readonly", "test_muladd", {"kernels"}),
    "WRITES": ("writes", "test_input_is_not_written", {"ns_iterate", "gram_ns"}),
    "WIDENS": ("widens", "test_dtype_device", {"ns_iterate", "gram_ns"}),
    "LEAKS": ("leaks", "test_bad_matrix", {"ns_iterate", "gram_ns"}),
    "OFF": ("off", "test_singular_values or test_every_step_is or test_table_with_array", {"ns_iterate", "gram_ns", "adaptive_moment", "weight_decay"}),
    "SKIPS": ("skips", "test_empty", {"ns_iterate", "gram_ns"}),
    "RETRACES": ("retraces jit", "test_second_call", {"ns_iterate", "gram_ns"}),
    "NO_DECAY": ("no-decay", "test_optimizers and not adamw and default", {"optimizer step", "optimizer run"}),
    "LATE": ("late", "test_optimizers and adamw and default and not muon", {"optimizer step", "optimizer run"}),
    "COARSE": ("coarse", "test_optimizers and not adamw and default", {"optimizer step", "optimizer run"}),
}  # fmt: skip


@pytest.mark.parametrize("fault", list(FAULTS))
def test_fault_is_seen(conformance, fault):
    row, checks, columns = FAULTS[fault]
    outcome = conformance("--backend", f"faulty:{fault}", "-k", checks)
    assert outcome.code == 1, outcome.out
    assert {column for column, (_, failed, _) in outcome.table[row].items() if failed} == columns


def test_backend_without_a_fault_passes(conformance):
    checks = " or ".join(f"({checks})" for _, checks, _ in FAULTS.values())
    outcome = conformance("--backend", "faulty:SOUND,faulty:FAITHFUL", "-k", f"({checks}) and not muon_adamw")
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
    outcome = conformance("--backend", "rare:BACKEND", "-k", "test_automatic_restarts and float32")
    assert outcome.code == 1, outcome.out
    assert outcome.table["sound"]["gram_ns"][1] > 0
