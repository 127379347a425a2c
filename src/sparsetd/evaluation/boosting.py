"""A second opinion that is not linear: fitted value evaluation with boosted trees, cross-fitted and bounded in time.

    V ← the regression of r + γV(s') on s, rows weighted by ρ, again and again

Each half of the clusters is judged by trees that were grown on the other. It does not depend on the basis, ridges or
products: if it agrees, the shape of the value is not what is wrong. It has no interval.

On one thread the same log gives the same value on every run. A value that has not settled would depend on how busy the
machine is, so it is then not a number.
"""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor
from threadpoolctl import threadpool_limits

from sparsetd.evaluation.estimate import Estimate
from sparsetd.logs import Transitions
from sparsetd.system import Array

SECONDS = 60.0  # for both halves together
ROUNDS = 200  # regressions at most
ROWS = 50_000
SETTLED = 1e-3  # the value has settled when it changes by less than this many standard deviations of V
ADVICE = ", or ask boosted trees as well (`sparsetd evaluate … --check boosting`)"  # removed once they were asked


@threadpool_limits.wrap(limits=1, user_api="openmp")
def boosting(log: Transitions, ratio: Array, group: Array, gamma: float) -> Estimate:
    """The mean value of the first states, each from trees grown on the other half; `group` numbers the clusters.

    It is not a number if the value of a half does not settle in time.
    """
    n = min(len(log), ROWS)
    unsettled = Estimate("boosted trees", float("nan"), float("nan"), float(log.start[:n].sum()))
    starts, half = np.flatnonzero(log.start[:n]), (group[:n] % 2).astype(bool)
    values, until = np.full(len(starts), np.nan), time.monotonic() + SECONDS
    for side in (False, True):
        rows, own = np.flatnonzero(half != side), half[starts] == side
        used = rows[ratio[rows] > 0]
        if len(used) < 2 or not own.any():
            continue
        now, after, first = log.observation[used], log.next_observation[used], log.observation[rows[log.start[rows]]]
        discount, ahead = np.where(log.terminated[used], 0.0, gamma), np.zeros(len(used))
        before = np.inf
        for _ in range(ROUNDS):
            model = HistGradientBoostingRegressor(max_iter=60, min_samples_leaf=20, random_state=0)
            model.fit(now, log.reward[used] + discount * ahead, sample_weight=ratio[used])
            ahead, value = model.predict(after), float(model.predict(first).mean())
            if time.monotonic() > until:
                return unsettled
            if abs(value - before) < SETTLED * (float(ahead.std()) or 1.0):
                break
            before = value
        else:
            return unsettled
        values[own] = model.predict(log.observation[starts[own]])
    return replace(unsettled, value=float(np.nanmean(values)))
