"""A third party runs the suite among its own tests."""

import pytest

CONFTEST = 'pytest_plugins = ["zeropower.conformance.plugin"]\n'
CHECKS = "from zeropower.conformance.suite import *\n\n\ndef test_of_their_own():\n    assert 1 + 1 == 2\n"
STRICT = ("-q", "-W", "error", "--strict-markers", "-p", "no:cacheprovider")


@pytest.fixture
def project(tmp_path):
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_conformance.py").write_text(CHECKS)
    return tmp_path


@pytest.mark.parametrize("mode", ["importlib", "prepend"])
def test_star_import_brings_the_checks_into_a_file_of_theirs(project, run_pytest, mode):
    selected = "test_zero_gives_zero or test_gram or test_of_their_own or test_plan_is_a_value"
    outcome = run_pytest(*STRICT, f"--import-mode={mode}", "--zeropower-backend", "faulty:FAITHFUL", "-k", selected)
    assert outcome.code == 0, outcome.out + outcome.err
    assert set(outcome.table) == {"faithful"}
    assert {"ns_iterate", "gram_ns", "kernels", "routing"} == set(outcome.table["faithful"])
    checks = sum(passed for passed, _, _ in outcome.table["faithful"].values())
    assert outcome.out.splitlines()[-1].startswith(f"{checks + 1} passed")


def test_failure_is_explained_in_their_file_too(project, run_pytest):
    outcome = run_pytest(*STRICT, "--zeropower-backend", "faulty:WIDENS", "-k", "test_dtype_device")
    assert outcome.code == 1
    assert "assert dtype('float64') == dtype('float32')" in outcome.out  # pytest has rewritten the suite


def test_option_must_be_given(project, run_pytest):
    outcome = run_pytest(*STRICT)
    assert outcome.code != 0
    assert "--zeropower-backend is not given" in outcome.out


def test_wrong_backend_ends_the_run_in_one_line(project, run_pytest):
    outcome = run_pytest(*STRICT, "--zeropower-backend", "nunpy")
    assert outcome.code == 4
    assert outcome.err.strip().startswith("ERROR: backend='nunpy' is not known")


def test_plugin_without_checks_says_nothing(project, run_pytest):
    (project / "test_conformance.py").write_text("def test_of_their_own(backend='mine'):\n    assert backend\n")
    outcome = run_pytest(*STRICT)
    assert outcome.code == 0
    assert "zeropower" not in outcome.out
