"""zeropower.torch.MuonAdamW: one optimizer over a model, and who takes what."""

import pytest
import torch
from torch import nn

import zeropower
from zeropower import DEFAULT_RULES, DIALECTS, OUT_IN, MatrixLayout, MuonRecipe, Rule
from zeropower.torch import MuonAdamW, get_params_for_muon


class Net(nn.Module):
    """An embedding, a block, and a head that may share the embedding's weight."""

    def __init__(self, *, tied: bool = False) -> None:
        super().__init__()
        self.tokens = nn.Embedding(10, 8)  # known as an embedding by its class alone
        self.up = nn.Linear(8, 16)
        self.gain = nn.LayerNorm(16)
        self.down = nn.Linear(16, 8, bias=False)
        self.out = nn.Linear(8, 10, bias=False)  # a hidden matrix, as far as its name goes
        if tied:
            self.out.weight = self.tokens.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.out(self.down(self.gain(self.up(self.tokens(x)))))


def seeded(**options) -> Net:
    torch.manual_seed(0)
    return Net(**options)


def backward(model: nn.Module) -> None:
    model(torch.arange(10)).square().sum().backward()


MUON = ["up.weight", "down.weight", "out.weight"]
ADAMW = ["tokens.weight", "up.bias", "gain.weight", "gain.bias"]


def names(optimizer: MuonAdamW) -> dict[str, list[str]]:
    found = {"muon": [], "adamw": []}
    for group in optimizer.param_groups:
        found[group["optimizer"]] += group["param_names"]
    return found


# ---- routes --------------------------------------------------------------------------------------------------------


def test_a_module_is_routed_by_its_classes():
    model = seeded()
    optimizer = MuonAdamW(model)
    assert isinstance(optimizer, torch.optim.Optimizer)
    assert names(optimizer) == {"muon": MUON, "adamw": ADAMW}
    assert optimizer.plan.paths("muon") == MUON
    assert optimizer.plan["tokens.weight"].reason == "embedding"
    assert [id(p) for p in get_params_for_muon(model)] == [id(model.get_parameter(name)) for name in MUON]


def test_classes_count_by_their_bases():
    class Codes(nn.Embedding):
        pass

    model = seeded()
    model.tokens = Codes(10, 8)
    assert MuonAdamW(model).plan["tokens.weight"].reason == "embedding"


def test_pairs_are_routed_by_name_and_shape():
    pairs = seeded().named_parameters()
    assert names(MuonAdamW(pairs))["muon"] == ["tokens.weight", *MUON]


@pytest.mark.original("H11", "R15")
def test_a_shared_parameter_is_routed_once_and_stays_with_adamw():
    model = seeded(tied=True)
    for source in (model, [*model.named_parameters(), ("out.weight", model.tokens.weight)]):
        rules = [Rule(optimizer="adamw", reason="output", path=("out/*",)), *DEFAULT_RULES]
        optimizer = MuonAdamW(source, rules=rules)
        assert names(optimizer) == {"muon": ["up.weight", "down.weight"], "adamw": ADAMW}
    assert "tokens.weight" not in MuonAdamW(model).plan.paths("muon")


@pytest.mark.original("H9")
def test_frozen_parameters_are_routed_and_left_alone():
    model = seeded()
    model.up.weight.requires_grad_(False)
    before = model.up.weight.clone()
    optimizer = MuonAdamW(model, lr=0.1)
    assert not optimizer.plan["up.weight"].trainable
    assert "(frozen)" in str(optimizer.plan)
    backward(model)
    optimizer.step()
    optimizer.init_state()
    assert torch.equal(model.up.weight, before)
    assert model.up.weight not in optimizer.state
    assert model.down.weight in optimizer.state


