"""The doubly robust estimate with implied weights, cross-fitted: a value model corrected by its errors elsewhere.

    DR = (1/n) Σ_i [ v(s_{i,0}) + Σ_t w_{i,t} ρ_{i,t} (r_{i,t} + γ v(s_{i,t+1}) − v(s_{i,t})) ]

with v and the implied weights w of every fold from the episodes of the other folds (Kallus and Uehara, 2020, with
linear models of both). It is right if v is, or if w is: w stands for the ratio of the target's visits to the log's. No
product of ratios over an episode enters, which is what makes trajectory-wise estimates useless on long episodes.

In the same episodes as those it was fitted on, the correction of LSTD is zero: there DR *is* LSTD. What it moves the
value by is therefore what the fit does not carry over to other episodes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sparsetd.evaluation.asks import Ask
from sparsetd.evaluation.estimate import Estimate
from sparsetd.evaluation.linear import LinearValue
from sparsetd.evaluation.moments import Part
from sparsetd.selection.episodes import powers
from sparsetd.system import Array


def robust_sums(others: Sequence[LinearValue], fold: Array, centre: float) -> Ask:
    """Asks for the sums of the powers of the episodes' terms less `centre`, of |wρ| and of (wρ)²."""
    return Ask(_sums, (tuple(others), centre), (fold,))


def _sums(part: Part, fold: Array, others: Sequence[LinearValue], centre: float) -> Array:
    of_row, every, first = fold[part.episodes.of], np.arange(len(part.batch)), part.episodes.first
    thetas = np.stack([model.theta for model in others], axis=1)
    directions = np.stack([model.start @ model.inverse for model in others], axis=1)
    weight = part.batch.ratio * (part.states @ directions)[every, of_row]
    value, change = ((rows @ thetas)[every, of_row] for rows in (part.states, part.changes))
    terms = value[first] + part.episodes.total(weight * (part.batch.reward - change)) - centre
    return np.array([*powers(terms), np.abs(weight).sum(), weight @ weight])


def doubly_robust(sums: Array, centre: float, n_episodes: int, n_rows: int) -> Estimate:
    """DR from the sums over the episodes."""
    carried = sums[4] ** 2 / max(sums[5], np.finfo(float).tiny) / n_rows * n_episodes
    return Estimate.of_powers("DR", centre + sums[0] / n_episodes, n_episodes, sums[:4], carried)
