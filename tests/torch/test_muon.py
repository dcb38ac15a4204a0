"""zeropower.torch.Muon: torch.optim.Muon's manners, the core's numbers."""

import copy
import inspect
import math

import array_api_compat.torch as xp
import pytest
import torch
from torch import nn

from zeropower import DIALECTS, OUT_IN, Dialect, MatrixLayout, MuonRecipe, muon_step
from zeropower.recipes import AdamWRecipe
from zeropower.torch import Muon

SHAPES = {"tall": (40, 12), "wide": (12, 40), "square": (16, 16), "row": (1, 7)}
STEPS = 5
SAFETY = 4.0  # of a measured response: the order of sums belongs to the implementation


def tensors(*shapes: tuple[int, ...], seed: int = 0, dtype: torch.dtype = torch.float32) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=generator).to(dtype) for shape in shapes]


def run(cls, params, grads, **options) -> list[torch.Tensor]:
    """Parameters after steps along given gradients, [step][parameter]."""
    weights = [torch.nn.Parameter(p.clone()) for p in params]
    optimizer = cls(weights, **options)
    for step_grads in grads:
        for weight, grad in zip(weights, step_grads, strict=True):
            weight.grad = None if grad is None else grad.clone()
        optimizer.step()
    return [weight.detach() for weight in weights]


def neighbours(grad: torch.Tensor, seed: int) -> torch.Tensor:
    """Every element moved to a neighbour in bfloat16, the compute dtype, up or down."""
    up = torch.randint(0, 2, grad.shape, generator=torch.Generator().manual_seed(seed)) == 1
    coarse = grad.bfloat16()
    towards = torch.where(up, math.inf, -math.inf).to(coarse.dtype)
    return grad + (coarse.nextafter(towards) - coarse).to(grad.dtype)


def assert_close(found: torch.Tensor, expected: torch.Tensor, start: torch.Tensor, steps: int = STEPS) -> None:
    """Updates agree within four times their response to inputs of one ulp, parameters within a rounding a step."""
    unit, response = {torch.float64: (2.0**-53, 1e-12), torch.float32: (2.0**-24, 1e-5)}[start.dtype]
    assert (found - expected).norm() <= response * (expected - start).norm() + steps * unit * start.norm()


# ---- the same as torch.optim.Muon ----------------------------------------------------------------------------------


def test_arguments_are_those_of_torch():
    theirs = list(inspect.signature(torch.optim.Muon).parameters.values())
    ours = list(inspect.signature(Muon).parameters.values())
    assert [(p.name, p.kind) for p in ours[: len(theirs)]] == [(p.name, p.kind) for p in theirs]
    assert all(p.kind in {p.KEYWORD_ONLY, p.VAR_KEYWORD} for p in ours[len(theirs) :])


def test_effective_defaults_are_those_of_torch():
    weight = torch.nn.Parameter(torch.ones(2, 3))
    theirs, ours = torch.optim.Muon([weight]).defaults, Muon([weight]).defaults
    assert theirs == {name: ours[name] for name in theirs}
    assert set(theirs) == set(inspect.signature(torch.optim.Muon).parameters) - {"params"}


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"weight_decay": 0.0, "momentum": 0.8, "nesterov": False},
        {"ns_steps": 4, "eps": 10.0, "adjust_lr_fn": "match_rms_adamw"},
        {"ns_coefficients": (1.875, -1.25, 0.375), "adjust_lr_fn": "original"},
    ],
    ids=["defaults", "plain momentum", "moonlight", "coefficients"],
)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_changing_the_import_changes_only_the_rounding(options, shape, dtype):
    if dtype == torch.bfloat16:
        options = {**options, "nesterov": True}  # without, torch.optim.Muon normalises its own buffer: below
    (param,) = tensors(SHAPES[shape], dtype=dtype)
    grads = [tensors(SHAPES[shape], seed=step, dtype=dtype) for step in range(1, STEPS + 1)]
    options = {"lr": 0.5, **options}
    (theirs,) = run(torch.optim.Muon, [param], grads, **options)
    moved_grads = [[neighbours(g, seed=step) for g in step_grads] for step, step_grads in enumerate(grads)]
    (moved,) = run(torch.optim.Muon, [param], moved_grads, **options)
    (ours,) = run(Muon, [param], grads, **options)
    tolerance = SAFETY * (moved - theirs).float().norm()
    assert tolerance > 0
    assert (ours - theirs).float().norm() <= tolerance
    assert tolerance < 0.5 * (theirs - param).float().norm()


