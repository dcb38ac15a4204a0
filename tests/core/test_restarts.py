"""The search for restarts is arithmetic of its own: neither threads nor the machine's way of adding decide a plan."""

import os
import subprocess
import sys

import pytest

CODE = """
from zeropower.coefficients import schedule
from zeropower.restarts import restarts
print([restarts(schedule("keller", 5), dtype) for dtype in ("bfloat16", "float16", "float32")])
"""


def plans(**environment: str) -> str:
    """Find plans in a fresh process: numpy reads the number of its threads as it loads."""
    answer = subprocess.run(
        [sys.executable, "-c", CODE], env={**os.environ, **environment}, capture_output=True, text=True, check=True
    )
    return answer.stdout


@pytest.fixture(scope="module")
def alone():
    return plans(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")


def test_number_of_threads_does_not_matter(alone):
    assert plans(OMP_NUM_THREADS="2", OPENBLAS_NUM_THREADS="2") == alone
    assert alone.count("(") == 3


@pytest.mark.parametrize("kind", ["Prescott", "Haswell"])  # without and with fused multiply-adds
def test_kind_of_processor_does_not_matter(alone, kind):
    assert plans(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", OPENBLAS_CORETYPE=kind) == alone
