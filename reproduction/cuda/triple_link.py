"""The triple link on the GPU: one thread block learns one run, from its first episode to the one that lasts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from reproduction.triple_link_plant import ANGLE, TRACK, Plant
from sparsetd.sweeps.cuda.launch import compiled, cupy
from sparsetd.system import Array

THREADS = 512
PACKAGE = "reproduction.cuda"  # holds triple_link.cu


def numbers(tuned: Any, coordinates: Array, seed: int) -> Array:
    """A run as the kernel reads it; `coordinates` is the matrix that maps the state to the box of the features."""
    rates = (tuned.gamma, tuned.lam, tuned.alpha, tuned.konidaris, tuned.eta, tuned.epsilon, tuned.decay)
    rest = (*rates, tuned.rho_theta, tuned.rho_w, tuned.forgetting, seed)
    return np.concatenate([(tuned.scale * coordinates).ravel(), np.array(rest, dtype=float)])


def learn(runs: Sequence[Array], **task: Any) -> Array:
    """(solved, episodes, longest episode) of every run; `task` is that of `launch`."""
    return launch(runs, **task)[0]


def launch(
    runs: Sequence[Array],
    *,
    saddle: bool,
    order: int,
    dt: float,
    n_x: int,
    max_episodes: int,
    max_total: int,
    angle: float = ANGLE,
    weights: bool = False,
) -> tuple[Array, Array | None]:
    """Runs of GQ(λ), or of RO-GQ(λ) with `saddle`: their results and, if asked for, their `weights` at the end.

    The results are (runs, 3), as `learn` says. The weights are (runs, vectors, actions, features), where the vectors
    are θ, w and the trace, and with `saddle` also the mean of θ and the two blocks of y before the projection.
    """
    cp, features = cupy(), (order + 1) ** 8
    per = -(-features // THREADS)
    kernel = compiled("triple_link", defines(THREADS, per, order, saddle), PACKAGE)
    memory = cp.empty((len(runs), 6 if saddle else 3, 3, THREADS * per), cp.float32)
    result, given = cp.zeros((len(runs), 3), cp.int32), [cp.asarray(v) for v in (np.stack(runs), Plant().constants())]
    limits = (np.float64(dt), np.float64(TRACK), np.float64(angle), *map(np.int32, (n_x, max_episodes, max_total)))
    kernel((len(runs),), (THREADS,), (*given, *limits, memory, result))
    return np.asarray(cp.asnumpy(result)), np.asarray(cp.asnumpy(memory[..., :features])) if weights else None


def defines(threads: int, per: int, order: int, saddle: bool) -> str:
    words = {"THREADS": threads, "PER": per, "ORDER": order, "FEATURES": (order + 1) ** 8, "RO": int(saddle)}
    return "".join(f"#define {name} {value}\n" for name, value in words.items())