def test_rules_and_layouts_make_parts_of_their_own():
    bank = nn.Parameter(torch.randn(3, 4, 6))
    conv = nn.Parameter(torch.randn(4, 3, 2))
    kernel = MatrixLayout(fan_out=(0,), fan_in=(1, 2))
    rules = [
        Rule(optimizer="muon", reason="experts", path=("bank",), layout=OUT_IN),
        Rule(optimizer="muon", reason="convolution", path=("conv",), layout=kernel),
        *DEFAULT_RULES,
    ]
    optimizer = MuonAdamW([("bank", bank), ("conv", conv), ("w", nn.Parameter(torch.ones(4, 6)))], rules=rules)
    layouts = [(group["param_names"], group["layout"]) for group in optimizer.param_groups]
    assert layouts == [(["bank", "w"], ((-2,), (-1,))), (["conv"], ((0,), (1, 2)))]
    for param in (bank, conv):
        param.grad = torch.randn_like(param)
    optimizer.step()
    assert set(optimizer.state) == {bank, conv}


@pytest.mark.original("J11", "R12")
def test_a_plan_without_muon_warns_and_works():
    model = nn.LayerNorm(4)
    with pytest.warns(UserWarning, match="no parameter of LayerNorm goes to Muon"):
        optimizer = MuonAdamW(model)
    assert names(optimizer) == {"muon": [], "adamw": ["weight", "bias"]}
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()


@pytest.mark.original("J11", "R12")
def test_a_plan_without_adamw_works():
    model = nn.Linear(4, 6, bias=False)
    optimizer = MuonAdamW(model)
    assert names(optimizer) == {"muon": ["weight"], "adamw": []}
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()


def test_verbose_prints_the_plan(capsys):
    optimizer = MuonAdamW(seeded(), verbose=True)
    assert capsys.readouterr().out == f"{optimizer.plan}\n"
    MuonAdamW(seeded())
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    "source",
    [
        lambda model: model.parameters(),
        lambda model: [{"params": model.parameters()}],
        lambda model: model.up.weight,
        lambda model: [{"params": model.up.weight}],
    ],
)
def test_parameters_without_names_are_refused(source):
    with pytest.raises(TypeError, match=r"accepted: an nn.Module, pairs as of model.named_parameters\(\)"):
        MuonAdamW(source(seeded()))


def test_a_model_without_parameters_is_refused():
    with pytest.raises(ValueError, match="has no parameter; accepted: at least one"):
        MuonAdamW(nn.ReLU())


def test_two_parameters_of_one_name_are_refused():
    a, b = nn.Parameter(torch.ones(2, 3)), nn.Parameter(torch.ones(2, 3))
    with pytest.raises(ValueError, match="names two parameters 'w'"):
        MuonAdamW([("w", a), ("w", b)])


def test_parameters_without_a_shape_yet_are_refused():
    with pytest.raises(ValueError, match="parameter 'weight' has no shape yet"):
        MuonAdamW(nn.LazyLinear(3))


# ---- numbers -------------------------------------------------------------------------------------------------------


def test_each_half_moves_as_the_core_says():
    model = seeded().double()
    optimizer = MuonAdamW(model, lr=0.02, weight_decay=0.3, adamw_args={"lr": 0.005, "weight_decay": 0.1})
    expected = {name: param.detach().clone() for name, param in model.named_parameters()}
    states = dict.fromkeys(expected)
    for step in range(1, 5):
        optimizer.zero_grad()
        backward(model)
        for name, param in model.named_parameters():
            if name in MUON:
                expected[name], states[name] = zeropower.muon_step(
                    expected[name], param.grad, states[name], MuonRecipe(), lr=0.02, weight_decay=0.3
                )
            else:
                expected[name], states[name] = zeropower.adamw_step(
                    expected[name], param.grad, states[name], zeropower.AdamWRecipe(), lr=0.005, weight_decay=0.1,
                    step=step,
                )  # fmt: skip
        optimizer.step()
    for name, param in model.named_parameters():
        torch.testing.assert_close(param.detach(), expected[name], rtol=1e-10, atol=1e-12)


