"""The command: names of backends, exit codes, the table below it all."""

import re
from importlib.metadata import distribution

import pytest

KERNELS = ("-k", "test_kernels and (test_gram or test_symmul)")


def one_error(outcome):
    """The message of a usage error: one line, nothing else."""
    assert outcome.code == 4
    lines = [line for line in (outcome.out + outcome.err).splitlines() if line.strip()]
    assert len(lines) == 1
    assert lines[0].startswith("ERROR: ")
    return lines[0]


# ---- names ----


def test_unknown_backend_is_refused_with_the_known_ones(conformance):
    message = one_error(conformance("--backend", "nunpy"))
    assert "backend='nunpy' is not known" in message
    for name in ("'numpy'", "'numpy-readonly'", "'array-api-strict'", "'torch'", "'jax'", "'all'"):
        assert name in message


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("no_such_package.module:BACKEND", "cannot be imported: No module named 'no_such_package'"),
        ("faulty:NOT_A_BACKEND", "is 'numpy'; accepted: a zeropower.Backend"),
        ("faulty:NOWHERE", "is None; accepted: a zeropower.Backend"),
        ("faulty:STRANGE_NAME", "expected_failures of backend 'strange' names 'test_no_such_check', which is no check"),
        ("numpy, faulty:NOWHERE", "is None; accepted: a zeropower.Backend"),
        ("faulty:SOUND,faulty:NAMESAKE", "two backends have the name 'sound'"),
    ],
)
def test_name_that_leads_to_no_backend_is_refused(conformance, name, message):
    assert message in one_error(conformance("--backend", name))


def test_mistyped_option_is_refused(conformance):
    outcome = conformance("--backends", "numpy", "--fast")
    assert outcome.code == 2
    assert outcome.err == "python -m zeropower.conformance: error: unrecognized arguments: --backends --fast\n"


# ---- the run ----


def test_table_comes_last_and_pytest_has_the_last_word(conformance):
    outcome = conformance("--backend", "numpy", "-k", "weight_decay or test_wrong_schedule or test_table or routing")
    assert outcome.code == 0, outcome.out
    *_, row, closing = outcome.out.splitlines()
    assert row.startswith("numpy ")
    assert re.fullmatch(r"\d+ passed, \d+ deselected in .*s", closing)
    assert set(outcome.table) == {"numpy"}
    passed = sum(cell[0] for cell in outcome.table["numpy"].values())
    assert closing.startswith(f"{passed} passed")


def test_several_backends_are_several_rows(conformance):
    outcome = conformance(
        "--backend", "faulty:SOUND,faulty:ABSENT", "--backend", "numpy-readonly", "-k", "test_sizes_at_which"
    )
    assert outcome.code == 0, outcome.out
    assert list(outcome.table) == ["sound", "absent eager", "absent jit", "numpy-readonly"]


def test_what_is_unavailable_is_skipped_with_its_reason(conformance):
    outcome = conformance("--backend", "faulty:ABSENT", "-k", "test_kernels and (test_gram or test_sizes)")
    assert outcome.code == 0, outcome.out
    assert outcome.table["absent jit"]["kernels"] == (0, 0, 2)
    passed, failed, in_float32 = outcome.table["absent eager"]["kernels"]
    assert (passed, failed) == (in_float32 + 2, 0)
    assert in_float32 > 0
    assert outcome.reasons == [f"too slow ({in_float32})", "no compiler (2)"]


def test_missing_framework_is_a_row_with_a_reason(conformance, tmp_path):
    info = tmp_path / "ghost-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: ghost\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[zeropower.backends]\nghost = ghost_framework.backend:BACKEND\n")
    outcome = conformance("--backend", "all", "-k", "test_plan_is_a_value")
    assert outcome.code == 0, outcome.out
    assert re.search(r"^ghost +skipped", outcome.out, re.MULTILINE)
    assert "ghost: No module named 'ghost_framework'" in outcome.reasons
    assert {"numpy", "numpy-readonly", "array-api-strict"} <= set(outcome.table)
    message = one_error(conformance("--backend", "ghost"))
    assert "backend='ghost' cannot be imported: No module named 'ghost_framework'" in message


def test_fault_in_a_record_is_no_missing_framework(conformance, tmp_path):
    info = tmp_path / "wreck-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: wreck\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[zeropower.backends]\nwreck = wreck:BACKEND\n")
    (tmp_path / "wreck.py").write_text("from zeropower import no_such_name\n")
    message = one_error(conformance("--backend", "all"))
    assert "backend='wreck': wreck:BACKEND raised ImportError" in message
    assert "no_such_name" in message


def test_exit_code_and_options_are_those_of_pytest(conformance):
    failing = conformance("--backend", "faulty:ONE_SIDED", "-x", *KERNELS)
    assert failing.code == 1
    assert sum(failed for _, failed, _ in failing.table["one-sided"].values()) == 1
    listed = conformance("--backend", "numpy", "-k", "test_zero_gives_zero", "--", "--collect-only")
    assert listed.code == 0
    assert "test_zero_gives_zero[numpy-eager-float64" in listed.out
    assert conformance("--backend", "numpy", "-k", "no_such_check").code == 5


def test_settings_of_the_folder_are_not_those_of_the_suite(conformance, tmp_path):
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = --no-such-option\n")
    (tmp_path / "conftest.py").write_text("raise RuntimeError\n")
    assert conformance("--backend", "numpy", "-k", "test_plan_is_a_value").code == 0


# ---- known faults ----


def test_known_fault_is_no_failure_and_is_named(conformance):
    outcome = conformance("--backend", "faulty:KNOWN_FAULT,faulty:KNOWN_IN_PART", *KERNELS)
    assert outcome.code == 0, outcome.out
    for row in ("known", "in-part"):
        passed, failed, skipped = outcome.table[row]["kernels"]
        assert passed > 0
        assert failed == 0
        assert skipped > 0
    assert any(reason.startswith("expected failure: forgets to mirror") for reason in outcome.reasons)


def test_known_fault_that_is_mended_is_a_failure(conformance):
    outcome = conformance("--backend", "faulty:MENDED", *KERNELS)
    assert outcome.code == 1
    assert "[XPASS(strict)] was wrong once" in outcome.out
    assert outcome.table["mended"]["kernels"][1] > 0


# ---- packaging ----


def test_backends_are_found_by_entry_point_and_pytest_is_left_alone():
    groups = {entry.group for entry in distribution("zeropower").entry_points}
    assert "zeropower.backends" in groups
    assert "pytest11" not in groups
