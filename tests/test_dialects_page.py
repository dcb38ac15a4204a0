"""docs/dialects.md: the recipes are those of the code, and every dialect is proven."""

from zeropower import DIALECTS
from zeropower.conformance.peers.page import proofs_of, rewrite
from zeropower.conformance.peers.registry import PEERS
from zeropower.conformance.peers.report import rows_of_vectors
from zeropower.conformance.vectors import BY_KERNEL_SIZE


def page(root):
    return (root / "docs" / "dialects.md").read_text("utf-8")


def test_the_recipes_are_those_of_the_code(root):
    assert rewrite(page(root), None) == page(root)


def test_every_dialect_but_ours_is_proven(root):
    rows = proofs_of(page(root))
    assert {row[0] for row in rows} == DIALECTS.keys() - {"zeropower"}
    assert {row[-1] for row in rows} == {"agrees"}
    beside = {row[1].rsplit(" ", 1)[0] for row in rows}
    assert {peer.name for peer in PEERS} | {"vectors"} == beside


def test_the_line_of_each_vector_is_what_is_found_here(root):
    stored = {tuple(row[:4]) for row in proofs_of(page(root)) if row[1] == "vectors"}
    found = rows_of_vectors()
    assert {row.cells()[:4] for row in found} == stored
    assert all(row.agrees for row in found)


def test_what_a_dialect_does_otherwise_is_said(root):
    """The page names the dialects that are not compared on some kernels."""
    assert {dialect for dialect, _ in BY_KERNEL_SIZE} == {"keller", "normuon"}
    assert "height and width" in page(root)
