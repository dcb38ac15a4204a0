"""``zeropower dialects``."""

import json

import pytest

from zeropower import DIALECTS
from zeropower.cli import main
from zeropower.dialect_table import COLUMNS


def test_all_dialects_are_printed(capsys):
    assert main(["dialects"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line in DIALECTS] == list(DIALECTS)


def test_some_are_printed_as_a_table_where_it_fits(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "300")
    assert main(["dialects", "torch", "modded-nanogpt"]) == 0
    header, *rows = capsys.readouterr().out.splitlines()
    assert header.split()[0] == COLUMNS[0]
    assert [row.split()[0] for row in rows] == ["torch", "modded-nanogpt"]
    assert "lr² scale w, p d >= 0" in rows[1]
    assert "1.02 frobenius + 1e-06" in rows[1]


@pytest.mark.parametrize("form", ["json", "markdown"])
def test_other_formats_hold_the_same(capsys, form):
    assert main(["dialects", "optax", "--format", form]) == 0
    out = capsys.readouterr().out
    if form == "json":
        (row,) = json.loads(out)
        assert tuple(row) == COLUMNS
        cells = row.values()
    else:
        cells = [cell.strip() for cell in out.splitlines()[2].strip("|").split("|")]
    assert "EMA, bias-corrected 0.95, Nesterov" in cells
    assert "0.9, 0.999, eps 1e-08, Nesterov" in cells


def test_an_unknown_dialect_is_refused_in_one_line(capsys):
    assert main(["dialects", "lion"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("zeropower: error: dialect='lion' is not known; accepted: 'zeropower', 'keller'")
    assert captured.err.count("\n") == 1
