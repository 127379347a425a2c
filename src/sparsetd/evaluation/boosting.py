"""A second opinion that is not linear: fitted value evaluation with boosted trees, cross-fitted and bounded in time.

    V ← the regression of r + γV(s') on s, rows weighted by ρ, again and again

Each half of the clusters is judged by trees that were grown on the other. It knows nothing of the basis, of ridges or
of products: where it agrees, the shape of the value is not what is wrong. It has no interval of its own.
"""

from __future__ import annotations

import time

import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor

from sparsetd.evaluation.estimate import Estimate
from sparsetd.logs import Transitions
from sparsetd.system import Array

SECONDS = 60.0  # processor time that both halves share
ROUNDS = 40  # regressions at most
ROWS = 50_000
SETTLED = 1e-3  # the value has settled when it changes by less than this many standard deviations of V


def boosting(log: Transitions, ratio: Array, group: Array, gamma: float) -> Estimate:
    """The mean value of the first states, each from trees grown on the other half; `group` numbers the clusters."""
    n = min(len(log), ROWS)
    starts, half = np.flatnonzero(log.start[:n]), (group[:n] % 2).astype(bool)
    values = np.full(len(starts), np.nan)
    for side in (False, True):
        rows, own = np.flatnonzero(half != side), half[starts] == side
        used = rows[ratio[rows] > 0]
        if len(used) < 2 or not own.any():
            continue
        now, after, first = log.observation[used], log.next_observation[used], log.observation[rows[log.start[rows]]]
        discount, ahead = np.where(log.terminated[used], 0.0, gamma), np.zeros(len(used))
        begun, before = time.process_time(), np.inf
        for _ in range(ROUNDS):  # until the value has settled, or the time is over
            model = HistGradientBoostingRegressor(max_iter=60, min_samples_leaf=20, random_state=0)
            model.fit(now, log.reward[used] + discount * ahead, sample_weight=ratio[used])
            ahead = model.predict(after)
            value, spread = float(model.predict(first).mean()), float(ahead.std()) or 1.0
            if abs(value - before) < SETTLED * spread or time.process_time() - begun > SECONDS / 2:
                break
            before = value
        values[own] = model.predict(log.observation[starts[own]])
    return Estimate("boosted trees", float(np.nanmean(values)), float("nan"), float(len(starts)))