@pytest.mark.parametrize("shape", SHAPES)
def test_bfloat16_momentum_is_not_normalised_in_place(shape):
    """As torch.optim.Muon does with bfloat16 gradients and without Nesterov; its run in float32 is the reference."""
    (param,) = tensors(SHAPES[shape], dtype=torch.bfloat16)
    grads = [tensors(SHAPES[shape], seed=step, dtype=torch.bfloat16) for step in range(1, STEPS + 1)]
    wide = [[grad.float() for grad in step_grads] for step_grads in grads]
    moved_grads = [[neighbours(g, seed=step) for g in step_grads] for step, step_grads in enumerate(wide)]
    options = {"lr": 0.5, "nesterov": False}
    (theirs,) = run(torch.optim.Muon, [param.float()], wide, **options)
    (moved,) = run(torch.optim.Muon, [param.float()], moved_grads, **options)
    (ours,) = run(Muon, [param], grads, **options)
    roundings = STEPS * 2.0**-8 * param.float().norm()  # of a bfloat16 parameter, one a step
    assert (ours.float() - theirs).norm() <= SAFETY * (moved - theirs).norm() + roundings


def test_groups_and_checkpoints_are_those_of_torch():
    params = tensors((6, 8), (8, 6))
    grads = [tensors((6, 8), (8, 6), seed=step) for step in (1, 2)]
    weights = [torch.nn.Parameter(p.clone()) for p in params]
    groups = [{"params": weights[:1], "lr": 0.5, "ns_steps": 3}, {"params": weights[1:], "momentum": 0.5}]
    theirs = torch.optim.Muon(groups, lr=0.1)
    for weight, grad in zip(weights, grads[0], strict=True):
        weight.grad = grad
    theirs.step()
    ours = Muon([{"params": weights[:1]}, {"params": weights[1:]}])
    ours.load_state_dict(theirs.state_dict())
    for mine, other in zip(ours.param_groups, theirs.param_groups, strict=True):
        assert {name: mine[name] for name in other} == other
    for weight in weights:
        assert torch.equal(ours.state[weight]["momentum_buffer"], theirs.state[weight]["momentum_buffer"])


# ---- the same as the core ------------------------------------------------------------------------------------------

RECIPES = {
    "zeropower": DIALECTS["zeropower"].muon,
    "torch": DIALECTS["torch"].muon,
    "optax": DIALECTS["optax"].muon,
    "heavy ball": MuonRecipe(
        momentum_form="heavy_ball", momentum=0.7, coefficients="polar_express", restarts=(1, 2, 3)
    ),
    "gram": MuonRecipe(method="gram", restarts=(2, 3), normalize="schatten4", nesterov=False, scale="none"),
}


@pytest.mark.parametrize("recipe", RECIPES.values(), ids=RECIPES)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_every_parameter_moves_as_the_core_says(recipe, dtype):
    shapes = [(12, 20), (12, 20), (20, 12), (12, 20), (16, 16)]
    params = tensors(*shapes, dtype=getattr(torch, dtype))
    grads = [tensors(*shapes, seed=step, dtype=getattr(torch, dtype)) for step in range(1, STEPS + 1)]
    grads[2][1] = None  # its own count of updates from here on
    dialect = Dialect(muon=recipe, adamw=AdamWRecipe(), lr=0.03, weight_decay=0.2)
    found = run(Muon, params, grads, dialect=dialect, compute_dtype=dtype)
    for index, param in enumerate(params):
        expected, state, count = param, None, 0
        for step_grads in grads:
            if (grad := step_grads[index]) is not None:
                count += 1
                expected, state = muon_step(
                    expected, grad, state, recipe, lr=0.03, weight_decay=0.2, step=count, compute_dtype=dtype, xp=xp
                )
        assert_close(found[index], expected, param)


