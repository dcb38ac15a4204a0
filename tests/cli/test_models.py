"""The two models are one model."""

import math

import numpy as np
import pytest

from zeropower.cli.model import ModelShape, initial_weights

SHAPE = ModelShape(width=32, layers=2, heads=2, context=24)
# norm-relative: a few dozen rounded operations lie between a byte and its logits
TOLERANCE = 64 * np.finfo(np.float32).eps


def weights() -> dict[str, np.ndarray]:
    """Initial weights with a head that is not zero, and norms that are not one."""
    rng = np.random.default_rng(1)
    drawn = initial_weights(SHAPE, seed=0)
    for path, array in drawn.items():
        if path.startswith("head") or path.endswith("scale"):
            drawn[path] = rng.standard_normal(array.shape).astype(np.float32)
    return drawn


def torch_logits(drawn: dict[str, np.ndarray], tokens: np.ndarray) -> np.ndarray:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    from zeropower.cli.torch_model import Transformer

    with torch.no_grad():
        return Transformer(SHAPE, drawn)(torch.from_numpy(tokens)).numpy()


def jax_logits(drawn: dict[str, np.ndarray], tokens: np.ndarray) -> np.ndarray:
    pytest.importorskip("jax", reason="jax is not installed")
    from zeropower.cli.jax_model import init_params, logits

    return np.asarray(logits(init_params(drawn), tokens, SHAPE))


@pytest.fixture
def tokens() -> np.ndarray:
    return np.random.default_rng(2).integers(256, size=(3, SHAPE.context))


def test_same_weights_give_the_same_logits(tokens):
    ours, theirs = torch_logits(weights(), tokens), jax_logits(weights(), tokens)
    assert ours.shape == theirs.shape == (3, SHAPE.context, 256)
    assert np.linalg.norm(ours - theirs) <= TOLERANCE * np.linalg.norm(theirs)


def test_same_number_of_weights():
    pytest.importorskip("torch", reason="torch is not installed")
    jax = pytest.importorskip("jax", reason="jax is not installed")
    from zeropower.cli.jax_model import init_params
    from zeropower.cli.torch_model import Transformer

    drawn = weights()
    in_torch = sum(weight.numel() for weight in Transformer(SHAPE, drawn).parameters())
    in_jax = sum(leaf.size for leaf in jax.tree.leaves(init_params(drawn)))
    # embedding and head, then q, k, v, out and an MLP of four times the width, and the norms
    by_hand = 2 * 256 * 32 + 2 * (4 * 32 * 32 + 2 * 32 * 128 + 2 * 32) + 32
    assert in_torch == in_jax == by_hand


@pytest.mark.parametrize("logits", [torch_logits, jax_logits])
def test_no_position_sees_a_later_byte(logits, tokens):
    changed = tokens.copy()
    changed[:, 10:] = (changed[:, 10:] + 1) % 256
    before, after = logits(weights(), tokens), logits(weights(), changed)
    np.testing.assert_array_equal(before[:, :10], after[:, :10])
    assert (before[:, 10:] != after[:, 10:]).any(axis=-1).all()


@pytest.mark.parametrize("logits", [torch_logits, jax_logits])
def test_order_of_the_past_matters(logits, tokens):
    swapped = tokens.copy()
    swapped[:, [3, 4]] = tokens[:, [4, 3]]
    assert (tokens[:, 3] != tokens[:, 4]).all()
    before, after = logits(weights(), tokens)[:, -1], logits(weights(), swapped)[:, -1]
    assert np.linalg.norm(before - after) > 100 * TOLERANCE * np.linalg.norm(before)


@pytest.mark.parametrize("logits", [torch_logits, jax_logits])
def test_untrained_model_prefers_no_byte(logits, tokens):
    assert (logits(initial_weights(SHAPE, seed=0), tokens) == 0).all()


def test_initial_weights_follow_the_seed_and_their_variance():
    shape = ModelShape(width=128, layers=4, heads=4, context=8)
    drawn = initial_weights(shape, seed=3)
    for path, again in initial_weights(shape, seed=3).items():
        np.testing.assert_array_equal(drawn[path], again)
        assert again.dtype == np.float32
    assert (drawn["blocks/0/attn/q/kernel"] != initial_weights(shape, seed=4)["blocks/0/attn/q/kernel"]).any()
    deviation = {
        "embed/embedding": 1.0,
        "blocks/1/attn/q/kernel": 128**-0.5,
        "blocks/1/attn/out/kernel": (8 * 128) ** -0.5,
        "blocks/1/mlp/down/kernel": (8 * 512) ** -0.5,
    }
    for path, expected in deviation.items():
        # the deviation of n normal numbers is itself off by about 1 / sqrt(2 n); five times that is never
        assert drawn[path].std() == pytest.approx(expected, rel=5 / math.sqrt(2 * drawn[path].size)), path
