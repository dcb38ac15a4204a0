"""The products of zeropower.torch.kernels: equal to the generic ones, careful with what they are given."""

import pytest
import torch

from zeropower import GENERIC
from zeropower.torch.kernels import FUSED, STRIPED, strip_count

KERNELS = {"fused": FUSED, "striped": STRIPED}
ROUNDOFF = {torch.float64: 2.0**-53, torch.float32: 2.0**-24, torch.bfloat16: 2.0**-8}
# 512 rows are the least that are cut; below, a product is whole.
SHAPES = [(3, 5), (2, 24, 40), (2, 3, 4, 5), (520, 530), (2, 512, 16)]


def random(*shape: int, dtype: torch.dtype) -> torch.Tensor:
    generator = torch.Generator().manual_seed(sum(shape))
    return torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)


def symmetric(x: torch.Tensor) -> torch.Tensor:
    """Commuting symmetric matrices of the rows of x, of norm about one."""
    wide = x.double()
    gram = wide @ wide.mT
    return ((gram + gram.mT) / (2 * gram.shape[-1] * wide.shape[-1])).to(x.dtype)


def bound(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor | None, alpha: float, beta: float) -> torch.Tensor:
    """Distance of two results, one in the dtype and one in float64, which rounds too.

    Each is off by k terms summed in float32 at least (Higham, section 3.1), perhaps onto the addend, and by a few
    roundings of its dtype.
    """
    units = (ROUNDOFF[a.dtype], ROUNDOFF[torch.float64])
    roundings = sum(a.shape[-1] * min(unit, ROUNDOFF[torch.float32]) + 4 * unit for unit in units)
    size = abs(alpha) * (a.double().abs() @ b.double().abs())
    return roundings * (size if c is None else size + abs(beta) * c.double().abs())


@pytest.mark.parametrize(
    ("rows", "strips"), [(1, 1), (511, 1), (512, 2), (768, 3), (1024, 4), (2047, 7), (2048, 8), (4096, 8)]
)
def test_strips_by_rows(rows, strips):
    assert strip_count(rows) == strips


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("dtype", ROUNDOFF, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("transposed", [False, True], ids=["rows", "columns"])
def test_gram_is_the_generic_one(name, dtype, shape, transposed):
    x = random(*shape, dtype=dtype)
    x = x.mT.contiguous().mT if transposed else x
    found, exact = KERNELS[name].gram(x), GENERIC.gram(x.double())
    assert found.dtype == dtype
    assert torch.all((found.double() - exact).abs() <= bound(x, x.mT, None, 1.0, 1.0))


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("product", ["symmul", "muladd"])
@pytest.mark.parametrize("dtype", ROUNDOFF, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize(("alpha", "beta", "with_c"), [(-0.7, 2.5, True), (0.4, 1.0, False)])
def test_products_are_the_generic_ones(name, product, dtype, shape, alpha, beta, with_c):
    a = symmetric(random(*shape, dtype=dtype))
    b = a.mT if product == "symmul" else random(*shape, dtype=dtype)
    c = b.clone() if with_c else None
    found = getattr(KERNELS[name], product)(a, b, c, alpha=alpha, beta=beta)
    exact = getattr(GENERIC, product)(a.double(), b.double(), None if c is None else c.double(), alpha=alpha, beta=beta)
    assert found.shape == exact.shape
    assert torch.all((found.double() - exact).abs() <= bound(a, b, c, alpha, beta))


def test_below_the_diagonal_strips_are_mirrored():
    a = symmetric(random(600, 40, dtype=torch.float32))
    for found in (STRIPED.gram(a), STRIPED.symmul(a, a, a, alpha=0.3, beta=-2.0)):
        assert torch.equal(found[300:, :300], found[:300, 300:].mT)


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("rows", [24, 512])
def test_arguments_are_not_written(name, rows):
    a = symmetric(random(rows, 8, dtype=torch.float32))
    b, c = a.clone(), a.clone()
    before = [x._version for x in (a, b, c)]
    KERNELS[name].gram(a)
    KERNELS[name].symmul(a, b, c, alpha=0.5, beta=2.0)
    KERNELS[name].muladd(a, b, c, alpha=0.5, beta=2.0)
    assert [x._version for x in (a, b, c)] == before
    assert torch.equal(a, b)
    assert torch.equal(a, c)


def test_large_symmetric_products_can_be_differentiated():
    x = random(512, 6, dtype=torch.float64).requires_grad_()
    y = x.detach().clone().requires_grad_()
    gram = STRIPED.gram(x)
    STRIPED.symmul(gram, gram, gram, beta=0.5).square().sum().backward()
    gram = GENERIC.gram(y)
    GENERIC.symmul(gram, gram, gram, beta=0.5).square().sum().backward()
    torch.testing.assert_close(x.grad, y.grad, rtol=1e-12, atol=0)
