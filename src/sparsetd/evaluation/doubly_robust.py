"""Doubly robust estimates: a value model corrected by importance-weighted residuals.

    V_t = v(s_t) + ρ_t (r_t + γ V_{t+1} − q(s_t, a_t))        DR = (1/n) Σ_i V_{i,0}

Unrolled, DR = v(s_0) + Σ_t γᵗ W_t (r_t + γ v(s_{t+1}) − q(s_t, a_t)): the model's value plus its weighted TD errors.
It is unbiased whatever v and q are, as long as E_π[q(s, a)] = v(s); a good model only makes it less noisy. With a
state-value model alone, q(s, a) = v(s) satisfies that. The weighted form normalises W_t at every age, as WPDIS does;
with v = 0 the two are PDIS and WPDIS.

The model must not have been fitted on the episodes it corrects, or the correction is too small: pass cross-fitted
values.
"""

from __future__ import annotations

import numpy as np

from sparsetd.evaluation.episodes import Episodes
from sparsetd.evaluation.estimate import Estimate
from sparsetd.evaluation.importance import mean_estimate, normalised_sum, weighted_totals
from sparsetd.system import Array


def doubly_robust(episodes: Episodes, value: Array, value_next: Array, q: Array | None = None) -> Estimate:
    """DR from v(s_t), v(s_{t+1}) (0 after a terminated row) and q(s_t, a_t) of every row; q = v(s) by default."""
    error = _td_error(episodes, value, value_next, q)
    terms = np.asarray(value)[episodes.first] + weighted_totals(episodes, error)
    return mean_estimate("DR", terms, episodes.ess)


def weighted_doubly_robust(episodes: Episodes, value: Array, value_next: Array, q: Array | None = None) -> Estimate:
    """WDR: the same with weights normalised at every age; biased, consistent, far less noisy on long episodes.

    At ages where no weight is left the model stands uncorrected.
    """
    start = np.asarray(value)[episodes.first]
    correction, influence, _ = normalised_sum(episodes, _td_error(episodes, value, value_next, q))
    total = float(start.mean()) + correction
    return Estimate.of_influence("WDR", total, influence + start - start.mean(), episodes.ess)


def _td_error(episodes: Episodes, value: Array, value_next: Array, q: Array | None) -> Array:
    n = len(episodes.reward)
    for name, column in (("value", value), ("value_next", value_next), ("q", value if q is None else q)):
        if np.shape(column) != (n,) or not np.isfinite(column).all():
            raise ValueError(f"`{name}` must hold {n} finite numbers, one per row.")
    return np.asarray(episodes.reward + episodes.gamma * value_next - (value if q is None else q))
