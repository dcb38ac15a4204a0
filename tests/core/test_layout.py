"""Layouts as plain numpy: the usual ones are views, and a merged side follows the order of its names."""

import numpy as np
import pytest

from zeropower import IN_OUT, OUT_IN, MatrixLayout


@pytest.mark.parametrize("layout", [OUT_IN, IN_OUT], ids=["out-in", "in-out"])
@pytest.mark.parametrize("shape", [(4, 6), (3, 4, 6), (2, 3, 4, 6)], ids=str)
def test_usual_layouts_copy_nothing(layout, shape):
    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    matrices = layout.to_matrices(x, np)
    assert np.shares_memory(matrices, x)
    assert np.array_equal(matrices.ravel(), x.ravel())
    assert np.shares_memory(layout.from_matrices(matrices, shape, np), x)


def test_convolution_is_flattened_as_its_axes_are_named():
    x = np.arange(24.0).reshape(2, 3, 4)
    flattened = MatrixLayout((0,), (1, 2)).to_matrices(x, np)
    assert np.array_equal(flattened, x.reshape(1, 2, 12))
    swapped = MatrixLayout((0,), (2, 1)).to_matrices(x, np)
    assert np.array_equal(swapped, x.transpose(0, 2, 1).reshape(1, 2, 12))


def test_axes_that_are_not_named_are_a_batch_wherever_they_stand():
    x = np.arange(24.0).reshape(2, 3, 4)
    middle = MatrixLayout((2,), (0,))
    assert middle.fans(x.shape) == (4, 2)
    assert middle.matrix_shape(x.shape) == (3, 2, 4)
    assert np.array_equal(middle.to_matrices(x, np), x.transpose(1, 0, 2))


def test_layouts_are_values():
    assert MatrixLayout((-2,), (-1,)) == OUT_IN
    assert hash(MatrixLayout((-2,), (-1,))) == hash(OUT_IN)
    assert OUT_IN != IN_OUT
