"""Finite Markov decision processes with exact answers, and rows that are sampled from them.

With P and r of the target policy π, Φ the features and Ξ = diag(ξ) the weights of the states that the data visit,

    V = (I − γP)⁻¹ r      A = ΦᵀΞ(I − γP)Φ      b = ΦᵀΞr      C = ΦᵀΞΦ

where P keeps only transitions that go on: a step into a terminal state has no future. Every number is computed from the
tables; none is typed in.

Rows are independent or consecutive. Random numbers are drawn once, as arrays, and turned into transitions by inverting
the joint distribution of (a, s').
"""

from __future__ import annotations

from bisect import bisect
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sparsetd.system import Array, Batch


@dataclass(frozen=True, eq=False, repr=False)
class FiniteMDP:
    """Holds the tables of an MDP, the features of its states and its two policies, and computes exact answers.

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

    See also `random_mdp`: a random MDP whose value function is sparse; `star` and `random_walk`: small ones of the
    literature.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsetd.problems import FiniteMDP
    >>> P = np.array([[[0.0, 1.0], [1.0, 0.0]]])
    >>> mdp = FiniteMDP(P, np.ones_like(P), np.eye(2), gamma=0.5, start=np.array([1.0, 0.0]))
    >>> mdp
    FiniteMDP(2 states, 1 actions, 2 features, gamma=0.5)
    >>> mdp.value
    array([2., 2.])
    """

    P: Array
    R: Array
    features: Array
    gamma: float
    start: Array
    target: Array = None  # type: ignore[assignment]  # filled in by checked_fields
    behavior: Array = None  # type: ignore[assignment]
    terminal: Array = None  # type: ignore[assignment]
    weights: Array | None = None
    theta0: Array | None = None
    theta_star: Array | None = None

    def __post_init__(self) -> None:
        for name, value in checked_fields(self).items():
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        counts = f"{self.n_states} states, {self.n_actions} actions, {self.n_features} features"
        return f"FiniteMDP({counts}, gamma={self.gamma:g})"

    @classmethod
    def chain(
        cls, P: Array, R: Array, features: Array, gamma: float, start: Array, **fields: Array | None
    ) -> FiniteMDP:
        """Make a problem without choices, that is an MDP with one action: for checks of state values.

        P is (n, n), and R is (n, n) or r(s) of length n.
        """
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
        """Probabilities of the target policy's transitions that go on.

        P_π(s, s'): rows and columns of terminal states are zero.
        """
        return np.einsum("sa,asn->sn", self.target, self.P) * np.outer(~self.terminal, ~self.terminal)

    @cached_property
    def reward(self) -> Array:
        """Expected reward of every state under the target policy.

        r_π(s) = Σ_a π(a|s) Σ_s' P(s'|s, a) R(a, s, s'), zero where terminal.
        """
        return np.einsum("sa,asn,asn->s", self.target, self.P, self.R) * ~self.terminal

    @cached_property
    def xi(self) -> Array:
        """Weight of every state: as given, or its share in the data of the behaviour with restarts (ξ)."""
        return self.stationary() if self.weights is None else self.weights

    @cached_property
    def value(self) -> Array:
        """True value of every state under the target policy: V = (I − γP)⁻¹ r."""
        bellman = np.eye(self.n_states) - self.gamma * self.transition
        if self.gamma == 1.0 and np.linalg.cond(bellman) > 1e13:
            raise ValueError("gamma=1 needs a target policy that terminates from every state: pass gamma < 1")
        return np.linalg.solve(bellman, self.reward)

    @cached_property
    def action_value(self) -> Array:
        """True value of every action in every state under the target policy.

        Q(s, a) = Σ_s' P(s'|s, a)(R(a, s, s') + γV(s')), zero where terminal.
        """
        return np.einsum("asn,asn->sa", self.P, self.R + self.gamma * self.value) * ~self.terminal[:, None]

    @cached_property
    def A(self) -> Array:
        return self.system()[0]

    @cached_property
    def b(self) -> Array:
        return self.system()[1]

    @cached_property
    def C(self) -> Array:
        """Second moments of the features, weighted by ξ: C = ΦᵀΞΦ."""
        return (self.features.T * self.xi) @ self.features

    def system(self, lam: float = 0.0) -> tuple[Array, Array]:
        """Matrix and vector of the equation that TD(λ) with the state-value trace solves.

        A = ΦᵀΞ(I − γλP)⁻¹(I − γP)Φ and b = ΦᵀΞ(I − γλP)⁻¹r.
        """
        identity = np.eye(self.n_states)
        traces = np.linalg.solve((identity - self.gamma * lam * self.transition).T, self.features * self.xi[:, None]).T
        return traces @ (self.features - self.gamma * self.transition @ self.features), traces @ self.reward

    def stationary(self) -> Array:
        """Share of every state in an endless run of the behaviour, whose episodes follow one another.

        ξ = P_μᵀξ, Σξ = 1, for the chain in which a start replaces a terminal state at once.
        """
        P = np.einsum("sa,asn->sn", self.behavior, self.P) * ~self.terminal[:, None]
        P = P * ~self.terminal + np.outer(P @ self.terminal, self.start)
        balance = np.vstack(
            [P.T - np.diag(~self.terminal), np.ones(self.n_states), np.diag(self.terminal.astype(float))]
        )
        xi, _, rank, _ = np.linalg.lstsq(balance, np.eye(len(balance))[self.n_states], rcond=None)
        if rank < self.n_states:
            raise ValueError("the behaviour has several stationary distributions: pass the one you mean as weights=")
        return np.asarray(np.where(xi > 1e-14, xi, 0.0) / xi[xi > 1e-14].sum())

    def sample(self, n: int, rng: int | np.random.Generator, *, importance_sampled: bool = False) -> Batch:
        """Draw n independent rows: s ~ ξ, then the target's transition, or the behaviour's with its ratio π/μ."""
        _check_count(n)
        cumulative = cumulative_outcomes(self, self.behavior if importance_sampled else self.target)
        rng = np.random.default_rng(rng)
        states, outcomes = rng.choice(self.n_states, size=n, p=self.xi), np.empty(n, dtype=np.intp)
        uniform = rng.random(n)
        for s in np.unique(states):
            here = states == s
            outcomes[here] = np.searchsorted(cumulative[s], uniform[here], side="right")
        return transition_batch(self, states, outcomes, np.ones(n, dtype=bool), importance_sampled)

    def trajectory(self, n: int, rng: int | np.random.Generator, *, horizon: int | None = None) -> Batch:
        """Draw n consecutive rows of the behaviour with ratios π/μ; an episode longer than `horizon` is truncated."""
        path = behavior_path(self, n, np.random.default_rng(rng), horizon)
        return transition_batch(self, *path, importance_sampled=True)


