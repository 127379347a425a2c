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

from sparsetd.evaluation.estimate import Estimate
from sparsetd.evaluation.linear import LinearValue
from sparsetd.evaluation.moments import Ask, Part
from sparsetd.system import Array


def robust_terms(others: Sequence[LinearValue], fold: Array) -> Ask:
    """Asks for the term of every episode, with Σ|wρ| and Σ(wρ)² over its rows, from the fit without its fold."""
    return Ask(_terms, (tuple(others),), (fold,), joined=True)


def _terms(part: Part, fold: Array, others: Sequence[LinearValue]) -> tuple[Array, Array, Array]:
    terms, size, squares = np.empty((3, len(part.episodes)))
    for k in np.unique(fold):
        weight = others[k].n_episodes * others[k].weights(part) * part.batch.ratio
        start, held = others[k].predict(part.batch.phi[part.episodes.first]), fold == k
        terms[held] = (start + part.episodes.total(weight * others[k].errors(part)))[held]
        size[held], squares[held] = part.episodes.total(np.abs(weight))[held], part.episodes.total(weight**2)[held]
    return terms, size, squares


def doubly_robust(terms: Array, size: Array, squares: Array, n_rows: int) -> Estimate:
    """DR from the terms of the episodes."""
    mean = float(terms.mean())
    carried = float(size.sum()) ** 2 / max(float(squares.sum()), np.finfo(float).tiny) / n_rows * len(terms)
    return Estimate.of_influence("DR", mean, terms - mean, carried)
