"""`ValueFunction`: exact answers on a small Markov decision process, whatever the form of the features."""

from __future__ import annotations

import pickle
from typing import Any, Self

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import NotFittedError

from sparsetd.estimators.value_function import ValueFunction
from sparsetd.features import Fourier, Tabular
from sparsetd.transitions import Transitions

GAMMA = 0.9
N, A = 4, 2


class PlainLSTD(BaseEstimator):  # type: ignore[misc]
    """θ = (Σ ρ φ(φ − ψ)ᵀ)⁻¹ Σ ρ φ r, written out: the simplest estimator with the library's interface."""

    def __init__(self, gamma: float = GAMMA, action_values: bool = False) -> None:
        self.gamma = gamma
        self.action_values = action_values

    def fit(self, X: Any, y: Any, X_next: Any, **columns: Any) -> Self:
        self.__dict__.pop("A_", None)
        return self.partial_fit(X, y, X_next, **columns)

    def partial_fit(self, X: Any, y: Any, X_next: Any, *, ratio: Any, discount: Any, start: Any, interest: Any) -> Self:
        assert len(start) == len(interest) == len(y)
        X, X_next = (rows.toarray() if sp.issparse(rows) else rows for rows in (X, X_next))
        rho = np.ones(len(y)) if self.action_values else ratio
        weighted = rho[:, None] * X
        self.A_ = getattr(self, "A_", 0.0) + weighted.T @ (X - discount[:, None] * X_next)
        self.b_ = (self.b_ if np.ndim(self.A_) and hasattr(self, "b_") else 0.0) + weighted.T @ y
        self.coef_, self.intercept_ = np.linalg.pinv(self.A_) @ self.b_, 0.0
        return self

    def predict(self, X: Any) -> Any:
        return X @ self.coef_


def mdp() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """P (A, N, N) with state N − 1 leaving to the end with probability ½, R (A, N), π and μ (N, A)."""
    rng = np.random.default_rng(0)
    P = rng.dirichlet(np.ones(N), (A, N))
    P[:, N - 1] *= 0.5
    return P, rng.normal(size=(A, N)), rng.dirichlet(np.ones(A), N), rng.dirichlet(3 * np.ones(A), N)


def expected_log() -> Transitions:
    """A log whose empirical frequencies *are* the model's: each (s, a, s') in proportion, in multiples of 1/1000."""
    P, R, _, mu = mdp()
    rows = []
    for s in range(N):
        for a in range(A):
            counts = np.rint(1000 * mu[s, a] * np.append(P[a, s], 1 - P[a, s].sum())).astype(int)
            for successor, k in enumerate(counts):
                rows += [(s, a, R[a, s], successor, successor == N)] * k
    s, a, r, successor, ended = (np.array(column) for column in zip(*rows, strict=True))
    return Transitions.from_arrays(
        s, r, successor, action=a, terminated=ended, start=np.ones(len(s), bool), behavior_prob=mu[s, a]
    )


def model_of(t: Transitions) -> tuple[np.ndarray, np.ndarray]:
    """The empirical P (A, N, N) and μ (N, A) of a log."""
    s, a, successor = t.observation[:, 0], t.action, t.next_observation[:, 0]
    counts = np.zeros((A, N, N))
    np.add.at(counts, (a, s, np.minimum(successor, N - 1)), ~t.terminated)
    visits = np.zeros((A, N))
    np.add.at(visits, (a, s), 1.0)
    return counts / visits[:, :, None], (visits / visits.sum(axis=0)).T


def target(s: np.ndarray) -> np.ndarray:
    return mdp()[2][s[:, 0]]


def exact_q(P: np.ndarray, R: np.ndarray, pi: np.ndarray) -> np.ndarray:
    q = np.zeros((N, A))
    for _ in range(2000):
        v = (pi * q).sum(axis=1)
        q = (R + GAMMA * P @ v).T
    return q


