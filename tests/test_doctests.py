"""The examples in the docstrings are run, under the names that users import."""

import ast
import doctest
from importlib import import_module
from pathlib import Path

DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef)
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def examples_in(file: Path) -> int:
    """Count the examples that are written, whether or not doctest would find them."""
    nodes = [node for node in ast.walk(ast.parse(file.read_text("utf-8"))) if isinstance(node, DOCUMENTED)]
    parser = doctest.DocTestParser()
    return sum(len(parser.get_examples(ast.get_docstring(node) or "")) for node in nodes)


def test_every_example_runs_and_is_right(sources):
    written = {name: count for name, file in sources.items() if (count := examples_in(file))}
    outcome = {name: doctest.testmod(import_module(name), optionflags=OPTIONS) for name in written}
    assert written, "no docstring has an example"
    assert {name: result.attempted for name, result in outcome.items()} == written
    assert {name: result.failed for name, result in outcome.items() if result.failed} == {}
