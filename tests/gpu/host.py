"""CUDA sources as plain C++ with one thread: what the kernel of the triple link computes, without a GPU."""

from __future__ import annotations

import ctypes
import subprocess
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


def learn(
    folder: Path, runs: list[Any], *, saddle: bool, order: int, dt: float, n_x: int, max_episodes: int, max_total: int
) -> Any:
    """As `reproduction.cuda.triple_link.learn`, compiled by g++ into `folder`."""
    features, file = (order + 1) ** 8, folder / f"link{saddle:d}.cpp"
    file.write_text(defines(1, features, order, saddle) + SHIM + source("triple_link", PACKAGE) + LOOP)
    subprocess.run(["g++", "-O1", "-w", "-shared", "-fPIC", "-o", file.with_suffix(".so"), file], check=True)
    memory, result = np.zeros((len(runs), 6, 3, features), np.float32), np.zeros((len(runs), 3), np.int32)
    given, limits = (np.ascontiguousarray(runs), Plant().constants()), map(ctypes.c_double, (dt, TRACK, ANGLE))
    pointers = [ctypes.c_void_p(v.ctypes.data) for v in (*given, memory, result)]
    ctypes.CDLL(str(file.with_suffix(".so"))).all(
        len(runs), *pointers[:2], *limits, n_x, max_episodes, max_total, *pointers[2:]
    )
    return result