@pytest.mark.parametrize("sparse", [False, True])
def test_action_values_are_exact(sparse: bool) -> None:
    t = expected_log()
    vf = ValueFunction(Tabular(N, sparse_output=sparse), PlainLSTD(action_values=True)).fit(t, target)
    q = exact_q(model_of(t)[0], mdp()[1], mdp()[2])
    states = np.arange(N)
    np.testing.assert_allclose(vf.q(states), q, atol=1e-8)
    np.testing.assert_allclose(vf.value(states), (mdp()[2] * q).sum(axis=1), atol=1e-8)
    np.testing.assert_array_equal(vf.act(states), q.argmax(axis=1))
    assert vf.n_actions_ == A
    assert list(vf.feature_names_[:2]) == ["x0_0[a=0]", "x0_1[a=0]"]


def test_state_values_are_exact_off_policy() -> None:
    t = expected_log()
    P, mu = model_of(t)
    t = Transitions.from_arrays(
        t.observation,
        t.reward,
        t.next_observation,
        action=t.action,
        terminated=t.terminated,
        start=t.start,
        behavior_prob=mu[t.observation[:, 0], t.action],
    ).with_target(target)
    vf = ValueFunction(Tabular(N), PlainLSTD()).fit(t)
    expected = (mdp()[2] * exact_q(P, mdp()[1], mdp()[2])).sum(axis=1)
    np.testing.assert_allclose(vf.value(np.arange(N)), expected, atol=1e-8)
    assert vf.n_actions_ is None


def test_partial_fit_in_chunks_equals_fit() -> None:
    t = expected_log()
    whole = ValueFunction(Tabular(N), PlainLSTD(action_values=True)).fit(t, target)
    parts = ValueFunction(Tabular(N), PlainLSTD(action_values=True))
    for i in range(0, len(t), 700):
        parts.partial_fit(t[i : i + 700], target)
    np.testing.assert_allclose(parts.q(np.arange(N)), whole.q(np.arange(N)), rtol=1e-9)


def test_one_observation_gives_one_answer() -> None:
    rng = np.random.default_rng(1)
    s = rng.random((30, 2))
    t = Transitions.from_arrays(s, rng.normal(size=30), rng.random((30, 2)), action=rng.integers(2, size=30))
    half = lambda s: np.full((len(s), 2), 0.5)  # noqa: E731
    vf = ValueFunction(Fourier(1), PlainLSTD(action_values=True)).fit(t, half)
    assert isinstance(vf.act(s[0]), int)
    assert vf.q(s[0]).shape == (2,)
    assert np.ndim(vf.value(s[0])) == 0
    np.testing.assert_allclose(vf.q(s[0]), vf.q(s)[0], rtol=1e-13)
    single = ValueFunction(Tabular(N), PlainLSTD(action_values=True)).fit(expected_log(), target)
    assert isinstance(single.act(2), int)
    assert single.act([2, 3]).shape == (2,)


def test_without_features_the_observation_is_used() -> None:
    t = Transitions.from_arrays(
        [[1.0, 0], [0, 1.0]], [1.0, 2.0], [[0, 1.0], [0, 0]], terminated=[0, 1], names=["a", "b"]
    )
    vf = ValueFunction(None, PlainLSTD()).fit(t)
    np.testing.assert_allclose(vf.value([[1.0, 0.0], [0.0, 1.0]]), [1 + GAMMA * 2, 2.0])
    assert list(vf.feature_names_) == ["a", "b"]


def test_clone_pickle_and_untouched_parameters() -> None:
    estimator = PlainLSTD()
    vf = clone(ValueFunction(Tabular(N), estimator)).fit(expected_log())
    assert not hasattr(estimator, "coef_")
    copy = pickle.loads(pickle.dumps(vf))  # noqa: S301
    np.testing.assert_array_equal(copy.value(np.arange(N)), vf.value(np.arange(N)))
    assert vf.get_params()["estimator__gamma"] == GAMMA


def test_mistakes_are_named() -> None:
    vf = ValueFunction(Tabular(N), PlainLSTD())
    with pytest.raises(NotFittedError):
        vf.value([0])
    vf.fit(expected_log())
    with pytest.raises(ValueError, match="`q` and `act` need action values"):
        vf.act([0])
    with pytest.raises(ValueError, match="must have 1 columns"):
        vf.value([[0, 1]])
    with pytest.raises(ValueError, match="row 1 holds"):
        vf.value([0, np.nan])
