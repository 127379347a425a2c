"""Who else could answer from raw columns: a kernel basis chosen by a two-standard-error rule, and boosted trees.

**Kernel.** Ranks become normal scores; a Gaussian kernel on them, with 300 landmarks, gives principal components; bases
of 0, 10, 20, 40, 80 or 150 components are compared by the held-out projected Bellman error against the largest, and the
smallest that is not worse than the best by two standard errors over ten folds gives the value.

**Boosting.** Fitted Q evaluation: r + γ Σ_a π(a|s')Q(s', a) is regressed on s and a by gradient-boosted trees, again
and again. It needs no propensities, and much time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.preprocessing import QuantileTransformer

from sparsetd.logs import Transitions

Array = np.ndarray[Any, Any]
LEVELS = (0, 10, 20, 40, 80, 150)
N_FOLDS, N_LANDMARKS, N_SAMPLE = 10, 300, 2_000


def kernel_value(log: Transitions, gamma: float, ratio: Array) -> float:
    """The value with kernel components of the scores."""
    basis = _kernel(log.observation)
    now, after = basis(log.observation), basis(log.next_observation)
    after[log.terminated] = 0.0
    weighted, change, episode = now * ratio[:, None], now - gamma * after, np.cumsum(log.start) - 1
    fold = np.random.default_rng(0).permutation(episode[-1] + 1) % N_FOLDS
    first = now.shape[1] - max(LEVELS)
    sizes = [first + level for level in LEVELS if (first + level) * 10 <= len(now)] or [first]
    A = [weighted[fold[episode] == k].T @ change[fold[episode] == k] for k in range(N_FOLDS)]
    b = [weighted[fold[episode] == k].T @ log.reward[fold[episode] == k] for k in range(N_FOLDS)]
    metric = np.linalg.pinv(now[:, : sizes[-1]].T @ now[:, : sizes[-1]] / len(now), rcond=1e-6, hermitian=True)
    losses = np.empty((len(sizes), N_FOLDS))
    for k in range(N_FOLDS):
        rows = fold[episode] == k
        for i, size in enumerate(sizes):
            theta = _solved(sum(A) - A[k], sum(b) - b[k], size)
            error = log.reward[rows] - change[rows][:, :size] @ theta
            each = np.add.reduceat(weighted[rows][:, : sizes[-1]] * error[:, None], np.flatnonzero(log.start[rows]))
            total = each.sum(axis=0)
            own = np.einsum("ij,jk,ik->", each, metric, each)
            losses[i, k] = (total @ metric @ total - own) / len(each) ** 2
    best = int(np.argmin(losses.mean(axis=1)))
    excess = losses - losses[best]
    near = excess.mean(axis=1) <= 2 * excess.std(axis=1, ddof=1) / np.sqrt(N_FOLDS)
    size = sizes[int(np.argmax(near))]
    return float(now[log.start][:, :size].mean(axis=0) @ _solved(sum(A), sum(b), size))


def boosting_value(log: Transitions, gamma: float, policy: Callable[[Array], Array], rounds: int = 15) -> float:
    """Fitted Q evaluation of a policy, `rounds` regressions long."""
    inputs = np.column_stack([log.observation, log.action])
    following, ahead = policy(log.next_observation), np.zeros(len(log))
    for _ in range(rounds):
        model = HistGradientBoostingRegressor(max_iter=60, random_state=0)
        model.fit(inputs, log.reward + gamma * ahead)
        ahead = np.where(log.terminated, 0.0, _expected(model, log.next_observation, following))
    first = log.observation[log.start]
    return float(_expected(model, first, policy(first)).mean())


def _expected(model: Any, states: Array, chance: Array) -> Array:
    """Σ_a π(a|s)Q(s, a) of every state."""
    every = range(chance.shape[1])
    values = [model.predict(np.column_stack([states, np.full(len(states), a)])) for a in every]
    return np.asarray((np.column_stack(values) * chance).sum(axis=1))


def _solved(A: Array, b: Array, size: int) -> Array:
    return np.asarray(np.linalg.lstsq(A[:size, :size], b[:size], rcond=1e-10)[0])


def _kernel(X: Array) -> Any:
    """[1, scores, components], ordered: a smaller basis is a slice of a larger one."""
    rng = np.random.default_rng(0)
    scorer = QuantileTransformer(n_quantiles=min(1000, len(X)), output_distribution="normal").fit(X)
    many = np.array([len(np.unique(column)) > 12 for column in X.T])
    mean, spread = X.mean(axis=0), np.where(X.std(axis=0) > 0, X.std(axis=0), 1.0)

    def scores(rows: Array) -> Array:
        return np.clip(np.where(many, scorer.transform(rows), (rows - mean) / spread), -2.5, 2.5)

    sample = scores(X[rng.permutation(len(X))[:N_SAMPLE]])
    marks = sample[:N_LANDMARKS]
    distance = ((marks[:, None] - marks[None]) ** 2).sum(axis=2)
    width = 1 / np.median(distance[distance > 0])

    def kernel(rows: Array) -> Array:
        square = (rows**2).sum(axis=1)[:, None] + (marks**2).sum(axis=1) - 2 * rows @ marks.T
        return np.asarray(np.exp(-width * square))

    values, vectors = np.linalg.eigh(kernel(marks))
    kept = values > 1e-6 * values[-1]
    root = vectors[:, kept] / np.sqrt(values[kept])
    mapped = kernel(sample) @ root
    spectrum, axes = np.linalg.eigh(np.cov(mapped.T))
    order = np.argsort(-spectrum)[: max(LEVELS)]
    project = root @ axes[:, order]

    def basis(rows: Array) -> Array:
        own = scores(rows)
        out = np.zeros((len(rows), 1 + X.shape[1] + max(LEVELS)))
        out[:, 0], out[:, 1 : 1 + X.shape[1]] = 1.0, own
        out[:, 1 + X.shape[1] : 1 + X.shape[1] + len(order)] = kernel(own) @ project
        return out

    return basis