def test_a_stack_larger_than_the_bound_is_the_same():
    params, grads = tensors(*[(256, 256)] * 5), tensors(*[(256, 256)] * 5, seed=1)
    together = run(Muon, params, [grads], compute_dtype="float32")
    for param, grad, expected in zip(params, grads, together, strict=True):
        (alone,) = run(Muon, [param], [[grad]], compute_dtype="float32")
        assert_close(alone, expected, param, steps=1)


@pytest.mark.original("E9", "R16")
def test_a_nan_stays_in_its_matrix():
    params, grads = tensors(*[(8, 12)] * 3), tensors(*[(8, 12)] * 3, seed=1)
    clean = run(Muon, params, [grads])
    grads[1][2, 3] = math.nan
    found = run(Muon, params, [grads])
    assert found[1].isnan().all()
    assert torch.equal(found[0], clean[0])
    assert torch.equal(found[2], clean[2])


@pytest.mark.original("R18")
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_momentum_is_float32_for_16_bit_parameters(dtype):
    weight = torch.nn.Parameter(torch.ones(4, 6, dtype=dtype))
    optimizer = Muon([weight])
    for step in range(1, 4):
        weight.grad = torch.full_like(weight, 1e-3 * step)
        optimizer.step()
    assert optimizer.state[weight]["momentum_buffer"].dtype == torch.float32
    assert weight.dtype == dtype


@pytest.mark.original("E7", "R14")
def test_float64_is_computed_in_float64():
    params, grads = tensors((8, 12), dtype=torch.float64), tensors((8, 12), seed=1, dtype=torch.float64)
    (found,) = run(Muon, params, [grads])
    (asked,) = run(Muon, params, [grads], compute_dtype="float64")
    (coarse,) = run(Muon, params, [grads], compute_dtype="float32")
    assert torch.equal(found, asked)
    assert not torch.equal(found, coarse)


def test_dialect_decides_what_is_not_given():
    weight = torch.nn.Parameter(torch.ones(4, 6))
    group = Muon([weight], dialect="zeropower", eps=1e-3).param_groups[0]
    assert (group["scale"], group["preferred_dtype"], group["eps"]) == ("match_rms_adamw", None, 1e-3)
    assert Muon([weight], dialect="zeropower").param_groups[0]["eps"] is None
    assert Muon([weight], dialect="zeropower", adjust_lr_fn="none").param_groups[0]["adjust_lr_fn"] == "none"


def test_a_rule_for_the_learning_rate_wins_over_the_dialect():
    param, grad = tensors((8, 12)), tensors((8, 12), seed=1)
    options = {"lr": 0.1, "weight_decay": 0.0, "compute_dtype": "float32", "dialect": "zeropower"}
    (plain,) = run(Muon, param, [grad], adjust_lr_fn="none", **options)
    (scaled,) = run(Muon, param, [grad], **options)
    ratio = (scaled - param[0]).norm() / (plain - param[0]).norm()
    assert ratio.item() == pytest.approx(0.2 * math.sqrt(12), rel=1e-5)


