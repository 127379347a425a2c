"""What an unrecorded cause could do to a value: the marginal sensitivity model (Tan, 2006), on the evaluator's own fit.

An unrecorded u may change the odds of the logged action by a factor between 1/Γ and Γ. With μ = μ(a|s), τ = 1/(1 + Γ),
α = μ + (1 − μ)/Γ and β = μ + Γ(1 − μ), the lowest value that u can hide solves

    V(s) = E[ρ(α Y + (1 − α)(q − (q − Y)₊/τ)) | s]      Y = r + γV(s')      q = τ-quantile of Y given (s, a)

which is LSTD of the weighted rows W r + o, γW with W = α + (β − α)1{Y ≤ q} and o = (1 − α)q(1 − 1{Y ≤ q}/τ) (Kallus and
Zhou, 2020; Dorn and Guo, 2023). The bracket is a conditional value at risk, a maximum over q: a rough quantile makes
the bound wider, never too narrow. The highest value is the same for −r. At Γ = 1 every W is 1, so the bound *is* the
value.

    every        u is drawn anew at every decision
    first        u touches the first decision only (Namkoong et al., 2020)
    persistent   one u per cluster touches all of its decisions (Bruns-Smith, 2021): clusters are tilted by Π W_t

Quantiles and bounds come from 20,000 rows at most; what they add to the value there is added to the value of the log.
Γ* is the least Γ at which confounding and chance together may explain away a difference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Literal

import numpy as np
from scipy.special import logit
from sklearn.linear_model import LogisticRegression

from sparsetd.evaluation.estimate import Value
from sparsetd.evaluation.linear import LinearValue
from sparsetd.evaluation.reading import Part
from sparsetd.evaluation.result import Robustness
from sparsetd.evaluation.target import Target
from sparsetd.logs import Transitions
from sparsetd.selection.moments import Moments
from sparsetd.system import Array

Kind = Literal["every", "first", "persistent"]
Ends = tuple[float, float]
Columns = tuple[tuple[str, float], ...]  # names of recorded columns, and how strongly each changes the odds
SWEEPS = 4  # rounds of a fixed point: the weights follow from the value function, and it from the weights
SETTLED = 0.02  # sweeps for Γ* end when the value moves by no more than this share of the whole
NEAR = np.full(15, 1e-3)  # for each problem of a quantile regression, the share of the spread that counts as 0
FALLING = np.geomspace(0.1, 1e-3, 8)  # the same for Γ*: beginning with a larger share needs fewer of them
FITTED = 2_000  # rows of an action to which its quantile is fitted
HELD = 1e-6  # ridge of this fit: with less, the order of the rows changes the fit where columns depend on each other
ROWS_EACH = 20  # rows that every column of this fit needs: a quantile that follows its rows leaves no room for a cause
TRIED = (1.1, 1.25, 1.5, 2.0, 3.0, 5.0, 10.0)  # Γ at which Γ* is looked for
COMPARED = 3  # recorded columns whose strength is shown
SMALL, STEPS = 100, 25  # Newton's method fits logistic regressions of at most 100 coefficients, in at most 25 steps
USUAL = 0.9  # share of the rows whose odds a column changes by no more than its strength


@dataclass(frozen=True, eq=False)
class Cause:
    """The rows of a sample, and how far a cause may change the weight of each; this needs no features.

    `given` is the share of the ratio that depends on the behaviour's probabilities: where the target leaves a decision
    as it was, nothing is confounded. `weight` is ρ(1 − μ), as far as it depends on the behaviour; quantiles are fitted
    with these weights.
    """

    mu: Array
    action: Array
    given: Array
    weight: Array

    @classmethod
    def of(cls, ratio: Array, log: Transitions, target: Target) -> Cause:
        """What a cause may do to the first rows of a log, with the ratios of a policy."""
        n, mu = len(ratio), np.asarray(log.behavior_prob)[: len(ratio)]
        action = np.zeros(n, dtype=np.intp) if log.action is None or log.action.ndim > 1 else log.action[:n]
        found = target.shares(log)
        rest = np.zeros(n) if found is None else found[1][:n]
        given = np.divide(ratio - rest, ratio, where=ratio > 0, out=np.ones(n))
        return cls(mu, action, given, ratio * given * (1.0 - mu))

    @cached_property
    def of_actions(self) -> list[Array]:
        """The rows whose weight a cause may change, by action."""
        exposed = self.weight > 0
        return [np.flatnonzero((self.action == a) & exposed) for a in np.unique(self.action[exposed])]

    def affords(self, n_columns: int) -> bool:
        """Whether every action has enough rows for quantiles of `n_columns` columns and a constant.

        If not, bounds are wild, or too narrow.
        """
        return all(n_columns <= _affordable(self.weight[rows]) for rows in self.of_actions)


def _affordable(weight: Array) -> int:
    """The columns that rows with these weights afford: one for every twenty effective rows."""
    squares = float(weight @ weight)
    return int(weight.sum() ** 2 / squares) // ROWS_EACH if squares > 0 else 0


@dataclass(frozen=True, eq=False)
class Confounded:
    """The rows of a sample with everything that the bounds need, and the plain fit to them.

    `sums` are those of these rows, with the ridge. `sampled` says that the log has more clusters than these, or others.
    """

    part: Part
    cause: Cause
    sums: Moments
    sampled: bool

    @cached_property
    def of_actions(self) -> list[OneAction]:
        """The rows whose weight a cause may change, with their columns, by action."""
        weight, states = self.cause.weight, self.part.states
        return [OneAction(states, rows, weight[rows], _affordable(weight[rows])) for rows in self.cause.of_actions]

    @cached_property
    def plain(self) -> LinearValue:
        return LinearValue.solve(self.sums)

    @cached_property
    def moved(self) -> Array:
        """The influence of every cluster; for a sample the linear part is enough, because only its spread is used."""
        model, part = self.plain, self.part
        return model.scores(part, model.errors(part)) if self.sampled else model.influence(part)

    @cached_property
    def after(self) -> Array:
        """γ[φ' 1] of every row."""
        return self.part.states - self.part.changes

    @cached_property
    def sides(self) -> Sides:
        return Sides(self.part.states, self.after, self.cause.weight)

    def bound(self, own: Value, strength: float, kind: Kind, sign: float, limits: Ends, settled: float = 0.0) -> Value:
        """The lowest (or, with sign −1, the highest) value of a log whose value is `own`, from that of this sample.

        Even a strong cause cannot move the value beyond `limits`, the least and the greatest possible return. The value
        is exact enough once its last change is no more than the share `settled` of what it has moved.
        """
        if strength == 1.0:
            return own
        if kind == "every":
            value, moved = _every(self, strength, sign, settled)
        else:
            value, moved = (_first if kind == "first" else _persistent)(self, strength, sign)
        found = float(np.clip(own.value + sign * value - self.plain.value, *limits))
        if not self.sampled:
            return own._replace(value=found, moved=sign * moved)
        plain, then = (float(x.std()) for x in (self.moved, moved))
        return own._replace(value=found, moved=own.moved * (then / plain if plain > 0 else 1.0))

    def weighted(
        self, strength: float, theta: Array, sign: float, near: Array = NEAR
    ) -> tuple[Array, Array, Array, Array]:
        """W, the offset o, Y = ±r + γV(s') and whether Y ≤ q, of every row, for the value function of a fit."""
        tau, outcome = 1.0 / (1.0 + strength), sign * self.part.batch.reward + self.after @ theta
        q = np.zeros(len(outcome))
        betas = [own.quantile(outcome, tau, near) for own in self.of_actions]
        if betas:
            fitted = self.part.states @ np.column_stack(betas)
            for own, of_all in zip(self.of_actions, fitted.T, strict=True):
                q[own.rows] = of_all[own.rows]
        below, mu, given = outcome <= q, self.cause.mu, self.cause.given
        alpha = mu + (1.0 - mu) / strength
        beta = mu + strength * (1.0 - mu)
        W = alpha + (beta - alpha) * below
        offset = (1.0 - alpha) * q * (1.0 - below / tau)
        return 1.0 + given * (W - 1.0), given * offset, outcome, below


class Sides:
    """Σ e φγφ'ᵀ over the rows with Y ≤ q, and over the others; a new q adds only the rows that change sides."""

    def __init__(self, states: Array, after: Array, weight: Array) -> None:
        self._rows, self._used = (states, after, weight), weight > 0
        self._sums: tuple[Array, Array] | None = None
        self._below = np.zeros(len(weight), dtype=bool)

    def sums(self, below: Array) -> tuple[Array, Array]:
        if self._sums is None:
            self._sums = self._sum(below), self._sum(~below)
        else:
            moved = self._sum(below & ~self._below) - self._sum(self._below & ~below)
            self._sums = self._sums[0] + moved, self._sums[1] - moved
        self._below = below
        return self._sums

    def _sum(self, rows: Array) -> Array:
        (states, after, weight), some = self._rows, np.flatnonzero(rows & self._used)
        return np.asarray((weight[some, None] * states[some]).T @ after[some])


def _every(rows: Confounded, strength: float, sign: float, settled: float) -> tuple[float, Array]:
    """The value of the rows with W and o, each sweep against the value function of the one before.

    Sweeps end when the value changes by no more than the share `settled` of what it has moved in all. W − 1 is 1 − μ
    times Γ − 1 where Y ≤ q, and times 1/Γ − 1 elsewhere, so these multiples of the sums over the two sides are added.
    """
    part, states, sums = rows.part, rows.part.states, rows.sums
    plain = model = replace(rows.plain, theta=sign * rows.plain.theta)
    for _ in range(SWEEPS):
        before = model.value
        W, offset, _, below = rows.weighted(strength, model.theta, sign, FALLING if settled else NEAR)
        reward = W * sign * part.batch.reward + offset
        low, high = rows.sides.sums(below)
        A = sums.A - (strength - 1.0) * low + (1.0 - 1.0 / strength) * high
        model = rows.plain.again(A[0], (part.batch.ratio * reward) @ states)
        if abs(model.value - before) <= settled * abs(model.value - plain.value):
            break
    if rows.sampled:
        error = reward - states @ model.theta + W * (rows.after @ model.theta)
        return model.value, model.scores(part, error)
    made = (states, states - W[:, None] * rows.after)
    return model.value, model.influence(replace(part, batch=replace(part.batch, reward=reward), made=made))


def _first(rows: Confounded, strength: float, sign: float) -> tuple[float, Array]:
    """The value, with what confounding of the first decision adds to it."""
    W, offset, outcome, _ = rows.weighted(strength, sign * rows.plain.theta, sign)
    e = rows.part.episodes
    added = (rows.part.batch.ratio * ((W - 1.0) * outcome + offset))[e.first]
    moved = e.by_cluster(added - added.mean()) * (e.n_clusters / len(e))
    return sign * rows.plain.value + float(added.mean()), sign * rows.moved + moved


def _persistent(rows: Confounded, strength: float, sign: float) -> tuple[float, Array]:
    """The least mean of W_c(v + x_c) over weights of the clusters between Πα and Πβ that average 1."""
    e, mu, given = rows.part.episodes, rows.cause.mu, rows.cause.given
    value, moved = sign * rows.plain.value, sign * rows.plain.influence(rows.part)
    ends = []
    for factor in (1.0 / strength, strength):
        bound = 1.0 + given * (1.0 - mu) * (factor - 1.0)
        # Products are taken as sums of logarithms, and e⁵⁰ is as good as no bound: long clusters must not overflow.
        ends.append(np.exp(np.minimum(e.rows_by_cluster(np.log(bound)), 50.0)))
    low, high = ends
    terms = value + moved
    order = np.argsort(terms, kind="stable")
    room = len(terms) - low.sum()
    reach = np.cumsum((high - low)[order])
    share = np.clip((room - np.append(0.0, reach[:-1])) / np.maximum((high - low)[order], 1e-300), 0.0, 1.0)
    weight = low.copy()
    weight[order] += share * (high - low)[order]
    q = float(terms[order][min(int(np.searchsorted(reach, room)), len(terms) - 1)])
    found = float(weight @ terms) / len(terms)
    return found, weight * (terms - q) + q - found


@dataclass(frozen=True, eq=False)
class OneAction:
    """The rows of one action whose weight a cause may change, and those to which their quantile is fitted.

    The fitted rows lie at equal distances, because a random choice would change the answer. `most` is the number of
    columns that the rows afford.
    """

    states: Array
    rows: Array
    weight: Array
    most: int

    @property
    def is_thin(self) -> bool:
        return self.most < self.states.shape[1] - 1

    @cached_property
    def every(self) -> tuple[Array, Array]:
        """[φ 1] of the fitted rows on all columns, and their numbers among the rows of the action."""
        return self._fitted(self.states)

    def _fitted(self, design: Array) -> tuple[Array, Array]:
        enough = max(FITTED, ROWS_EACH * design.shape[1])
        some = np.arange(0, len(self.rows), max(len(self.rows) // enough, 1))
        return design[self.rows[some]], some

    def quantile(self, outcome: Array, tau: float, near: Array) -> Array:
        """β of q(s, a) = βᵀ[φ 1], by quantile regression of Y on the rows of the action.

        With rows weighted by ρ(1 − μ) the first-order condition is E[ρφ(W − 1)] = 0: W leaves the mean of every feature
        alone, and γW contracts as γ does. Each sweep is the least-squares problem of Hunter and Lange (2000) that
        majorises the loss. A regression that begins near the last one and ends sooner may miss the condition, and then
        the bound is wrong.

        Where an action has few rows, only the constant and the columns that go most with Y are used: with a column for
        every few rows q would follow Y itself, and the bounds would close on the value.
        """
        used = self._going(outcome) if self.is_thin else slice(None)
        phi, some = self._fitted(self.states[:, used]) if self.is_thin else self.every
        y, c, beta = outcome[self.rows[some]], np.maximum(self.weight[some], 1e-6), np.zeros(self.states.shape[1])
        beta[used] = _pulled(phi, y, c, tau, near)
        return beta

    def _going(self, outcome: Array) -> Array:
        """The columns that go most with Y, and the constant."""
        phi, y = self.states[self.rows, :-1], outcome[self.rows]
        phi, y = phi - phi.mean(axis=0), y - y.mean()
        size = np.sqrt(np.einsum("ij,ij->j", phi, phi))
        going = np.abs(phi.T @ y) / np.where(size > 0, size, np.inf)
        return np.append(np.sort(np.argsort(-going, kind="stable")[: self.most]), self.states.shape[1] - 1)


def _pulled(phi: Array, y: Array, c: Array, tau: float, near: Array) -> Array:
    """β of the quantile regression of y on φ with weights c, by one least-squares problem for each share of `near`."""
    spread = float(y.std()) or 1.0
    beta = np.append(np.zeros(phi.shape[1] - 1), np.quantile(y, tau))
    for share in near:
        pull = c / (share * spread + np.abs(y - phi @ beta))
        pulled = phi * np.sqrt(pull)[:, None]
        gram = pulled.T @ pulled + HELD * pull.sum() * np.eye(phi.shape[1])  # one array: BLAS forms half of it
        beta = np.linalg.solve(gram, phi.T @ (pull * y + (2 * tau - 1) * c))
    return np.asarray(beta)


def robustness(
    rows: Confounded, strengths: Callable[[], Columns], own: Value, logged: Value, level: float, limits: Ends
) -> Robustness:
    """Γ* of the difference to the logged behaviour, which no confounding touches; `strengths` is called last."""
    up = 1.0 if own.value > logged.value else -1.0

    def left(strength: float) -> float:
        """The distance of the difference's interval from 0, on the side of its sign; negative if it crosses 0."""
        bound = rows.bound(own, strength, "every", up, limits, SETTLED)
        low, high = bound.less(logged).estimate().interval(level)
        return low if up > 0 else -high

    tried, known = (1.0, *TRIED), cache(left)
    reached = _reached(tried, known)
    nearest = tried[max(reached - 1, 0) : reached + 1]
    found = crossing(nearest, map(known, nearest))
    return Robustness(found, TRIED[-1], () if found == 1.0 else strengths())


def _reached(tried: Sequence[float], left: Callable[[float], float]) -> int:
    """The index of the first of `tried` where nothing is `left`, or their number. A stronger cause explains more.

    Every call of `left` costs several fits, so a line in log Γ through the known values says where to ask next.
    """
    if left(tried[0]) <= 0:
        return 0
    known, unknown, ask = 0, len(tried), 1  # something is left at `known`, and nothing at `unknown`
    while unknown - known > 1:
        now = left(tried[ask])
        known, unknown = (ask, unknown) if now > 0 else (known, ask)
        lost = 1.0 - now / left(tried[0])
        expected = np.log(tried[ask]) / lost if lost > 0 else np.inf
        farthest = min(known + 2, max(unknown - 1, known + 1))  # what is lost grows faster than the line says
        ask = int(np.clip(np.searchsorted(np.log(tried), expected), known + 1, farthest))
    return unknown


def crossing(strengths: Sequence[float], left: Iterable[float]) -> float | None:
    """The strength Γ where `left` reaches 0, interpolated in log Γ; None if it stays above. The first Γ is 1."""
    before = least = np.inf
    for strength, now in zip(strengths, left, strict=True):
        if now <= 0:
            g, h = np.log([min(before, strength), strength])
            return float(np.exp(g + (h - g) * least / (least - now))) if g < h else strength
        before, least = strength, min(now, least)
    return None


def strengths_of(log: Transitions) -> Columns:
    """The factors by which recorded columns change the odds of the logged actions, the strongest first.

    The strength of a column is the factor that nine in ten of these odds change by at most when a logistic regression
    of the actions is fitted without it.
    """
    some = slice(0, None, max(len(log) // FITTED, 1))
    if log.action is None or log.action.ndim > 1 or len(np.unique(log.action[some])) < 2:
        return ()
    X, action = np.asarray(log.observation[some], dtype=np.float64), log.action[some].astype(np.int64)
    spread = X.std(axis=0)
    Z = (X - X.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    odds, coef = _log_odds(Z, action)
    weight = np.abs(coef[:, :-1]).max(axis=0)
    heavy = np.argsort(-weight * (spread > 0), kind="stable")[:COMPARED]
    found = []
    for j in heavy:
        without = _log_odds(np.delete(Z, j, axis=1), action, np.delete(coef, j, axis=1))[0] if Z.shape[1] > 1 else 0.0
        found.append((log.labels()[j], float(np.exp(np.quantile(np.abs(odds - without), USUAL)))))
    return tuple(sorted(found, key=lambda entry: -entry[1]))


def _log_odds(Z: Array, action: Array, begin: Array | None = None) -> tuple[Array, Array]:
    """The log-odds of the logged actions by a logistic regression, and its coefficients with the intercepts last.

    For few coefficients Newton's method takes a few steps from `begin`, and a step costs less than the checks that
    scikit-learn makes of its input.
    """
    names, number = np.unique(action, return_inverse=True)
    X, chance = np.vstack([Z.T, np.ones(len(Z))]), None
    if len(names) * len(X) <= SMALL:
        zero = np.zeros((len(names), len(X)))
        start = zero if begin is None or begin.shape != zero.shape else begin  # scikit-learn has a vector for two
        chance, coef = _newton(X, np.eye(len(names))[:, number], start)
    if chance is None:
        model = LogisticRegression(max_iter=200).fit(Z, action)
        chance, coef = model.predict_proba(Z).T, np.column_stack([model.coef_, model.intercept_])
    taken = chance[number, np.arange(len(Z))]
    return logit(np.clip(taken, 1e-6, 1 - 1e-6)), coef  # a certain action would have infinite odds


def _newton(X: Array, taken: Array, coef: Array) -> tuple[Array | None, Array]:
    """The probabilities and coefficients with scikit-learn's penalty; no probabilities if it does not settle."""
    (k, n), d = taken.shape, len(X)
    ridge = np.append(np.full(d - 1, 2.0 if k == 2 else 1.0), 1e-9)  # the penalty of two actions is that of one vector
    for _ in range(STEPS):
        size = coef @ X
        chance = np.exp(size - size.max(axis=0))
        chance /= chance.sum(axis=0)
        each = (chance[:, None] * X).reshape(k * d, n)
        hessian = np.diag(np.tile(ridge, k)) - each @ each.T
        for own in range(0, k * d, d):
            hessian[own : own + d, own : own + d] += each[own : own + d] @ X.T
        step = np.linalg.solve(hessian, ((chance - taken) @ X.T + ridge * coef).ravel()).reshape(k, d)
        coef = coef - step
        if np.abs(step).max() < 1e-5:
            return chance, coef
    return None, coef
