"""The streaming methods on a GPU: many settings at once, one thread block for each run.

Nothing here needs more than NumPy and CuPy. The tests put the same algorithm in NumPy, with sums in the kernel's order,
in the place of `launch`.
"""

from __future__ import annotations

from sparsetd.sweeps.cuda.job import Inputs, Job, inputs_of
from sparsetd.sweeps.cuda.launch import stream

__all__ = ["Inputs", "Job", "inputs_of", "stream"]
