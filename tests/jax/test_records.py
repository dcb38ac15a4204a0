"""States as records: nothing is lost on the way, and what does not fit is refused before anything is returned."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from zeropower import IN_OUT
from zeropower.jax import adamw, bitnet_adamw, load_record, muon, muon_adamw, to_record
from zeropower.record import Record, RecordEntry

SHAPES = {"layers": [{"w": (4, 6), "b": (6,)}, {"w": (4, 6), "b": (6,)}], "gain": ()}
PATHS = ["gain", "layers/0/b", "layers/0/w", "layers/1/b", "layers/1/w"]
OPTIMIZERS = {
    "adamw": lambda: adamw(lambda count: 0.1 / (1 + count), weight_decay=lambda count: 0.1 * count),
    "bitnet_adamw": lambda: bitnet_adamw(0.1, total_steps=8, clock="parameter"),
    "muon_hybrid": lambda: muon_adamw(0.1, weight_decay_final=0.0, total_steps=8, adamw_args={"clock": "parameter"}),
    "heavy ball": lambda: muon_adamw(0.1, dialect="optax", muon_args={"momentum_form": "heavy_ball"}),
    "mu in bfloat16": lambda: muon_adamw(0.1, muon_args={"mu_dtype": "bfloat16"}),
}
every = pytest.mark.parametrize("name", OPTIMIZERS)


def tree(seed, dtype="float32"):
    rng = np.random.default_rng(seed)
    shapes, structure = jax.tree.flatten(SHAPES, is_leaf=lambda node: isinstance(node, tuple))
    return structure.unflatten([jnp.asarray(rng.standard_normal(shape), dtype) for shape in shapes])


def trained(optimizer, values, state, seeds):
    """After some updates; the second layer has a gradient in every other one."""
    update = jax.jit(optimizer.update)
    for seed in seeds:
        grads = tree(seed, values["gain"].dtype)
        if seed % 2:
            grads["layers"][1] = None
        updates, state = update(grads, state, values)
        values = optax.apply_updates(values, updates)
    return values, state


def assert_equal(found, expected):
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)


@pytest.mark.original("J5", "J6")
@every
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_there_and_back_is_an_uninterrupted_run(name, dtype):
    values = tree(0, dtype)
    optimizer = OPTIMIZERS[name]()
    values, state = trained(optimizer, values, optimizer.init(values), range(1, 4))
    record = to_record(state, values)
    for _ in range(2):  # loading leaves the record as it is
        loaded = load_record(record, optimizer.init(values), values)
        assert_equal(loaded, state)
    assert_equal(trained(optimizer, values, loaded, range(4, 7)), trained(optimizer, values, state, range(4, 7)))


@pytest.mark.parametrize(
    ("name", "form"), [("muon_hybrid", "ema"), ("heavy ball", "heavy_ball"), ("mu in bfloat16", "ema")]
)
def test_what_a_record_of_the_hybrid_says(name, form):
    values = tree(0, "bfloat16")
    optimizer = OPTIMIZERS[name]()
    _, state = trained(optimizer, values, optimizer.init(values), range(1, 4))
    record = to_record(state, jax.eval_shape(lambda: values))
    assert (record.kind, record.step, [*record.entries]) == ("muon_hybrid", 3, PATHS)
    for path, entry in record.entries.items():
        assert entry.optimizer == ("muon" if path.endswith("w") else "adamw")
        assert entry.updates == (1 if path.startswith("layers/1") else 3)
        assert entry.momentum_form == (form if path.endswith("w") else None)
        assert {*entry.arrays} == ({"momentum"} if path.endswith("w") else {"moment_1", "moment_2"})
        assert all(isinstance(a, np.ndarray) and a.dtype == np.float32 for a in entry.arrays.values())


def test_kinds_without_muon():
    values = tree(0)
    for name in ("adamw", "bitnet_adamw"):
        record = to_record(OPTIMIZERS[name]().init(values), values)
        assert (record.kind, record.step, [*record.entries]) == (name, 0, PATHS)


@pytest.mark.original("J8")
def test_loading_replaces_everything():
    """A parameter that the record has no state of starts anew, whatever its state was."""
    values, optimizer = tree(0), OPTIMIZERS["bitnet_adamw"]()
    fresh = optimizer.init(values)
    _, state = trained(optimizer, values, fresh, range(1, 4))
    assert_equal(load_record(Record("bitnet_adamw", 0, {}), state, values), fresh)


def test_schedules_continue():
    values, optimizer = tree(0), OPTIMIZERS["adamw"]()
    _, state = trained(optimizer, values, optimizer.init(values), range(1, 4))
    loaded = load_record(to_record(state, values), optimizer.init(values), values)
    counts = [int(leaf) for leaf in jax.tree.leaves(loaded) if leaf.ndim == 0 and leaf.dtype == jnp.int32]
    assert counts == [3, 3, 3, 3]  # of calls, of the moments, of the decay, of the learning rate


@pytest.mark.parametrize(
    ("source", "target", "factor"),
    [("ema", "heavy_ball", 20.0), ("heavy_ball", "ema", 0.05), ("ema_corrected", "ema", 1)],
)
def test_momentum_is_converted_between_its_forms(source, target, factor):
    values = {"w": jnp.asarray(np.random.default_rng(0).standard_normal((4, 6)), jnp.float32)}
    one, other = (muon_adamw(0.1, muon_args={"momentum_form": form}) for form in (source, target))
    _, state = one.update(values, one.init(values), values)
    record = to_record(state, values)
    if factor != 1:
        with pytest.raises(ValueError, match=rf"^momentum=None; accepted where the record has the form '{source}' and"):
            load_record(record, other.init(values), values)
    found = to_record(load_record(record, other.init(values), values, momentum=0.95), values)
    before, after = (each.entries["w"].arrays["momentum"] for each in (record, found))
    np.testing.assert_allclose(after, factor * before, rtol=1e-6)
    assert found.entries["w"].momentum_form == target


def changed(record, path, **fields):
    return replace(record, entries={**record.entries, path: record.entries[path]._replace(**fields)})


@pytest.mark.original("J7")
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda record: replace(record, kind="adamw"),
            "record is of kind 'adamw'; accepted by this optimizer: 'muon",
        ),
        (
            lambda record: replace(record, entries={**record.entries, "new": record.entries["gain"]}),
            "record has the parameter 'new'; accepted: those of this optimizer",
        ),
        (
            lambda record: changed(record, "gain", arrays={"moment_1": np.zeros(()), "moment_2": np.zeros(1)}),
            r"moment_2 of 'gain' has shape \(1,\) in the record; accepted: \(\)",
        ),
        (
            lambda record: changed(record, "layers/0/w", arrays={"moment_1": np.zeros((4, 6))}),
            "record holds moment_1 of 'layers/0/w'; accepted: momentum",
        ),
        (
            lambda record: changed(record, "layers/0/b", optimizer="muon"),
            "record gives 'layers/0/b' to muon; accepted: adamw, as it is routed now",
        ),
    ],
)
def test_a_record_that_does_not_fit_is_refused(change, message):
    values, optimizer = tree(0), OPTIMIZERS["muon_hybrid"]()
    state = optimizer.init(values)
    with pytest.raises(ValueError, match=f"^{message}"):
        load_record(change(to_record(state, values)), state, values)


def test_states_of_other_optimizers_or_parameters_are_refused():
    values = tree(0)
    state, record = adamw(0.1).init(values), Record("adamw", 0, {})
    for other in (muon(0.1).init(values), state.inner, optax.adamw(0.1).init(values)):
        message = r"^state is of the type \w+; accepted: AdamWState, BitNetAdamWState, MuonAdamWState"
        with pytest.raises(TypeError, match=message):
            to_record(other, values)
        with pytest.raises(TypeError, match=message):
            load_record(record, other, values)
    for params, message in [
        (
            values | {"gain": jnp.ones(2)},
            r"state keeps \(\) of 'gain', params have \(2,\); accepted: the params of init",
        ),
        (values | {"new": jnp.ones(2)}, r"state keeps nothing of 'new', params have \(2,\); accepted: "),
        ({"gain": values["gain"]}, r"state keeps \(6,\) of 'layers/0/b', params have nothing; accepted: "),
    ]:
        with pytest.raises(ValueError, match=f"^{message}"):
            to_record(state, params)
        with pytest.raises(ValueError, match=f"^{message}"):
            load_record(record, state, params)


def test_paths_of_another_framework_are_the_same_paths():
    """Components are what counts, and float64 is rounded to what this optimizer keeps."""
    values, optimizer = {"layers": {"0": {"w": jnp.ones((2, 3))}}}, muon_adamw(0.1)
    entry = RecordEntry("muon", None, "ema", {"momentum": np.full((2, 3), 0.1)})
    state = load_record(Record("muon_hybrid", 7, {"layers.0.w": entry}), optimizer.init(values), values)
    found = to_record(state, values).entries["layers/0/w"]
    assert found.updates == 7
    np.testing.assert_array_equal(found.arrays["momentum"], np.float32(0.1))


def test_the_count_saturates():
    values, optimizer = {"b": jnp.ones(2)}, adamw(0.1)
    entry = RecordEntry("adamw", 2**40, None, {"moment_1": np.zeros(2), "moment_2": np.zeros(2)})
    state = load_record(Record("adamw", 2**40, {"b": entry}), optimizer.init(values), values)
    assert int(state.count) == int(state.inner[0].counts[0]) == 2**31 - 1


def test_a_state_that_was_put_on_a_device_stays_there():
    values, optimizer = {"w": jnp.ones((4, 4))}, muon_adamw(0.1, layouts={"w": IN_OUT})
    state = jax.device_put(optimizer.init(values), jax.devices()[0])
    loaded = load_record(to_record(state, values), state, values)
    assert all(
        one.sharding == other.sharding
        for one, other in zip(jax.tree.leaves(loaded), jax.tree.leaves(state), strict=True)
    )
