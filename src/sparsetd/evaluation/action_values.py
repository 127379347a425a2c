"""LSTD-Q on action blocks: the value of a policy without any propensity, and the step from which bounds are built.

    Q(s, a) = θ_aᵀ[φ(s) 1]      E[φ(s, a)(φ(s, a) − γW φ̄(s'))ᵀ] θ = E[φ(s, a)(W r + o)]      φ̄(s') = Σ_b π(b|s')φ(s', b)

with W = 1 and o = 0 for the value itself. The action is an input here, so no ratio corrects it: what the V-form asks of
the behaviour probabilities, this form asks of the features, which must carry Q and not only V. Every block has its own
weights, because main effects of the actions alone fail as soon as an effect depends on the state.

Without logged propensities the value rests on an estimate of them, and LSTD-Q is a second opinion. Where the two
disagree, one of their assumptions fails: the classifier misjudges the behaviour, or the features do not carry Q. That
they agree proves little, since both may miss the same unobserved cause.
"""

from __future__ import annotations

from dataclasses import dataclass
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
    reward: Array
    discount: Array
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
        alive = successors(log)
        pi, pi_next = probabilities(Target.of(target, log), log, behavior)
        phi, phi_next = (with_ones(state_features(features, s, sparse=False)) for s in (log.observation, alive))
        discount = np.where(log.terminated, 0.0, gamma)
        action = discrete(log.action, pi.shape[1])
        whole = Episodes.of_log(log, gamma) if episodes is None else episodes
        return cls(phi, phi_next, action, pi, pi_next, log.reward, discount, whole)

    def some(self, members: Array) -> ActionRows:
        """The rows of the episodes of a mask."""
        rows = members[self.episodes.of]
        names = ("phi", "phi_next", "action", "pi", "pi_next", "reward", "discount")
        return ActionRows(**{name: getattr(self, name)[rows] for name in names}, episodes=self.episodes.only(members))


@dataclass(frozen=True, eq=False)
class ActionValue:
    """θ (A, d + 1), the dual A⁻ᵀ(start) of the same shape, and the TD error of every row."""

    theta: Array
    dual: Array
    error: Array
    rows: ActionRows

    @classmethod
    def fit(cls, rows: ActionRows, weight: Array | None = None, offset: Array | float = 0.0) -> ActionValue:
        """Solve for θ with W = `weight` (1 by default) and o = `offset`."""
        w = np.ones(len(rows.reward)) if weight is None else weight
        A, b = _system(rows, w, w * rows.reward + offset)
        first = rows.episodes.first
        start = np.einsum("ia,id->ad", rows.pi[first], rows.phi[first]) / len(first)
        theta = np.linalg.solve(A, b).reshape(start.shape)
        dual = np.linalg.solve(A.T, start.ravel()).reshape(start.shape)
        ahead = ((rows.phi_next @ theta.T) * rows.pi_next).sum(axis=1)
        taken = np.einsum("td,td->t", rows.phi, theta[rows.action])
        return cls(theta, dual, w * (rows.reward + rows.discount * ahead) + offset - taken, rows)

    def start_value(self) -> tuple[float, Array]:
        """Mean of V(s₀) = Σ_a π(a|s₀)Q(s₀, a), and its influence per cluster (the clustered sandwich)."""
        rows, episodes = self.rows, self.rows.episodes
        first = episodes.first
        values = ((rows.phi[first] @ self.theta.T) * rows.pi[first]).sum(axis=1)
        scores = self.error * np.einsum("td,td->t", rows.phi, self.dual[rows.action])
        moved = episodes.total(scores) * len(episodes) / len(rows.reward)
        each = episodes.by_cluster(moved + values - values.mean())
        return float(values.mean()), each * len(each) / len(episodes)

    def estimate(self, name: str = "LSTD-Q, action blocks") -> Estimate:
        value, influence = self.start_value()
        return Estimate.of_influence(name, value, influence)


def _system(rows: ActionRows, weight: Array, reward: Array) -> tuple[Array, Array]:
    """A and b, block row by block row: the rows of one action touch one block of φ(s, a)."""
    n, d = rows.phi.shape
    k = rows.pi.shape[1]
    A, b, prior = np.zeros((k, d, k, d)), np.zeros((k, d)), RIDGE * lengths(rows.phi) ** 2
    for a in range(k):
        taken = np.flatnonzero(rows.action == a)
        here, discount = rows.phi[taken], (rows.discount * weight)[taken, None]
        change = -(discount * rows.pi_next[taken])[:, :, None] * rows.phi_next[taken, None, :]
        change[:, a] += here
        block = np.zeros((1, d, k * d + 1))
        weighted_products(here, change.reshape(len(taken), k * d), reward[taken], None, taken, block)
        A[a], b[a] = block[0, :, :-1].reshape(d, k, d), block[0, :, -1]
        A[a, :, a] += np.diag(prior)
    return A.reshape(k * d, k * d) / n, b.ravel() / n


def second_opinion(
    log: Transitions, target: Target, behavior: Any, features: Any, gamma: float, episodes: Episodes, hashes: Array
) -> tuple[Estimate, Estimate] | None:
    """LSTD-Q of the target on action blocks, and the doubly robust estimate with its q.

    None if the target cannot say what it does in successors, or if there are too many weights.
    """
    if target.form is None or isinstance(target.form, np.ndarray):
        return None
    phi = fit_features(log, StandardScaler()) if features is None else features
    rows = ActionRows.of(log, phi, gamma, target, behavior, episodes)
    if rows.phi.shape[1] * rows.pi.shape[1] > MOST_WEIGHTS:
        return None
    return ActionValue.fit(rows).estimate(), robust_with_q(rows, episodes.ratio, (hashes % N_FOLDS).astype(np.intp))


def robust_with_q(rows: ActionRows, ratio: Array, fold: Array) -> Estimate:
    """The cross-fitted doubly robust estimate with q (Kallus and Uehara, 2020), from the fold of every episode.

        (1/n) Σ_i [ v(s_{i,0}) + Σ_t w_t ρ_t (r_t + γ v(s_{t+1}) − q(s_t, a_t)) ]        v(s) = Σ_a π(a|s) q(s, a)

    with q by LSTD-Q and the implied weights w by LSTD on the episodes of the other folds. Errors of the estimated
    propensities enter times the errors of q, where the estimate with v has them alone.
    """
    e, terms, d = rows.episodes, np.empty(len(rows.episodes)), rows.phi.shape[1]
    changes, system = rows.phi - rows.discount[:, None] * rows.phi_next, np.zeros((int(fold.max()) + 1, d, d + 1))
    weighted_products(rows.phi, changes, rows.reward, ratio, fold[e.of], system)
    A = system[:, :, :-1]
    for k in np.unique(fold):
        others = fold != k
        theta, start = ActionValue.fit(rows.some(others)).theta, rows.phi[e.first[others]].sum(axis=0)
        direction = np.linalg.lstsq((A.sum(axis=0) - A[k]).T, start, rcond=1e-10)[0]
        value, ahead = (
            (f @ theta.T * pi).sum(axis=1) for f, pi in ((rows.phi, rows.pi), (rows.phi_next, rows.pi_next))
        )
        taken = np.einsum("td,td->t", rows.phi, theta[rows.action])
        error = ratio * (rows.phi @ direction) * (rows.reward + rows.discount * ahead - taken)
        terms[~others] = (value[e.first] + e.total(error))[~others]
    each = e.by_cluster(terms - terms.mean())
    return Estimate.of_influence("DR with q", float(terms.mean()), each * len(each) / len(e))
