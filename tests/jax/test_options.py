"""Bad input is refused by name, with what is accepted, before anything is computed."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from zeropower import IN_OUT, MuonRecipe
from zeropower.jax import adamw, bitnet_adamw, muon, muon_adamw, scale_by_muon

NAN = float("nan")
RATE = r"accepted: a finite number in \[0.0, inf\)"


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: muon(NAN), f"learning_rate=nan is out of range; {RATE}"),
        (lambda: muon(-1.0), f"learning_rate=-1.0 is out of range; {RATE}"),
        (lambda: muon(np.float32(-1)), f"learning_rate=-1.0 is out of range; {RATE}"),
        (lambda: muon("0.1"), "learning_rate='0.1' is not a number"),
        (lambda: muon(0.1, adam_learning_rate=NAN), f"adam_learning_rate=nan is out of range; {RATE}"),
        (lambda: muon(0.1, weight_decay=-0.1), f"weight_decay=-0.1 is out of range; {RATE}"),
        (lambda: muon(0.1, adam_weight_decay=-0.1), f"adam_weight_decay=-0.1 is out of range; {RATE}"),
        (lambda: muon(0.1, consistent_rms=-0.2), f"consistent_rms=-0.2 is out of range; {RATE}"),
        (lambda: muon(0.1, adam_eps_root=-1), f"adam_eps_root=-1 is out of range; {RATE}"),
        (lambda: muon(0.1, ns_steps=0), "ns_steps=0 is out of range; accepted: integers >= 1"),
        (lambda: muon(0.1, ns_steps=2.5), "ns_steps=2.5 is not an integer; accepted: integers >= 1"),
        (lambda: muon(0.1, ns_steps=jnp.asarray(5)), "ns_steps=5 is an array; accepted: .*static_args='ns_steps'"),
        (lambda: muon(0.1, beta=1.0), r"beta=1.0 is out of range; accepted: .*\[0.0, 1.0\)"),
        (lambda: muon(0.1, eps=-1.0), "eps=-1.0 is out of range; accepted:"),
        (lambda: muon(0.1, adam_b1=1.5), "adam_b1=1.5 is out of range; accepted:"),
        (lambda: muon(0.1, adam_b2=-1), "adam_b2=-1 is out of range; accepted:"),
        (lambda: muon(0.1, ns_coeffs="deon"), "ns_coeffs='deon' is not known; accepted: .*'dion'"),
        (lambda: muon(0.1, ns_coeffs=(1.0, 2.0)), r"ns_coeffs=.* has the shape \(2,\); accepted: .*\(a, b, c\)"),
        (lambda: muon(0.1, ns_coeffs=MuonRecipe()), "ns_coeffs=.* is not of numbers; accepted: "),
        (lambda: muon(0.1, ns_coeffs=(1.0, NAN, 0.0)), "ns_coeffs=nan is out of range; accepted:"),
        (lambda: muon(0.1, ns_coeffs=(9.0, 9.0, 9.0)), "ns_coeffs=.* blow up beyond .*; accepted: bounded"),
        (
            lambda: muon(0.1, preconditioning="spectral"),
            "preconditioning='spectral' is not known; accepted: 'frobenius', 'aol', 'schatten'",
        ),
        (lambda: muon(0.1, mu_dtype="int8"), "mu_dtype='int8' is not accepted; accepted: a real floating dtype"),
        (lambda: muon(0.1, mu_dtype="bf17"), "mu_dtype='bf17' is not accepted; accepted: a real floating dtype"),
        (lambda: scale_by_muon(ns_steps=0), "ns_steps=0 is out of range; accepted: integers >= 1"),
        (lambda: scale_by_muon(compute_dtype="int8"), "compute_dtype='int8' is not known; accepted: 'float64', "),
        (lambda: scale_by_muon(recipe=MuonRecipe(), beta=0.9), "recipe=.* comes with beta; accepted: one or the other"),
        (lambda: muon_adamw(NAN), f"learning_rate=nan is out of range; {RATE}"),
        (lambda: muon_adamw(0.1, -1), f"weight_decay=-1 is out of range; {RATE}"),
        (lambda: muon_adamw(0.1, dialect="tensorflow"), "dialect='tensorflow' is not known; accepted: .*'optax'"),
        (lambda: muon_adamw(0.1, muon_args={"beta": 0.9}), "muon_args has the key 'beta'; accepted: 'momentum', "),
        (lambda: muon_adamw(0.1, muon_args={"steps": 0}), r"muon_args\['steps'\]=0 is out of range; accepted: .*>= 1"),
        (lambda: muon_adamw(0.1, muon_args={"normalize": "x"}), r"muon_args\['normalize'\]='x' is not known"),
        (
            lambda: muon_adamw(0.1, muon_args={"compute_dtype": "int8"}),
            r"muon_args\['compute_dtype'\]='int8' is not known; accepted: 'float64'",
        ),
        (lambda: muon_adamw(0.1, adamw_args={"beta1": 0.9}), "adamw_args has the key 'beta1'; accepted: 'b1', 'b2'"),
        (lambda: muon_adamw(0.1, adamw_args={"b2": 1.0}), r"adamw_args\['b2'\]=1.0 is out of range; accepted:"),
        (
            lambda: muon_adamw(0.1, adamw_args={"learning_rate": -1}),
            rf"adamw_args\['learning_rate'\]=-1 is out of range; {RATE}",
        ),
        (lambda: adamw(-1), f"learning_rate=-1 is out of range; {RATE}"),
        (lambda: adamw(0.1, weight_decay=-1), f"weight_decay=-1 is out of range; {RATE}"),
        (lambda: adamw(0.1, b2=1.0), "b2=1.0 is out of range; accepted:"),
        (lambda: adamw(0.1, eps=NAN), "eps=nan is out of range; accepted:"),
        (lambda: bitnet_adamw(-1, total_steps=3), f"learning_rate=-1 is out of range; {RATE}"),
        (lambda: bitnet_adamw(1, weight_decay=-1, total_steps=3), f"weight_decay=-1 is out of range; {RATE}"),
        (lambda: bitnet_adamw(1, weight_decay_final=-1, total_steps=3), "weight_decay_final=-1 is out of range"),
        (lambda: bitnet_adamw(1, total_steps=-1), "total_steps=-1 is out of range; accepted: integers >= 0"),
        (lambda: bitnet_adamw(1, total_steps=2.0), "total_steps=2.0 is not an integer; accepted: integers >= 0"),
        (lambda: bitnet_adamw(1, total_steps=jnp.asarray(2)), "total_steps=2 is an array; accepted: .*static_args="),
        (lambda: bitnet_adamw(1, second_stage_start=NAN, total_steps=3), "second_stage_start=nan is out of range"),
        (lambda: bitnet_adamw(1, b1=1.0, total_steps=3), "b1=1.0 is out of range; accepted:"),
    ],
)  # fmt: skip
def test_bad_arguments_are_refused_at_construction(build, message):
    with pytest.raises((ValueError, TypeError), match=f"^{message}"):
        build()


MATRIX = jnp.ones((2, 3))
BAD_LEAVES = {
    "complex64": jnp.ones((2, 3), jnp.complex64),
    "int32": jnp.ones((2, 3), jnp.int32),
    "bool": jnp.ones((2, 3), bool),
    "float0": np.zeros((2, 3), jax.dtypes.float0),
}


@pytest.mark.parametrize("dtype", BAD_LEAVES)
@pytest.mark.parametrize(
    "optimizer",
    [muon(0.1), muon_adamw(0.1), scale_by_muon(), bitnet_adamw(0.1, total_steps=3), adamw(0.1)],
    ids=["muon", "muon_adamw", "scale_by_muon", "bitnet_adamw", "adamw"],
)
def test_leaves_that_are_not_real_are_refused(optimizer, dtype):
    message = f"^'w' has dtype {dtype}; accepted: real floating"
    with pytest.raises(TypeError, match=message):
        optimizer.init({"w": BAD_LEAVES[dtype]})
    state = optimizer.init({"w": MATRIX})
    with pytest.raises(TypeError, match=message):
        optimizer.update({"w": BAD_LEAVES[dtype]}, state, {"w": MATRIX})


def test_scale_by_muon_takes_matrices_only():
    message = r"^'b' has shape \(3,\); accepted by Muon: at least two axes"
    for optimizer in (scale_by_muon(), scale_by_muon(weight_dimension_numbers=IN_OUT)):
        with pytest.raises(ValueError, match=message):
            optimizer.init({"w": MATRIX, "b": jnp.ones(3)})
    state = scale_by_muon().init({"b": MATRIX})
    with pytest.raises(ValueError, match=message):
        jax.jit(scale_by_muon().update)({"b": jnp.ones(3)}, state)  # while it is traced


def test_scale_by_muon_guesses_no_stack():
    with pytest.raises(ValueError, match=r"^'w' has shape \(2, 2, 3\) and no view .*; accepted: weight_dim"):
        scale_by_muon().init({"w": jnp.ones((2, 2, 3))})


def test_dimension_numbers_must_be_some():
    with pytest.raises(TypeError, match=r"^muon_weight_dimension_numbers holds 1; accepted: MuonDimensionNumbers"):
        muon(0.1, muon_weight_dimension_numbers={"w": 1}).init({"w": MATRIX})


def test_an_injected_integer_is_named():
    """`inject_hyperparams` makes arrays of all numbers that it is not told to leave alone."""
    with pytest.raises(TypeError, match=r"^ns_steps=.* is an array; accepted: .*static_args='ns_steps'"):
        optax.inject_hyperparams(muon)(0.1).init({"w": MATRIX})


def test_arguments_may_be_numpy_scalars_and_arrays():
    """They promote nothing: strict promotion refuses what a numpy float64 or a bfloat16 array would do otherwise."""
    matrix = {"w": jnp.ones((3, 3))}
    optimizers = [
        muon(np.float64(0.1), np.asarray([2.0, -1.5, 0.5]), beta=np.float32(0.5), eps=jnp.bfloat16(0.25)),
        muon(0.1, [2.0, -1.5, 0.5], beta=0.5, eps=0.25),
    ]
    with jax.numpy_dtype_promotion("strict"):
        one, other = (o.update(matrix, o.init(matrix), matrix)[0]["w"] for o in optimizers)
    np.testing.assert_allclose(one, other, rtol=1e-6)
