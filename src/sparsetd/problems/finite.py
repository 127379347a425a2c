"""Finite Markov decision processes with exact answers.

With P and r of the target policy π, Φ the features and Ξ = diag(ξ) the weights of the states that the data visit,

    V = (I − γP)⁻¹ r      A = ΦᵀΞ(I − γP)Φ      b = ΦᵀΞr      C = ΦᵀΞΦ

where P keeps only transitions that go on: a step into a terminal state has no future. Every number is computed from the
tables; none is typed in.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sparsetd.problems import sampling
from sparsetd.problems.checks import check_mdp
from sparsetd.system import Array, Batch, Table, directions


@dataclass(frozen=True, eq=False)
class FiniteMDP:
    """Tables of an MDP, features of its states, and the two policies.

    Parameters
    ----------
    P, R : arrays (n_actions, n_states, n_states)
        P[a, s, s'] and the reward R[a, s, s'] of that transition.
    features : array (n_states, d)
        Row φ(s). Rows of terminal states never enter: their discount is 0.
    gamma : float in [0, 1]
        1 is allowed where the target policy terminates.
    start : array (n_states,)
        Distribution of the first state of an episode.
    target, behavior : arrays (n_states, n_actions), optional
        π(a|s), uniform unless given, and μ(a|s), equal to π unless given. `dataclasses.replace` changes them.
    terminal : bool array (n_states,), optional
        Entering such a state ends the episode; the next one starts from `start`.
    weights : array (n_states,), optional
        ξ. Unless given, the stationary distribution of the behaviour, episodes following one another.
    theta0, theta_star : arrays (d,), optional
        The usual first iterate, and the coefficients of V where features and V are made for each other.
    labels : array (n_states,), optional
        Names of the states in the source they came from.
    """

    P: Array
    R: Array
    features: Array
    gamma: float
    start: Array
    target: Array = None  # type: ignore[assignment]  # filled in by check_mdp
    behavior: Array = None  # type: ignore[assignment]
    terminal: Array = None  # type: ignore[assignment]
    weights: Array | None = None
    theta0: Array | None = None
    theta_star: Array | None = None
    labels: Array | None = None

    def __post_init__(self) -> None:
        for name, value in check_mdp(self).items():
            object.__setattr__(self, name, value)

    @classmethod
    def chain(
        cls, P: Array, R: Array, features: Array, gamma: float, start: Array, **fields: Array | None
    ) -> FiniteMDP:
        """A Markov reward process, that is an MDP with one action: P is (n, n) and R is (n, n) or r(s) of length n."""
        P, R = np.asarray(P, dtype=np.float64), np.asarray(R, dtype=np.float64)
        R = np.repeat(R[:, None], len(P), axis=1) if R.ndim == 1 else R
        return cls(P[None], R[None], features, gamma, start, **fields)  # type: ignore[arg-type]

    @property
    def n_states(self) -> int:
        return int(self.P.shape[1])

    @property
    def n_actions(self) -> int:
        return int(self.P.shape[0])

    @property
    def n_features(self) -> int:
        return int(self.features.shape[1])

    @cached_property
    def transition(self) -> Array:
        """P_π(s, s') over transitions that go on: rows and columns of terminal states are zero."""
        return np.einsum("sa,asn->sn", self.target, self.P) * np.outer(~self.terminal, ~self.terminal)

    @cached_property
    def reward(self) -> Array:
        """r_π(s) = Σ_a π(a|s) Σ_s' P(s'|s, a) R(a, s, s'), zero where terminal."""
        return np.einsum("sa,asn,asn->s", self.target, self.P, self.R) * ~self.terminal

    @cached_property
    def xi(self) -> Array:
        """ξ(s): the given weights, or the stationary distribution of the behaviour with restarts."""
        return self.stationary() if self.weights is None else self.weights

    @cached_property
    def value(self) -> Array:
        """V = (I − γP)⁻¹ r."""
        bellman = np.eye(self.n_states) - self.gamma * self.transition
        if self.gamma == 1.0 and np.linalg.cond(bellman) > 1e13:
            raise ValueError("gamma=1 needs a target policy that terminates from every state: pass gamma < 1")
        return np.linalg.solve(bellman, self.reward)

    @cached_property
    def action_value(self) -> Array:
        """Q(s, a) = Σ_s' P(s'|s, a)(R(a, s, s') + γV(s')), zero where terminal."""
        return np.einsum("asn,asn->sa", self.P, self.R + self.gamma * self.value) * ~self.terminal[:, None]

    @cached_property
    def A(self) -> Array:
        return self.system()[0]

    @cached_property
    def b(self) -> Array:
        return self.system()[1]

    @cached_property
    def C(self) -> Array:
        """ΦᵀΞΦ."""
        return (self.features.T * self.xi) @ self.features

    def system(self, lam: float = 0.0) -> tuple[Array, Array]:
        """A = ΦᵀΞ(I − γλP)⁻¹(I − γP)Φ and b = ΦᵀΞ(I − γλP)⁻¹r: what TD(λ) with the state-value trace solves."""
        identity = np.eye(self.n_states)
        traces = np.linalg.solve((identity - self.gamma * lam * self.transition).T, self.features * self.xi[:, None]).T
        return traces @ (self.features - self.gamma * self.transition @ self.features), traces @ self.reward

    def stationary(self) -> Array:
        """ξ = P_μᵀξ, Σξ = 1, for the behaviour chain in which a terminal state is at once replaced by a start."""
        P = np.einsum("sa,asn->sn", self.behavior, self.P) * ~self.terminal[:, None]
        P = P * ~self.terminal + np.outer(P @ self.terminal, self.start)
        balance = np.vstack(
            [P.T - np.diag(~self.terminal), np.ones(self.n_states), np.diag(self.terminal.astype(float))]
        )
        xi, _, rank, _ = np.linalg.lstsq(balance, np.eye(len(balance))[self.n_states], rcond=None)
        if rank < self.n_states:
            raise ValueError("the behaviour has several stationary distributions: pass the one you mean as weights=")
        return np.asarray(np.where(xi > 1e-14, xi, 0.0) / xi[xi > 1e-14].sum())

    def sample(self, n: int, rng: np.random.Generator, *, importance_sampled: bool = False) -> Batch:
        """n independent rows: s ~ ξ, then the target's transition, or the behaviour's with its ratio π/μ."""
        return sampling.independent_rows(self, n, rng, importance_sampled)

    def trajectory(self, n: int, rng: np.random.Generator, *, horizon: int | None = None) -> Batch:
        """n consecutive rows of the behaviour with ratios π/μ; an episode longer than `horizon` is truncated."""
        return sampling.rows(self, *sampling.path(self, n, rng, horizon), importance_sampled=True)

    def expected_system(self, table: Table, *, importance_sampled: bool = False) -> tuple[Array, Array]:
        """(E[A_t], E[b_t]) of any table without traces, over the rows that `sample` draws: what its mean tends to."""
        if table.lam or table.trace == "emphatic":
            raise ValueError("expected_system needs a table without traces: pass lam=0, or use system(lam)")
        batch, probability = sampling.all_rows(self, importance_sampled)
        rows, k, d = directions(table, batch), table.n_blocks, self.n_features
        moments = np.einsum("t,tid,tje->idje", probability, rows, rows, optimize=True)
        A = np.einsum("aibj,idje->adbe", table.M.reshape(k, 3, k, 3), moments, optimize=True).reshape(k * d, k * d)
        b = table.m.reshape(k, 3) @ np.einsum("t,tid->id", probability * batch.reward, rows)
        return A + np.kron(np.diag(table.damping), np.eye(d)), b.ravel()
