"""A parameter as a stack of matrices, and back, for every layout."""

from itertools import product

import numpy as np
import pytest

from zeropower import CONV, HEADS, IN_OUT, MERGED_HEADS, OUT_IN, MatrixLayout, MuonRecipe, muon_step
from zeropower.conformance.check import EAGER, check
from zeropower.conformance.laws import rounded
from zeropower.conformance.oracles import matrices
from zeropower.conformance.tolerances import gradient_response, tensor_error

CASES = [  # layout, shape, (batch, fan_out, fan_in)
    (OUT_IN, (4, 6), (1, 4, 6)),
    (IN_OUT, (4, 6), (1, 6, 4)),
    (OUT_IN, (3, 4, 6), (3, 4, 6)),
    (IN_OUT, (2, 3, 4, 6), (6, 6, 4)),
    (CONV, (4, 3, 5), (1, 4, 15)),
    (CONV, (4, 3, 2, 2), (1, 4, 12)),
    (HEADS, (2, 3, 4), (2, 3, 4)),
    (MERGED_HEADS, (2, 3, 4), (1, 6, 4)),
    (MatrixLayout("rest", (1,)), (2, 3, 4), (1, 8, 3)),  # what is merged lies around what is not
    (MatrixLayout((-1,), (0,)), (4, 2, 6), (2, 6, 4)),  # the batch is in the middle
    (MatrixLayout((1, 2), (0,)), (4, 2, 3), (1, 6, 4)),  # attention kernels of Flax
    (MatrixLayout((2, 0), (1,)), (2, 4, 3), (1, 6, 4)),  # axes that merge out of order
    (OUT_IN, (0, 4, 6), (0, 4, 6)),
]
LAYOUTS = pytest.mark.parametrize(("layout", "shape", "sizes"), CASES, ids=str)


def element(layout, shape, index):
    """Where an element of a parameter stands among the matrices: (batch, fan_out, fan_in)."""
    named = [() if side == "rest" else side for side in (layout.fan_out, layout.fan_in)]
    axes = [tuple(a % len(shape) for a in side) for side in named]
    if () in axes:
        axes[axes.index(())] = tuple(a for a in range(len(shape)) if a not in axes[0] + axes[1])
    rest = tuple(a for a in range(len(shape)) if a not in axes[0] + axes[1])
    return tuple(
        int(np.ravel_multi_index([index[a] for a in group], [shape[a] for a in group])) if group else 0
        for group in (rest, *axes)
    )


@check("layout")
@LAYOUTS
@pytest.mark.original("F2", "F3", "F4")
def test_every_element_is_where_its_axes_say(backend, transform, xp, layout, shape, sizes):
    x = np.arange(np.prod(shape), dtype=np.float64).reshape(shape)
    array = backend.from_numpy(x, "float32")
    ours = backend.to_numpy(transform(layout.to_matrices, xp=xp)(array))
    batch, fan_out, fan_in = sizes
    assert layout.fans(shape) == (fan_out, fan_in)
    assert ours.shape == layout.matrix_shape(shape)
    assert ours.shape in {(batch, fan_out, fan_in), (batch, fan_in, fan_out)}
    turned = ours.shape == (batch, fan_in, fan_out) and ours.shape != (batch, fan_out, fan_in)
    ours = ours.mT if turned else ours
    assert all(ours[element(layout, shape, index)] == x[index] for index in product(*map(range, shape)))


@check("layout")
@pytest.mark.parametrize("layout", [OUT_IN, IN_OUT], ids=["out-in", "in-out"])
def test_usual_layouts_move_nothing(backend, transform, xp, layout):
    x, array = rounded(matrices((3, 4, 6)), backend, "float32")
    assert np.array_equal(backend.to_numpy(transform(layout.to_matrices, xp=xp)(array)), x)


@check("layout")
@LAYOUTS
def test_way_back_is_exact(backend, transform, xp, layout, shape, sizes):
    x = np.random.default_rng(0).standard_normal(shape)
    array = backend.from_numpy(x, "float32")

    def there_and_back(x):
        return layout.from_matrices(layout.to_matrices(x, xp), shape, xp)

    back = transform(there_and_back)(array)
    assert back.dtype == array.dtype
    assert np.array_equal(backend.to_numpy(back), x.astype(np.float32))


@check("layout", dtypes=("float32",))
@pytest.mark.parametrize("scale", ["original", "match_rms_adamw"])
@pytest.mark.parametrize("shape", [(4, 6), (6, 4), (3, 4, 6)], ids=str)
def test_step_of_the_transpose_is_the_transposed_step(backend, transform, dtype, xp, shape, scale):
    recipe = MuonRecipe(scale=scale, method="standard")
    (p, param), (g, grad) = (rounded(matrices(shape, seed), backend, dtype) for seed in (1, 2))

    def step(layout):
        def run(param, grad):
            return muon_step(param, grad, None, recipe, lr=0.1, weight_decay=0.1, layout=layout, xp=xp)[0]

        return run

    turned = transform(step(IN_OUT))(*(backend.from_numpy(x.mT, dtype) for x in (p, g)))
    straight = backend.to_numpy(transform(step(OUT_IN))(param, grad))

    def reference(grads):
        return {"p": np.asarray(muon_step(p.astype(dtype), grads[0]["p"], None, recipe, lr=0.1, weight_decay=0.1)[0])}

    bound = gradient_response(reference, [{"p": g.astype(dtype)}])["p"]
    assert tensor_error(backend.to_numpy(turned).mT, straight) <= bound


@check("layout")
@EAGER
@pytest.mark.original("F5")
@pytest.mark.parametrize(
    "layout", [MatrixLayout((0,), (3,)), MatrixLayout((0,), (-3,)), MatrixLayout((0, 1), (1,))], ids=str
)
def test_layout_that_does_not_fit_is_refused(backend, xp, layout):
    with pytest.raises(ValueError, match="does not fit"):
        layout.to_matrices(backend.from_numpy(np.zeros((2, 3, 4)), "float32"), xp)


@check("layout")
@EAGER
def test_layout_names_both_sides(backend):
    with pytest.raises(ValueError, match="names no axis"):
        MatrixLayout((), (0,))
    with pytest.raises(ValueError, match="names no axis"):
        MatrixLayout((0,), ())