def test_the_dialect_fills_what_is_not_given():
    muon, adamw = MuonAdamW(seeded(), dialect="torch").param_groups
    dialect = DIALECTS["torch"]
    assert (muon["lr"], muon["weight_decay"]) == (adamw["lr"], adamw["weight_decay"]) == (1e-3, 0.1)
    assert (muon["eps"], muon["scale"], muon["preferred_dtype"]) == (1e-7, "original", "bfloat16")
    assert (adamw["momentum"], adamw["beta_2"], adamw["eps"]) == (0.9, 0.999, dialect.adamw.eps)


def test_arguments_of_each_half():
    muon, adamw = MuonAdamW(
        seeded(),
        lr=0.02,
        weight_decay=0.5,
        muon_args={"momentum": 0.9, "steps": 3, "coefficients": "you", "eps": 1e-3, "weight_decay": 0.0},
        adamw_args={"lr": 1e-3, "betas": (0.8, 0.99), "eps": 1e-6},
    ).param_groups
    assert (muon["lr"], muon["weight_decay"], muon["momentum"], muon["eps"]) == (0.02, 0.0, 0.9, 1e-3)
    assert (muon["steps"], muon["coefficients"]) == (3, "you")
    assert (adamw["lr"], adamw["weight_decay"], adamw["eps"]) == (1e-3, 0.5, 1e-6)
    assert (adamw["momentum"], adamw["beta_2"]) == (0.8, 0.99)


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"muon_args": {"ns_steps": 5}}, TypeError, "ns_steps=5 is no option of muon_args; accepted: lr, weight"),
        ({"adamw_args": {"beta1": 0.9}}, TypeError, "beta1=0.9 is no option of adamw_args; accepted: lr, weight"),
        ({"muon_args": {"steps": 0}}, ValueError, "steps=0 is out of range; accepted: integers >= 1"),
        ({"muon_args": {"scale": "big"}}, ValueError, "scale='big' is not known; accepted: 'original'"),
        ({"muon_args": {"compute_dtype": "int8"}}, ValueError, "compute_dtype='int8' is not known; accepted: 'f"),
        ({"muon_args": {"lr": -1.0}}, ValueError, r"muon_args\['lr'\]=-1.0 is out of range"),
        ({"adamw_args": {"lr": float("nan")}}, ValueError, r"adamw_args\['lr'\]=nan is out of range"),
        ({"adamw_args": {"betas": (0.9, 1.0)}}, ValueError, r"betas\[1\]=1.0 is out of range"),
        ({"lr": float("inf")}, ValueError, "lr=inf is out of range"),
        ({"weight_decay": -0.1}, ValueError, "weight_decay=-0.1 is out of range"),
        ({"dialect": "lion"}, ValueError, "dialect='lion' is not known; accepted: 'zeropower', 'keller', 'torch'"),
        ({"fused": True}, TypeError, "fused=True is no argument of MuonAdamW; accepted: model_or_named_params, lr"),
    ],
    ids=str,
)  # fmt: skip
def test_bad_options(options, error, text):
    with pytest.raises(error, match=text):
        MuonAdamW(seeded(), **options)


# ---- groups --------------------------------------------------------------------------------------------------------


@pytest.mark.original("J9", "J13", "R11", "R12")
def test_a_group_that_is_split_hands_every_option_on():
    model = seeded()
    decayed = {"params": [*model.up.named_parameters("up")], "lr": 0.5, "weight_decay": 0.25, "tag": "decayed"}
    plain = {"params": [*model.down.named_parameters("down")], "weight_decay": 0.0, "momentum": 0.5}
    optimizer = MuonAdamW([decayed, plain], lr=0.1)
    seen = [
        (g["optimizer"], g["param_names"], g["lr"], g["weight_decay"], g["momentum"], g.get("tag"))
        for g in optimizer.param_groups
    ]
    assert seen == [
        ("muon", ["up.weight"], 0.5, 0.25, 0.95, "decayed"),
        ("adamw", ["up.bias"], 0.5, 0.25, 0.9, "decayed"),
        ("muon", ["down.weight"], 0.1, 0.0, 0.5, None),
    ]
    assert set(decayed) == {"params", "lr", "weight_decay", "tag"}


