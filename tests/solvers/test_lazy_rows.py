"""Rows reach the kernels in one type, whatever memory they come from."""

from __future__ import annotations

import numba
import numpy as np
import pytest
import scipy.sparse as sp

from sparsetd.solvers.lazy import rows_of as rows


@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_the_kernels_see_one_type(read_only, dtype, index):
    matrix = sp.csr_array(np.eye(3, dtype=dtype))
    matrix.indices, matrix.indptr = matrix.indices.astype(index), matrix.indptr.astype(index)
    for array in (matrix.data, matrix.indices, matrix.indptr):
        array.setflags(write=not read_only)
    plain = rows(sp.csr_array(np.eye(3)))
    assert numba.typeof(tuple(rows(matrix))) == numba.typeof(tuple(plain))


def test_read_only_rows_are_not_copied_and_stay_alive():
    matrix = sp.csr_array(np.eye(3))
    matrix.data.setflags(write=False)
    lent, address = rows(matrix).values, matrix.data.ctypes.data
    del matrix
    assert lent.ctypes.data == address
    assert lent.tolist() == [1.0, 1.0, 1.0]
