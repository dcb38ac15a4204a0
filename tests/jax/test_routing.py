"""Which leaf goes where: paths of trees, rules, layouts, and that the hybrid does what the plan says."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from zeropower import IN_OUT, OUT_IN, MatrixLayout, Rule
from zeropower.jax import muon_adamw, routing_plan


class Variable:
    """A leaf in a box with one attribute, as flax nnx has it."""

    def __init__(self, value):
        self.value = value


jax.tree_util.register_pytree_with_keys(
    Variable,
    lambda box: (((jax.tree_util.GetAttrKey("value"), box.value),), None),
    lambda _, children: Variable(*children),
)


def model(box=lambda leaf: leaf):
    return {
        "embed": {"embedding": box(jnp.ones((50, 8)))},
        "blocks": [
            {"attn": {"q": {"kernel": box(jnp.ones((8, 16))), "bias": box(jnp.ones((16,)))}}, "skip": None},
            {"attn": {"q": {"kernel": box(jnp.ones((8, 2, 8)))}}, "norm": {"scale": box(jnp.ones((8,)))}},
        ],
        "head": {"kernel": box(jnp.ones((8, 50)))},
        "gain": box(jnp.ones(())),
    }


MUON = ["blocks/0/attn/q/kernel"]


def test_paths_are_joined_by_slashes_and_the_plan_gives_reasons():
    plan = routing_plan(model())
    assert list(plan) == [
        "blocks/0/attn/q/bias",
        "blocks/0/attn/q/kernel",
        "blocks/1/attn/q/kernel",
        "blocks/1/norm/scale",
        "embed/embedding",
        "gain",
        "head/kernel",
    ]
    assert plan.paths("muon") == MUON
    assert plan[MUON[0]].layout == IN_OUT
    assert plan["embed/embedding"].reason == "embedding"
    assert plan["head/kernel"].reason == "output head"
    assert "no layout" in plan["blocks/1/attn/q/kernel"].reason
    assert "blocks/0/attn/q/kernel" in str(plan)


def test_the_value_of_a_variable_is_no_part_of_the_path():
    assert routing_plan(model(Variable)) == routing_plan(model())


def test_a_parameter_that_is_called_value_keeps_its_name():
    assert list(routing_plan({"attn": {"value": jnp.ones((4, 4))}, "value": jnp.ones((4, 4))})) == [
        "attn/value",
        "value",
    ]


def test_shapes_are_enough_for_a_plan():
    assert routing_plan(jax.eval_shape(model)) == routing_plan(model())


def test_a_layout_overrules_the_default_and_admits_stacks():
    heads = MatrixLayout(fan_out=(1, 2), fan_in=(0,))
    plan = routing_plan(model(), layouts={"blocks/0/*/kernel": OUT_IN, "blocks/1/*": heads})
    assert plan["blocks/0/attn/q/kernel"].layout == OUT_IN
    assert plan["blocks/1/attn/q/kernel"].layout == heads
    assert plan["blocks/1/norm/scale"].optimizer == "adamw"  # a vector, whatever the layouts say


def test_layouts_do_not_bring_embeddings_heads_or_vectors_to_muon():
    assert routing_plan(model(), layouts={"*": IN_OUT}).paths("muon") == [
        "blocks/0/attn/q/kernel",
        "blocks/1/attn/q/kernel",
    ]


def test_own_rules_come_first():
    front = Rule(optimizer="adamw", reason="mine", component=("attn",))
    rest = Rule(optimizer="adamw", reason="all else")
    plan = routing_plan(model(), rules=(front, rest))
    assert not plan.paths("muon")
    assert plan[MUON[0]].reason == "mine"


def states_of(optimizer, params):
    """Paths with state, by optimizer."""
    inner = optimizer.init(params).inner.inner_states
    return {name: set(paths_of(inner[name].inner_state[0].mu)) for name in ("muon", "adamw")}


def paths_of(tree):
    return routing_plan(tree, rules=(Rule(optimizer="adamw", reason="any"),))


@pytest.mark.parametrize("box", [lambda leaf: leaf, Variable], ids=["plain", "boxed"])
def test_the_hybrid_keeps_to_the_plan(box):
    params = model(box)
    plan = routing_plan(params)
    expected = {name: set(plan.paths(name)) for name in ("muon", "adamw")}
    assert states_of(muon_adamw(0.1), params) == expected


def test_boxed_parameters_train_like_plain_ones():
    boxed, plain = {"w": Variable(jnp.ones((4, 4)))}, {"w": jnp.ones((4, 4))}
    optimizer = muon_adamw(0.1)
    updates, _ = optimizer.update(boxed, optimizer.init(boxed), boxed)
    expected, _ = optimizer.update(plain, optimizer.init(plain), plain)
    np.testing.assert_array_equal(updates["w"].value, expected["w"])


def test_the_layout_decides_the_scale():
    """(in=4, out=16) doubles the update under "original"; read the other way round it does not."""
    params = {"w": jnp.asarray(np.random.default_rng(0).standard_normal((4, 16)), jnp.float32)}
    norms = []
    for layout in (IN_OUT, OUT_IN):
        optimizer = muon_adamw(0.1, 0.0, layouts={"w": layout}, muon_args={"scale": "original", "method": "standard"})
        norms.append(float(jnp.linalg.norm(optimizer.update(params, optimizer.init(params), params)[0]["w"])))
    assert norms[0] == pytest.approx(2 * norms[1], rel=1e-5)


def test_a_glob_without_a_parameter_is_refused():
    with pytest.raises(ValueError, match=r"layouts='blocks/\*/mlp' matches no parameter; accepted: .*blocks/0/attn"):
        muon_adamw(0.1, layouts={"blocks/*/mlp": IN_OUT}).init(model())


def test_a_layout_must_be_one():
    with pytest.raises(TypeError, match=r"layouts\['\*'\]='in_out' is not accepted; accepted: .*MatrixLayout"):
        muon_adamw(0.1, layouts={"*": "in_out"})


def test_two_leaves_with_one_path_are_refused():
    with pytest.raises(ValueError, match="holds the path 'a/b' twice"):
        routing_plan({"a/b": jnp.ones(2), "a": {"b": jnp.ones(3)}})


def test_vectors_never_reach_muon():
    everything = (Rule(optimizer="muon", reason="all"),)
    with pytest.raises(ValueError, match="does not fit the shape"):
        muon_adamw(0.1, rules=everything).init({"b": jnp.ones(3)})