@pytest.mark.original("J9", "R11")
def test_a_groups_rate_keeps_the_ratio_of_the_halves():
    pairs = [*seeded().named_parameters()]
    optimizer = MuonAdamW([{"params": pairs, "lr": 0.2, "betas": (0.5, 0.6)}], lr=0.1, adamw_args={"lr": 0.01})
    muon, adamw = optimizer.param_groups
    assert (muon["lr"], adamw["lr"]) == pytest.approx((0.2, 0.02))
    assert (adamw["momentum"], adamw["beta_2"], muon["momentum"]) == (0.5, 0.6, 0.95)


@pytest.mark.original("J13")
def test_groups_can_be_added():
    model = seeded()
    optimizer = MuonAdamW([*model.up.named_parameters("up")], lr=0.1)
    optimizer.add_param_group({"params": [*model.down.named_parameters("down"), ("b", model.gain.bias)], "lr": 0.3})
    assert names(optimizer) == {"muon": ["up.weight", "down.weight"], "adamw": ["up.bias", "b"]}
    assert [group["lr"] for group in optimizer.param_groups] == [0.1, 0.1, 0.3, 0.3]
    assert list(optimizer.plan) == ["up.weight", "up.bias", "down.weight", "b"]


@pytest.mark.parametrize(
    ("group", "error", "text"),
    [
        (lambda m: {"params": [("new", m.gain.bias), ("up.weight", m.out.weight)]}, ValueError, "'up.weight' is in"),
        (lambda m: {"params": [("new", m.gain.bias), ("other", m.up.weight)]}, ValueError, "'other' is in the"),
        (lambda m: {"params": [m.down.weight]}, TypeError, "has no name to route by"),
        (lambda m: {"params": [("d", m.down.weight)], "lr": -1.0}, ValueError, "lr=-1.0 is out of range"),
        (lambda m: {"params": [("d", m.down.weight), ("b", m.gain.bias)], "steps": 0}, ValueError, "steps=0 is out of"),
        (lambda m: {"params": [("d", m.down.weight)], "optimizer": "muon"}, ValueError, "optimizer='muon' is no"),
        (lambda m: [m.down.weight], TypeError, "accepted: a dict with 'params'"),
    ],
)  # fmt: skip
def test_a_bad_group_changes_nothing(group, error, text):
    model = seeded()
    optimizer = MuonAdamW([*model.up.named_parameters("up")])
    before, plan = str(optimizer), optimizer.plan
    with pytest.raises(error, match=text):
        optimizer.add_param_group(group(model))
    assert str(optimizer) == before
    assert optimizer.plan == plan


# ---- schedules -----------------------------------------------------------------------------------------------------


@pytest.mark.original("J9", "R11")
def test_a_scheduler_keeps_the_ratio_of_the_rates():
    optimizer = MuonAdamW(seeded(), lr=0.1, adamw_args={"lr": 0.003})
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=10)
    for _ in range(7):
        optimizer.step()
        scheduler.step()
        muon, adamw = (group["lr"] for group in optimizer.param_groups)
        assert muon < 0.1
        assert adamw / muon == pytest.approx(0.03)


def test_cycled_momentum_is_the_first_beta():
    model = seeded().double()
    optimizer = MuonAdamW(model, lr=0.1)
    assert [key for key in optimizer.defaults if key in {"momentum", "betas"}] == ["momentum"]
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.1, total_steps=10)
    bias, gradient = model.gain.bias, torch.linspace(1, 2, 16, dtype=torch.float64)
    expected, state = bias.detach().clone(), None
    for step in range(1, 6):
        _, group = optimizer.param_groups
        assert 0.85 <= group["momentum"] <= 0.95
        expected, state = zeropower.adamw_step(
            expected, gradient / step, state, zeropower.AdamWRecipe(), lr=group["lr"], weight_decay=0.1, step=step,
            beta_1=group["momentum"],
        )  # fmt: skip
        bias.grad = gradient / step
        optimizer.step()
        scheduler.step()
    torch.testing.assert_close(bias.detach(), expected, rtol=1e-12, atol=0)