def checked_fields(mdp: FiniteMDP) -> dict[str, Array | float]:
    """The fields of an MDP as float64 arrays with defaults filled in; a ValueError names the first offender."""
    P = _finite("P", mdp.P)
    if P.ndim != 3 or P.shape[1] != P.shape[2]:
        raise ValueError(f"P has shape {P.shape}: pass (n_actions, n_states, n_states), or use FiniteMDP.chain")
    n_actions, n_states, _ = P.shape
    gamma = float(mdp.gamma)
    if not 0.0 <= gamma <= 1.0:
        raise ValueError(f"gamma={gamma} is outside [0, 1]")
    R, features = _finite("R", mdp.R, P.shape), _finite("features", mdp.features)
    if features.ndim != 2 or len(features) != n_states:
        raise ValueError(f"features has shape {features.shape}: pass one row for each of the {n_states} states")
    terminal = np.zeros(n_states) if mdp.terminal is None else mdp.terminal
    terminal = _finite("terminal", terminal, (n_states,)).astype(bool)
    uniform = np.full((n_states, n_actions), 1.0 / n_actions)
    target = _finite("target", uniform if mdp.target is None else mdp.target, uniform.shape)
    behavior = _finite("behavior", target if mdp.behavior is None else mdp.behavior, uniform.shape)
    fields: dict[str, Array | float] = {"P": P, "R": R, "features": features, "gamma": gamma}
    fields |= {"target": target, "behavior": behavior, "terminal": terminal}
    tables = {"target": target, "behavior": behavior, **{f"P[{action}]": P[action] for action in range(n_actions)}}
    # Rows of terminal states never enter, so they may hold anything.
    distributions = {name: np.where(terminal[:, None], 1.0 / rows.shape[1], rows) for name, rows in tables.items()}
    for name, values in {"start": mdp.start, "weights": mdp.weights}.items():
        if values is not None:
            fields[name] = _finite(name, values, (n_states,))
            distributions[name] = np.where(terminal, 0.0, fields[name])[None]
    for name, rows in distributions.items():
        bad = np.flatnonzero((rows < 0).any(axis=1) | (np.abs(rows.sum(axis=1) - 1.0) > 1e-8))
        if len(bad):
            raise ValueError(f"{name} is not a distribution in row {bad[0]}: pass non-negative numbers whose sum is 1")
    # Where μ(a|s) = 0 < π(a|s), no ratio corrects for the difference.
    never = np.argwhere((target > 0) & (behavior == 0) & ~terminal[:, None])
    if len(never):
        state, action = never[0]
        what = f"behavior never takes action {action} in state {state} but target does"
        raise ValueError(f"{what}: give it a positive probability")
    return fields


