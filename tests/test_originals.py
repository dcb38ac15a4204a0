"""The table of docs/originals.md: every requirement once, names that exist, and the tests that say they pin it.

``python tests/test_originals.py`` writes the last column anew.
"""

import ast
import pkgutil
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
TABLE = ROOT / "docs" / "originals.md"
COUNTS = {"A": 14, "B": 9, "C": 6, "D": 12, "E": 10, "F": 8, "G": 5, "H": 13, "I": 7, "J": 16, "K": 6, "R": 19}
ROW = re.compile(r"^\| ([A-KR]\d+) \| (.+?) \| (.*?) \|(?: (.*) \|)?$")


class Row(NamedTuple):
    """A requirement; ``where`` are import paths."""

    number: str
    where: tuple[str, ...]
    tests: str


def rows(text: str) -> list[Row]:
    found = (match.groups(default="") for line in text.splitlines() if (match := ROW.match(line)))
    return [Row(number, tuple(re.findall("`([^`]+)`", where)), tests) for number, _, where, tests in found]


def marks() -> dict[str, list[str]]:
    """Links to the tests that are marked, by number."""
    found: dict[str, list[str]] = defaultdict(list)
    for folder in ("conformance/suite", "tests"):
        for path in sorted((ROOT / folder).rglob("test_*.py")):
            for function in ast.walk(ast.parse(path.read_text("utf-8"))):
                if isinstance(function, ast.FunctionDef):
                    link = f"[{function.name}](../{path.relative_to(ROOT).as_posix()})"
                    for number in numbers_of(function):
                        found[number].append(link)
    return found


def numbers_of(function: ast.FunctionDef) -> Iterator[str]:
    for decorator in function.decorator_list:
        if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "pytest.mark.original":
            yield from (ast.literal_eval(argument) for argument in decorator.args)


def written(text: str) -> str:
    """Return the text of the page with the tests' column as the marks have it."""
    found = marks()

    def row(line: str) -> str:
        match = ROW.match(line)
        if not match:
            return line
        number, requirement, where, _ = match.groups()
        return f"| {number} | {requirement} | {where} | {', '.join(found[number])} |"

    return "\n".join(map(row, text.split("\n")))


@pytest.fixture(scope="module")
def text() -> str:
    return TABLE.read_text("utf-8")


def test_every_requirement_has_one_row_and_a_test(text):
    table = rows(text)
    assert [row.number for row in table] == [f"{part}{i}" for part, n in COUNTS.items() for i in range(1, n + 1)]
    assert [row.number for row in table if not row.tests or not row.where] == []
    assert set(marks()) == {row.number for row in table}


def test_the_tests_are_those_that_are_marked(text):
    assert text == written(text), "run: python tests/test_originals.py"


def test_the_names_exist(text):
    for path in {path for row in rows(text) for path in row.where}:
        package = ".".join(path.split(".")[:2])
        if package in ("zeropower.torch", "zeropower.jax"):
            pytest.importorskip(package, reason=f"{package} is not installed")
        assert resolves(path), path


def resolves(path: str) -> bool:
    """Import the longest module in a dotted path, and look the rest up."""
    try:
        pkgutil.resolve_name(path)
    except (ImportError, AttributeError):
        return False
    return True


if __name__ == "__main__":
    TABLE.write_text(written(TABLE.read_text("utf-8")), "utf-8")
