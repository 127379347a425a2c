"""LSTD-Q on action blocks: the value of a policy without any propensity.

    Q(s, a) = θ_aᵀ[φ(s) 1]      E[φ(s, a)(φ(s, a) − γφ̄(s'))ᵀ] θ = E[φ(s, a) r]      φ̄(s') = Σ_b π(b|s')φ(s', b)

The action is an input here, so no ratio corrects it. The V-form needs the right behaviour probabilities; this form
needs features that carry Q and not only V. Every block has its own weights, because main effects of the actions alone
fail as soon as an effect depends on the state.

Without logged propensities the value rests on an estimate of them, and LSTD-Q is a second opinion. If the two disagree,
one of their assumptions fails: the classifier misjudges the behaviour, or the features do not carry Q. If they agree
that proves little, since both may miss the same unobserved cause.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.preprocessing import StandardScaler

from sparsetd.evaluation.episodes import Episodes
from sparsetd.evaluation.estimate import Estimate
from sparsetd.evaluation.reading import with_ones
from sparsetd.evaluation.target import Target, probabilities
from sparsetd.features.featurize import fit_features, state_features, successors
from sparsetd.logs import Transitions
from sparsetd.logs.policy import discrete
from sparsetd.selection.moments import lengths, weighted_products
from sparsetd.system import Array

MOST_WEIGHTS = 2_000  # actions times columns: LSTD-Q solves a dense system with so many unknowns
N_FOLDS = 5
RIDGE = 1.0  # as if every block had seen one more row, without effect: settles actions with fewer rows than features


@dataclass(frozen=True, eq=False)
class ActionRows:
    """Rows [φ 1] and [φ' 1] of a log with its actions, and π(·|s), π(·|s') of one policy."""

    phi: Array
    phi_next: Array
    action: Array
    pi: Array
    pi_next: Array
    episodes: Episodes

    @classmethod
    def of(
        cls,
        log: Transitions,
        features: Any,
        gamma: float,
        target: Any,
        behavior: Any = None,
        episodes: Episodes | None = None,
    ) -> ActionRows:
        """The rows of a log with fitted features (None: the observation itself), for a target in any form."""
        pi, pi_next = probabilities(Target.of(target, log), log, behavior)
        states = (log.observation, successors(log))
        phi, phi_next = (with_ones(state_features(features, s, sparse=False)) for s in states)
        whole = Episodes.of_log(log, gamma) if episodes is None else episodes
        return cls(phi, phi_next, discrete(log.action, pi.shape[1]), pi, pi_next, whole)

    def some(self, members: Array) -> ActionRows:
        """The rows of the episodes of a mask."""
        rows, names = self.episodes.rows(members), ("phi", "phi_next", "action", "pi", "pi_next")
        columns = {name: getattr(self, name)[rows] for name in names}
        return replace(self, episodes=self.episodes.some(members), **columns)

    def values(self, theta: Array) -> tuple[Array, Array]:
        """V(s) = Σ_a π(a|s)Q(s, a) of every row, and the TD error r + γV(s') − Q(s, a)."""
        pairs = ((self.phi, self.pi), (self.phi_next, self.pi_next))
        value, ahead = ((phi @ theta.T * pi).sum(axis=1) for phi, pi in pairs)
        taken = np.einsum("td,td->t", self.phi, theta[self.action])
        return value, self.episodes.reward + self.episodes.discount * ahead - taken


@dataclass(frozen=True, eq=False)
class ActionValue:
    """θ (A, d + 1), and the dual A⁻ᵀ(start) of the same shape."""

    theta: Array
    dual: Array
    rows: ActionRows

    @classmethod
    def fit(cls, rows: ActionRows) -> ActionValue:
        """Form the system block row by block row, since the rows of one action touch one block, and solve it."""
        (n, d), k, e = rows.phi.shape, rows.pi.shape[1], rows.episodes
        A, b, prior, discount = np.zeros((k, d, k, d)), np.zeros((k, d)), RIDGE * lengths(rows.phi) ** 2, e.discount
        for a in range(k):
            taken = np.flatnonzero(rows.action == a)
            here, ahead = rows.phi[taken], discount[taken, None] * rows.pi_next[taken]
            change = -ahead[:, :, None] * rows.phi_next[taken, None, :]
            change[:, a] += here
            block = np.zeros((1, d, k * d + 1))
            weighted_products(here, change.reshape(len(taken), k * d), e.reward[taken], None, taken, block)
            A[a], b[a] = block[0, :, :-1].reshape(d, k, d), block[0, :, -1]
            A[a, :, a] += np.diag(prior)
        system = A.reshape(k * d, k * d) / n
        start = np.einsum("ia,id->ad", rows.pi[e.first], rows.phi[e.first]) / len(e)
        theta = np.linalg.solve(system, b.ravel() / n).reshape(start.shape)
        return cls(theta, np.linalg.solve(system.T, start.ravel()).reshape(start.shape), rows)

    def start_value(self) -> tuple[float, Array]:
        """Mean of V(s₀), and its influence per cluster (the clustered sandwich)."""
        rows, e = self.rows, self.rows.episodes
        value, error = rows.values(self.theta)
        scores = error * np.einsum("td,td->t", rows.phi, self.dual[rows.action])
        first = value[e.first]
        each = e.by_cluster(e.total(scores) * len(e) / len(error) + first - first.mean())
        return float(first.mean()), each * len(each) / len(e)


def second_opinion(
    log: Transitions, target: Target, behavior: Any, features: Any, gamma: float, episodes: Episodes, hashes: Array
) -> tuple[Estimate, Estimate] | None:
    """LSTD-Q of the target on action blocks, and the doubly robust estimate with its q.

    None if the target has no probabilities for the successors, or if there are too many weights.
    """
    if target.form is None or isinstance(target.form, np.ndarray):
        return None
    phi = fit_features(log, StandardScaler()) if features is None else features
    rows = ActionRows.of(log, phi, gamma, target, behavior, episodes)
    if rows.phi.shape[1] * rows.pi.shape[1] > MOST_WEIGHTS:
        return None
    own = Estimate.of_influence("LSTD-Q, action blocks", *ActionValue.fit(rows).start_value())
    return own, robust_with_q(rows, episodes.ratio, (hashes % N_FOLDS).astype(np.intp))


def robust_with_q(rows: ActionRows, ratio: Array, fold: Array) -> Estimate:
    """The cross-fitted doubly robust estimate with q (Kallus and Uehara, 2020), from the fold of every episode.

        (1/n) Σ_i [ v(s_{i,0}) + Σ_t w_t ρ_t (r_t + γ v(s_{t+1}) − q(s_t, a_t)) ]        v(s) = Σ_a π(a|s) q(s, a)

    with q by LSTD-Q and the implied weights w by LSTD on the episodes of the other folds. Errors of the estimated
    propensities enter times the errors of q, where the estimate with v has them alone.
    """
    e, terms, d = rows.episodes, np.empty(len(rows.episodes)), rows.phi.shape[1]
    changes, system = rows.phi - e.discount[:, None] * rows.phi_next, np.zeros((int(fold.max()) + 1, d, d + 1))
    weighted_products(rows.phi, changes, e.reward, ratio, fold[e.of], system)
    A = system[:, :, :-1]
    for k in np.unique(fold):
        others = fold != k
        value, error = rows.values(ActionValue.fit(rows.some(others)).theta)
        start = rows.phi[e.first[others]].sum(axis=0)
        direction = np.linalg.lstsq((A.sum(axis=0) - A[k]).T, start, rcond=1e-10)[0]
        terms[~others] = (value[e.first] + e.total(ratio * (rows.phi @ direction) * error))[~others]
    each = e.by_cluster(terms - terms.mean())
    return Estimate.of_influence("DR with q", float(terms.mean()), each * len(each) / len(e))