# ---- layouts -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("layout", "shape"),
    [
        (MatrixLayout(fan_out=(0,), fan_in=(1, 2, 3)), (8, 3, 3, 3)),  # a convolution
        (MatrixLayout(fan_out=(-1,), fan_in=(-2,)), (6, 4)),
        (OUT_IN, (3, 6, 4)),  # a bank of matrices
        (MatrixLayout(fan_out=(2,), fan_in=(0,)), (6, 2, 4)),
    ],
    ids=str,
)
def test_layouts_of_any_rank(layout, shape):
    params, grads = tensors(shape, shape), [tensors(shape, shape, seed=step) for step in (1, 2)]
    found = run(Muon, params, grads, layout=layout, compute_dtype="float32")
    for index, param in enumerate(params):
        expected, state = param, None
        for step_grads in grads:
            expected, state = muon_step(
                expected, step_grads[index], state, DIALECTS["torch"].muon, lr=1e-3, weight_decay=0.1, layout=layout,
                compute_dtype="float32", xp=xp,
            )  # fmt: skip
        assert_close(found[index], expected, param)


def test_a_group_has_its_own_layout():
    weights = [torch.nn.Parameter(p) for p in tensors((4, 6), (4, 3, 3))]
    conv = MatrixLayout(fan_out=(0,), fan_in=(1, 2))
    optimizer = Muon([{"params": weights[:1]}, {"params": weights[1:], "layout": conv}])
    assert [group["layout"] for group in optimizer.param_groups] == [None, ((0,), (1, 2))]


@pytest.mark.original("F5")
@pytest.mark.parametrize("shape", [(5,), (), (2, 3, 4), (2, 3, 4, 5)], ids=str)
@pytest.mark.parametrize("named", [False, True])
def test_what_is_no_matrix_is_refused_by_name(shape, named):
    weight = torch.nn.Parameter(torch.ones(2, 3))
    bad = torch.nn.Parameter(torch.ones(shape))
    good, entry = (("w", weight), ("block.0.gain", bad)) if named else (weight, bad)
    name = "'block.0.gain'" if named else "0"
    text = rf"parameter {name} has shape .*; accepted by Muon: two axes, or any shape with layout="
    with pytest.raises(ValueError, match=text):
        Muon([entry])
    optimizer = Muon([good])
    before = str(optimizer)
    with pytest.raises(ValueError, match=text):
        optimizer.add_param_group({"params": [entry]})
    assert str(optimizer) == before


def test_a_layout_that_does_not_fit_is_refused():
    bad = torch.nn.Parameter(torch.ones(5))
    with pytest.raises(ValueError, match=r"parameter 'gain' has shape \(5,\); accepted with layout=MatrixLayout"):
        Muon([("gain", bad)], layout=OUT_IN)


# ---- layouts of memory, and order ----------------------------------------------------------------------------------


@pytest.mark.original("J14", "R15")
def test_channels_last_convolutions_train_as_contiguous_ones():
    plain = nn.Conv2d(4, 6, 3)
    turned = copy.deepcopy(plain).to(memory_format=torch.channels_last)
    image = torch.randn(2, 4, 8, 8)
    for model, x in ((plain, image), (turned, image.to(memory_format=torch.channels_last))):
        optimizer = Muon([model.weight], 0.1, dialect="diffsinger", compute_dtype="float32")
        for _ in range(3):
            optimizer.zero_grad()
            model(x).square().mean().backward()
            optimizer.step()
    assert turned.weight.is_contiguous(memory_format=torch.channels_last)
    assert not turned.weight.is_contiguous()
    torch.testing.assert_close(turned.weight, plain.weight, rtol=1e-5, atol=1e-5)


@pytest.mark.original("J16")
def test_the_order_of_groups_does_not_matter():
    results = []
    for turn in (1, -1):
        params = [nn.Parameter(torch.full((4, 6), 1.0 + i)) for i in range(4)]
        groups = [{"params": params[:2], "lr": 0.1}, {"params": params[2:], "lr": 0.2, "weight_decay": 0.5}]
        optimizer = Muon(groups[::turn])
        for seed in range(3):
            for i, param in enumerate(params):
                param.grad = torch.randn(4, 6, generator=torch.Generator().manual_seed(10 * seed + i))
            optimizer.step()
        results.append([param.detach() for param in params])
    assert all(map(torch.equal, *results))
