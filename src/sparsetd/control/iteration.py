"""Least-squares policy iteration (LSPI) with any estimator of linear values.

    evaluate: θ_k = fit on φ(s, a), r, φ̄(s') = Σ_a π_k(a|s') φ(s', a)      improve: π_{k+1} greedy in θ_kᵀφ(s, ·)

Approximate policy iteration need not converge: it may settle, cycle between policies, or wander. Which of these
happened is part of the answer. Two policies count as equal when they choose the same actions in every sampled
successor state, which is all that the next evaluation can see of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone

from sparsetd._tools.frames import Framed, frame
from sparsetd._tools.lazy_names import renamed
from sparsetd.control.policies import Rule, ValuePolicy, uniform
from sparsetd.estimators import LSTD
from sparsetd.features.featurize import featurize, state_features
from sparsetd.logs import Policy, Transitions
from sparsetd.logs.partition import fingerprints
from sparsetd.plots import draw
from sparsetd.system import Array

RIDGE = 1e-4
# Fresh data for iteration k, collected in view of the current policy.
Sampler = Callable[[int, Policy], Transitions]


@dataclass(frozen=True)
class LinearValues:
    """Action values that are linear in features: observations in, one value for each action out.

    q(s, ·) = θ_a ᵀ φ(s) + intercept: observations (n, p) → action values (n, A).

    Examples
    --------
    >>> import numpy as np
    >>> from sparsetd import LSTD, read
    >>> from sparsetd.control import policy_iteration
    >>> rows = {'action': [0, 1, 1, 0], 'reward': [0.0, 1.0, 0.0, 0.0], 'terminated': [0, 1, 0, 1]}
    >>> rows['observation'] = np.eye(2)[[0, 1, 0, 1]]
    >>> rows['next_observation'] = np.eye(2)[[1, 1, 0, 0]]
    >>> found = policy_iteration(LSTD(alpha=1e-6), read(rows), None, gamma=0.9)
    >>> found.policy.values(np.eye(2)).shape
    (2, 2)
    """

    features: Any
    coef: Array
    intercept: float = 0.0
    feature_names_in_: tuple[str, ...] | None = None
    learnt_from: Array | None = None

    def __call__(self, observation: Array) -> Array:
        phi = state_features(self.features, observation if sp.issparse(observation) else np.atleast_2d(observation))
        return np.asarray(phi @ self.coef.T) + self.intercept


@dataclass(frozen=True)
class Iteration:
    """One evaluation: its weights, how far they and the policy moved, and the status that the estimator reports.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsetd import LSTD, read
    >>> from sparsetd.control import policy_iteration
    >>> rows = {'action': [0, 1, 1, 0], 'reward': [0.0, 1.0, 0.0, 0.0], 'terminated': [0, 1, 0, 1]}
    >>> rows['observation'] = np.eye(2)[[0, 1, 0, 1]]
    >>> rows['next_observation'] = np.eye(2)[[1, 1, 0, 0]]
    >>> found = policy_iteration(LSTD(alpha=1e-6), read(rows), None, gamma=0.9)
    >>> type(found.iterations[0]).__name__
    'Iteration'
    """

    values: LinearValues
    change: float
    switched: float
    n_nonzero: int
    status: str
    seconds: float


@dataclass
class PolicyIteration(Framed):
    """All iterations, and how they ended: "converged", "cycled" (with its period), "diverged" or "finished".

    Examples
    --------
    >>> import numpy as np
    >>> from sparsetd import LSTD, read
    >>> from sparsetd.control import policy_iteration
    >>> rows = {'action': [0, 1, 1, 0], 'reward': [0.0, 1.0, 0.0, 0.0], 'terminated': [0, 1, 0, 1]}
    >>> rows['observation'] = np.eye(2)[[0, 1, 0, 1]]
    >>> rows['next_observation'] = np.eye(2)[[1, 1, 0, 0]]
    >>> found = policy_iteration(LSTD(alpha=1e-6), read(rows), None, gamma=0.9)
    >>> found.iterations[-1].switched
    0.0
    """

    iterations: list[Iteration] = field(default_factory=list)
    status: str = "finished"
    period: int = 0

    def __repr__(self) -> str:
        period = f" with period {self.period}" if self.period else ""
        return f"PolicyIteration({self.status}{period} after {len(self.iterations)} evaluations)"

    def to_frame(self) -> Any:
        """One row per evaluation: how far weights and policy moved, as a pandas (or polars) frame."""
        names = ("change", "switched", "n_nonzero", "status", "seconds")
        return frame({name: [getattr(i, name) for i in self.iterations] for name in names})

    def plot(self, ax: Any = None) -> Any:
        """The share of sampled states in which each improvement chose another action; returns the axes."""
        ax = draw.axes(ax)
        ax.plot(range(1, len(self.iterations) + 1), [i.switched for i in self.iterations], "o-", color=draw.OURS)
        ax.set(xlabel="evaluation", ylabel="share of states with another action")
        return ax

    @property
    def policy(self) -> ValuePolicy:
        """Greedy in the last values. To choose among the iterates one would have to know how good they are."""
        return ValuePolicy(self.iterations[-1].values, Rule())

    def averaged(self, last: int) -> ValuePolicy:
        """Greedy in the mean values of the last few iterations: a remedy for cycles."""
        kept = [i.values for i in self.iterations[-last:]]
        return ValuePolicy(replace(kept[-1], coef=np.mean([v.coef for v in kept], axis=0)), Rule())


@renamed
def policy_iteration(
    evaluator: Any,
    transitions: Transitions | Sampler,
    features: Any,
    gamma: float,
    *,
    n_actions: int | None = None,
    n_iter: int = 12,
    rule: Rule | None = None,
    initial: Policy | None = None,
    tol: float = 1e-8,
    warm_start: bool = False,
) -> PolicyIteration:
    """Alternate evaluation and greedy improvement until the policy repeats or `n_iter` evaluations are done.

    Parameters
    ----------
    evaluator : estimator or None
        Cloned for each policy. Rows are stacked action blocks φ(s, a) of length n_actions · d. None is LSTD with a
        ridge of 10⁻⁴ of the features' mean square: without a ridge, a few chance rows would decide which action is
        greedy.
    transitions : Transitions, or a function (k, policy) → Transitions
        One fixed sample, or fresh ones for every policy (then only equal weights count as convergence).
    features : fitted transformer of states
    n_actions : int, optional
        The largest logged action plus one by default; needed where the samples are fresh.
    rule : how a policy follows from values; greedy by default
    initial : the policy evaluated first; uniform by default
    tol : relative change of the weights that counts as none
    warm_start : start each evaluation from the last weights (for estimators with `coef_init`)

    Examples
    --------
    >>> import numpy as np
    >>> from sparsetd import LSTD, read
    >>> from sparsetd.control import policy_iteration
    >>> rows = {'action': [0, 1, 1, 0], 'reward': [0.0, 1.0, 0.0, 0.0], 'terminated': [0, 1, 0, 1]}
    >>> rows['observation'] = np.eye(2)[[0, 1, 0, 1]]
    >>> rows['next_observation'] = np.eye(2)[[1, 1, 0, 0]]
    >>> found = policy_iteration(LSTD(alpha=1e-6), read(rows), None, gamma=0.9)
    >>> found.status
    'converged'
    """
    if n_actions is None:
        if not isinstance(transitions, Transitions) or transitions.action is None:
            raise ValueError("`n_actions` is not known: pass the number of actions.")
        n_actions = int(transitions.action.max()) + 1
    result, seen = PolicyIteration(), list[bytes]()
    policy: Policy = initial or uniform(n_actions)
    previous: Array | None = None
    own = fingerprints(transitions) if isinstance(transitions, Transitions) else None
    for k in range(n_iter):
        data = transitions if isinstance(transitions, Transitions) else transitions(k, policy)
        began = time.perf_counter()
        batch = featurize(data, features, gamma, policy)
        if evaluator is None:
            square: Any = batch.phi * batch.phi  # entry by entry, dense or sparse
            model: Any = LSTD(gamma=gamma, alpha=RIDGE * float(square.mean()))
        else:
            model = clone(evaluator)
        if warm_start and previous is not None:
            model.set_params(coef_init=previous)
        # The action of an action value is given, so that a ratio corrects the trace of GQ(λ) and its kin only.
        ratio = batch.ratio if model.triple()[0].trace == "action" else None
        model.fit(batch.phi, batch.reward, batch.phi_next, ratio=ratio, discount=batch.discount, start=batch.start)
        values = LinearValues(features, model.coef_.reshape(n_actions, -1), float(model.intercept_), data.names, own)
        policy = ValuePolicy(values, rule or Rule())
        result.iterations.append(_record(values, previous, model, time.perf_counter() - began, seen, data))
        previous = model.coef_
        if not np.isfinite(model.coef_).all():
            result.status = "diverged"
            return result
        if result.iterations[-1].change <= tol:
            result.status = "converged"
            return result
        if isinstance(transitions, Transitions) and _repeats(result, seen):
            return result
    return result


def _record(
    values: LinearValues, previous: Array | None, model: Any, seconds: float, seen: list[bytes], data: Transitions
) -> Iteration:
    """Describe an evaluation, and append the actions it chooses in the sampled successors to `seen`."""
    actions = values(data.next_observation[~data.terminated]).argmax(axis=1).astype(np.int16)
    last = np.frombuffer(seen[-1], dtype=np.int16) if seen else None
    switched = 1.0 if last is None or len(last) != len(actions) else float(np.mean(last != actions))
    seen.append(actions.tobytes())
    coef = values.coef.ravel()
    scale = float(np.linalg.norm(coef)) or 1.0
    change = np.inf if previous is None else float(np.linalg.norm(coef - previous)) / scale
    return Iteration(values, change, switched, int(np.count_nonzero(coef)), str(model.status_), seconds)


def _repeats(result: PolicyIteration, seen: list[bytes]) -> bool:
    """Whether the newest policy was seen before; a repetition after one step is convergence, after more a cycle."""
    earlier = [k for k, actions in enumerate(seen[:-1]) if actions == seen[-1]]
    if not earlier:
        return False
    result.period = len(seen) - 1 - earlier[-1]
    result.status = "converged" if result.period == 1 else "cycled"
    return True
