"""Arrow columns as arrays, whatever a damaged file does to their addresses."""

import numpy as np
import pyarrow as pa

from sparsetd.logs.checks import array_of


def test_numbers_at_odd_addresses_are_copied():
    """Some BLAS kernels crash the process where a number does not lie at a multiple of its size."""
    held = np.arange(4.0)
    buffer = pa.py_buffer(b"\0" + held.tobytes()).slice(1)
    odd = pa.Array.from_buffers(pa.float64(), 4, [None, buffer])
    found = array_of("x", pa.table({"x": odd}).column("x"))
    assert found.ctypes.data % found.itemsize == 0
    np.testing.assert_array_equal(found, held)
