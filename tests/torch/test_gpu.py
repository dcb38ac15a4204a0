"""The same on a CUDA device; every test here needs one."""

import pytest
import torch

from zeropower import DIALECTS, muon_step
from zeropower.torch import BitNetAdamW, Muon, MuonAdamW
from zeropower.torch.dispatch import choose
from zeropower.torch.kernels import FUSED

pytestmark = pytest.mark.gpu

SHAPES = [(64, 96), (64, 96), (96, 64), (512, 512)]
STEPS = 3


def run(device: str, **options) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    params = [torch.nn.Parameter(torch.randn(shape, generator=generator).to(device)) for shape in SHAPES]
    optimizer = Muon(params, lr=0.5, **options)
    for _ in range(STEPS):
        for param in params:
            param.grad = torch.randn(param.shape, generator=generator).to(device)
        optimizer.step()
    return [param.detach().cpu() for param in params]


def moved(updates: list[torch.Tensor]) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [u - torch.randn(shape, generator=generator) for u, shape in zip(updates, SHAPES, strict=True)]


@pytest.mark.parametrize(("dtype", "bound"), [("float64", 1e-12), ("float32", 1e-5)])
def test_a_step_on_the_gpu_is_that_on_the_cpu(dtype, bound):
    torch.backends.cuda.matmul.fp32_precision = "ieee"
    for found, expected in zip(
        moved(run("cuda", compute_dtype=dtype)), moved(run("cpu", compute_dtype=dtype)), strict=True
    ):
        assert (found - expected).norm() <= bound * expected.norm() + STEPS * 2.0**-24 * expected.numel() ** 0.5


@pytest.mark.parametrize(("wanted", "used"), [(None, "bfloat16"), ("float16", "float16"), ("bfloat16", "bfloat16")])
def test_the_row_of_the_table_is_used(wanted, used):
    assert choose("cuda", "float32", wanted=wanted) == (used, FUSED)
    param = torch.nn.Parameter(torch.randn(64, 96, device="cuda"))
    param.grad = torch.randn_like(param)
    recipe = DIALECTS["zeropower"].muon
    expected, _ = muon_step(param.detach(), param.grad, None, recipe, lr=0.1, compute_dtype=used, kernels=FUSED)
    Muon([{"params": [param], "preferred_dtype": wanted}], lr=0.1, weight_decay=0.0, dialect="zeropower").step()
    assert torch.equal(param.detach(), expected)


def test_state_lives_with_the_parameter_and_rates_may_live_elsewhere():
    model = torch.nn.Linear(8, 16).cuda()
    for optimizer in (
        MuonAdamW(model, lr=torch.tensor(0.1)),
        MuonAdamW(model, lr=torch.tensor(0.1, device="cuda")),
        BitNetAdamW(model.parameters(), torch.tensor(0.1, device="cuda"), total_steps=3),
    ):
        model(torch.ones(2, 8, device="cuda")).sum().backward()
        optimizer.step()
        optimizer.load_state_dict(optimizer.state_dict())
        buffers = [v for entry in optimizer.state.values() for v in entry.values() if isinstance(v, torch.Tensor)]
        assert buffers
        assert all(buffer.is_cuda for buffer in buffers)


def test_parameters_on_two_devices_in_one_optimizer():
    params = [torch.nn.Parameter(torch.ones(4, 6, device=device)) for device in ("cpu", "cuda")]
    optimizer = Muon(params, lr=0.1, compute_dtype="float32")
    for param in params:
        param.grad = torch.linspace(-1, 1, 24).reshape(4, 6).to(param.device)
    optimizer.step()
    torch.testing.assert_close(params[0].detach(), params[1].detach().cpu(), rtol=1e-5, atol=1e-6)
