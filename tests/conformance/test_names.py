"""The suite, its data, and the names that lead from a room of the core to its laws."""

import ast
import subprocess
import sys
from importlib.resources import as_file, files

import numpy as np
import pytest

OF_ADAPTERS = {"optimizers"}  # the one file of laws without a room of the core behind it


@pytest.fixture
def laws(sources):
    prefix = "zeropower.conformance.suite.test_"
    return {name.removeprefix(prefix): file for name, file in sources.items() if name.startswith(prefix)}


def test_laws_are_named_like_the_rooms_of_the_core(laws, sources):
    rooms = {name.removeprefix("zeropower.") for name in sources}
    assert laws.keys() - OF_ADAPTERS <= rooms
    laws_of = {"newton_schulz", "moments", "decay", "routing", "kernels", "normalize", "layout", "steps"}
    assert laws_of <= laws.keys()


def test_tests_of_the_core_are_named_like_its_rooms(root, sources):
    rooms = {name.removeprefix("zeropower.") for name in sources}
    tests = {file.stem.removeprefix("test_") for file in (root / "tests" / "core").glob("test_*.py")}
    assert tests <= rooms


def test_no_check_hides_another_and_each_has_an_assertion(laws):
    functions = [
        node
        for file in laws.values()
        for node in ast.parse(file.read_text("utf-8")).body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    ]
    assert sorted(node.name for node in functions) == names_of_checks()
    assert [node.name for node in functions if not asserts(node)] == []
    assert [node.name for node in functions if not any("check" in ast.unparse(d) for d in node.decorator_list)] == []


def names_of_checks():
    """What a star import brings; in a process of its own, since the marks of the suite are not this repository's."""
    code = "import zeropower.conformance.suite as suite; print(*sorted(suite.__all__))"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()


def asserts(function):
    """Tell whether a test asserts, expects an error, or calls a helper that is named for doing so."""
    return any(
        isinstance(node, ast.Assert)
        or (isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2].startswith(("assert_", "raises")))
        for node in ast.walk(function)
    )


def test_momenta_are_nearly_of_rank_one():
    with as_file(files("zeropower.conformance") / "data" / "momentum.npz") as path, np.load(path) as data:
        momenta = dict(data)
    assert len(momenta) == 3
    for x in momenta.values():
        values = np.linalg.svd(x.astype(np.float64), compute_uv=False)
        assert x.dtype == np.float32
        assert np.linalg.norm(values) < 1.7 * values[0]
        assert values[-1] < 1e-2 * values[0]