def _finite(name: str, values: Array, shape: tuple[int, ...] | None = None) -> Array:
    array = np.asarray(values, dtype=np.float64)
    if shape is not None and array.shape != shape:
        raise ValueError(f"{name} has shape {array.shape}: pass shape {shape}")
    bad = np.argwhere(~np.isfinite(array))
    if len(bad):
        raise ValueError(f"{name} holds NaN or infinity, first at index {tuple(bad[0].tolist())}: pass finite numbers")
    return array


def behavior_path(mdp: FiniteMDP, n: int, rng: np.random.Generator, horizon: int | None) -> tuple[Array, Array, Array]:
    """States, outcomes and starts of one run of the behaviour; termination and truncation both restart it."""
    _check_count(n)
    cumulative = cumulative_outcomes(mdp, mdp.behavior).tolist()
    first, terminal = np.cumsum(mdp.start).tolist(), mdp.terminal.tolist()
    first[-1] = 1.0
    states, outcomes, starts = [], [], []
    age, s = 0, -1  # s = −1: an episode begins
    for begin, step in rng.random((n, 2)).tolist():
        starts.append(s < 0)
        s = bisect(first, begin) if s < 0 else s
        outcome = bisect(cumulative[s], step)
        states.append(s)
        outcomes.append(outcome)
        s, age = outcome % mdp.n_states, age + 1
        if terminal[s] or age == horizon:
            age, s = 0, -1
    return np.array(states), np.array(outcomes), np.array(starts)


def cumulative_outcomes(mdp: FiniteMDP, policy: Array) -> Array:
    """Row s: the cumulative probabilities of the outcomes (a, s'), numbered a · n_states + s'."""
    joint = np.einsum("sa,asn->san", policy, mdp.P).reshape(mdp.n_states, -1)
    cumulative = np.cumsum(joint, axis=1)
    total = cumulative[:, -1:]
    return np.asarray(cumulative / np.where(total > 0, total, 1.0))


def transition_batch(mdp: FiniteMDP, states: Array, outcomes: Array, start: Array, importance_sampled: bool) -> Batch:
    """The batch of the transitions s → (a, s')."""
    actions, following = np.divmod(outcomes, mdp.n_states)
    n = len(states)
    ratio = mdp.target[states, actions] / mdp.behavior[states, actions] if importance_sampled else np.ones(n)
    discount = np.where(mdp.terminal[following], 0.0, mdp.gamma)
    phi, phi_next = mdp.features[states], mdp.features[following]
    return Batch(phi, phi_next, mdp.R[actions, states, following], discount, ratio, start, np.ones(n))


def _check_count(n: int) -> None:
    if n < 1:
        raise ValueError(f"n={n} rows were asked for: pass n >= 1")
