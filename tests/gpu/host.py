"""CUDA sources as plain C++ with one thread: what the kernel of the triple link computes, without a GPU."""

from __future__ import annotations

import ctypes
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from reproduction.cuda.triple_link import PACKAGE, defines
from reproduction.triple_link_plant import ANGLE, TRACK, Plant
from sparsetd.sweeps.cuda.launch import source

SHIM = """
#include <cmath>
using namespace std;
#define __device__ static
#define __global__
#define __shared__ static
#define __launch_bounds__(n)
struct Index { int x; };
static Index blockIdx, threadIdx;
static float cospif(float v) { return (float)cos(3.14159265358979323846 * (double)v); }
"""
LOOP = """
extern "C" void all(int runs, const Numbers *p, const double *k, double dt, double track, double angle, int n_x, int m,
                    int t, float *s, int *r) {
  for (blockIdx.x = 0; blockIdx.x < runs; ++blockIdx.x) triple_link(p, k, dt, track, angle, n_x, m, t, s, r);
}
"""


def launch(
    runs: list[Any],
    *,
    saddle: bool,
    order: int,
    dt: float,
    n_x: int,
    max_episodes: int,
    max_total: int,
    angle: float = ANGLE,
    weights: bool = True,
    wrong: tuple[str, str] = ("", ""),
) -> tuple[Any, Any]:
    """As `reproduction.cuda.triple_link.launch`, compiled by g++; `wrong` replaces a piece of the source."""
    features = (order + 1) ** 8
    memory = np.zeros((len(runs), 6 if saddle else 3, 3, features), np.float32)
    result = np.zeros((len(runs), 3), np.int32)
    given, limits = (np.ascontiguousarray(runs), Plant().constants()), map(ctypes.c_double, (dt, TRACK, angle))
    pointers = [ctypes.c_void_p(v.ctypes.data) for v in (*given, memory, result)]
    kernel(order, saddle, *wrong).all(len(runs), *pointers[:2], *limits, n_x, max_episodes, max_total, *pointers[2:])
    return result, memory if weights else None


@cache
def kernel(order: int, saddle: bool, old: str, new: str) -> Any:
    text = source("triple_link", PACKAGE)
    assert old in text
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "link.cpp")
        file.write_text(defines(1, (order + 1) ** 8, order, saddle) + SHIM + text.replace(old, new) + LOOP)
        subprocess.run(["g++", "-O1", "-w", "-shared", "-fPIC", "-o", file.with_suffix(".so"), file], check=True)
        return ctypes.CDLL(str(file.with_suffix(".so")))
