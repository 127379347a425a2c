"""The doubly robust estimate with implied weights, cross-fitted: a value model corrected by its errors elsewhere.

    DR = (1/n) Σ_i [ v(s_{i,0}) + Σ_t w_{i,t} ρ_{i,t} (r_{i,t} + γ v(s_{i,t+1}) − v(s_{i,t})) ]

with v and the implied weights w of every fold from the episodes of the other folds (Kallus and Uehara, 2020, with
linear models of both). It is right if v is, or if w is: w stands for the ratio of the target's visits to the log's. No
product of ratios over an episode enters, which is what makes trajectory-wise estimates useless on long episodes.

In the same episodes as those it was fitted on, the correction of LSTD is zero: there DR *is* LSTD. What it moves the
value by is therefore what the fit does not carry over to other episodes.
"""

from __future__ import annotations

import numpy as np

from sparsetd.evaluation.estimate import Estimate
from sparsetd.evaluation.linear import LinearValue
from sparsetd.evaluation.moments import Moments, Part
from sparsetd.system import Array


def doubly_robust(part: Part, folds: Moments, fold: Array) -> Estimate:
    """DR from the sums of the folds; `fold` holds the fold of every episode."""
    terms, weighed = np.empty(len(part.episodes)), np.empty(len(part.batch))
    for k in range(len(folds.n_rows)):
        others = LinearValue.solve(folds.total(np.arange(len(folds.n_rows)) != k))
        weight = others.n_episodes * others.weights(part) * part.batch.ratio
        start = others.predict(part.batch.phi[part.episodes.first])
        held = fold == k
        terms[held] = (start + part.episodes.total(weight * others.errors(part)))[held]
        weighed[held[part.episodes.of]] = weight[held[part.episodes.of]]
    mean, size = float(terms.mean()), np.abs(weighed)
    carried = float(size.sum()) ** 2 / max(float(size @ size), np.finfo(float).tiny) / len(size) * len(terms)
    return Estimate.of_influence("DR", mean, terms - mean, carried)
