"""What an unrecorded cause could do to a value: the marginal sensitivity model (Tan, 2006), on the evaluator's own fit.

An unrecorded u may change the odds of the logged action by a factor between 1/Γ and Γ. With μ = μ(a|s), τ = 1/(1 + Γ),
α = μ + (1 − μ)/Γ and β = μ + Γ(1 − μ), the lowest value that such a u can hide solves

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

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Literal

import numpy as np
from scipy.special import logit
from sklearn.linear_model import LogisticRegression

from sparsetd.evaluation.estimate import Estimate, Value
from sparsetd.evaluation.linear import LinearValue, sums_of
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
NEAR = np.full(15, 1e-3)  # one quantile regression is so many least-squares problems; a share of the spread is nothing
FALLING = np.geomspace(0.1, 1e-3, 8)  # the same for Γ*: beginning with a larger share needs fewer of them
FITTED = 2_000  # rows of an action to which its quantile is fitted
HELD = 1e-6  # ridge of this fit: with less, rounding by the order of the rows shows where columns depend on each other
ROWS_EACH = 20  # rows that every column of this fit needs: a quantile that follows its rows leaves no room for a cause
TRIED = (1.1, 1.25, 1.5, 2.0, 3.0, 5.0, 10.0)  # Γ at which Γ* is looked for
COMPARED = 3  # recorded columns whose strength is shown
USUAL = 0.9  # share of the rows whose odds a column changes by no more than its strength


@dataclass(frozen=True, eq=False)
class Confounded:
    """The rows of a sample with everything that the bounds need, and the plain fit to them.

    `given` is the share of the ratio that depends on the behaviour's probabilities. Where the target leaves things as
    they were done, nothing is confounded. `sampled` says that the log has more
    clusters than these, or others.
    """

    part: Part
    mu: Array
    action: Array
    given: Array
    ridge: Array | None
    sampled: bool

    @classmethod
    def of(cls, part: Part, log: Transitions, target: Target, ridge: Array | None, sampled: bool) -> Confounded:
        """The rows of a part, the first of the log, for the policy whose ratios they have."""
        n, ratio = len(part.batch), part.batch.ratio
        action = np.zeros(n, dtype=np.intp) if log.action is None or log.action.ndim > 1 else log.action[:n]
        found = target.shares(log)
        rest = np.zeros(n) if found is None else found[1][:n]
        given = np.divide(ratio - rest, ratio, where=ratio > 0, out=np.ones(n))
        return cls(part, np.asarray(log.behavior_prob)[:n], action, given, ridge, sampled)

    @property
    def exposed(self) -> Array:
        """ρ(1 − μ) of every row, as far as it depends on the behaviour: by these weights quantiles are fitted."""
        return self.part.batch.ratio * self.given * (1.0 - self.mu)

    @property
    def is_thin(self) -> bool:
        """Whether an action has too few rows for quantiles of all columns; bounds are then wild, or close too early."""
        weight, n_columns = self.exposed, self.part.states.shape[1] - 1
        return any(_affordable(weight[self.action == a]) < n_columns for a in np.unique(self.action[weight > 0]))

    @cached_property
    def moments(self) -> Moments:
        return sums_of(self.part)

    @cached_property
    def plain(self) -> LinearValue:
        return LinearValue.solve(self.moments.ridged(self.ridge))

    @cached_property
    def value(self) -> Value:
        """The value, and the influence of every cluster; its linear part for a sample: only the spread counts then."""
        model, part = self.plain, self.part
        return model.value, model.scores(part, model.errors(part)) if self.sampled else model.influence(part)

    @cached_property
    def after(self) -> Array:
        """γ[φ' 1] of every row."""
        return self.part.states - self.part.changes

    @cached_property
    def touched(self) -> tuple[Array, Array, Array]:
        """The rows that a cause may weigh otherwise, with their [φ 1] and γ[φ' 1]."""
        rows = np.flatnonzero(self.part.batch.ratio * self.given)
        return rows, self.part.states[rows], self.after[rows]

    def bound(self, own: Value, strength: float, kind: Kind, sign: float, limits: Ends, settled: float = 0.0) -> Value:
        """The lowest (or, with sign −1, the highest) value of a log whose value is `own`, from that of this sample.

        Even a strong cause cannot move the value beyond `limits`, the least and the greatest possible return. Where the
        value has `settled` to this share of what it moves by, that is exact enough.
        """
        if strength == 1.0:
            return own
        if kind == "every":
            value, moved = _every(self, strength, sign, settled)
        else:
            value, moved = (_first if kind == "first" else _persistent)(self, strength, sign)
        found = float(np.clip(own[0] + sign * value - self.value[0], *limits))
        if not self.sampled:
            return found, sign * moved
        plain, then = (float(x.std()) for x in (self.value[1], moved))
        return found, own[1] * (then / plain if plain > 0 else 1.0)

    def weighted(self, strength: float, theta: Array, sign: float, near: Array = NEAR) -> tuple[Array, Array, Array]:
        """W, the offset o and Y = ±r + γV(s') of every row, for the value function of a fit."""
        batch, tau = self.part.batch, 1.0 / (1.0 + strength)
        outcome = sign * batch.reward + self.after @ theta
        alpha = self.mu + (1.0 - self.mu) / strength
        beta = self.mu + strength * (1.0 - self.mu)
        q = _quantiles(self.part.states, self.action, outcome, self.exposed, tau, near)
        below = outcome <= q
        W = alpha + (beta - alpha) * below
        offset = (1.0 - alpha) * q * (1.0 - below / tau)
        return 1.0 + self.given * (W - 1.0), self.given * offset, outcome


def _every(rows: Confounded, strength: float, sign: float, settled: float) -> Value:
    """The value of the rows with W and o, each sweep against the value function of the one before.

    Sweeps end when the value changes by no more than the share `settled` of what it has moved in all.
    """
    part, states, ratio = rows.part, rows.part.states, rows.part.batch.ratio
    used, here, after = rows.touched
    plain = model = replace(rows.plain, theta=sign * rows.plain.theta)
    for _ in range(SWEEPS):
        before = model.value
        W, offset, _ = rows.weighted(strength, model.theta, sign, FALLING if settled else NEAR)
        reward = W * sign * part.batch.reward + offset
        A = rows.moments.A + ((ratio * (1.0 - W))[used, None] * here).T @ after
        b = ((ratio * reward) @ states)[None]
        model = LinearValue.solve(replace(rows.moments, A=A, b=b).ridged(rows.ridge))
        if abs(model.value - before) <= settled * abs(model.value - plain.value):
            break
    if rows.sampled:
        error = reward - states @ model.theta + W * (rows.after @ model.theta)
        return model.value, model.scores(part, error)
    made = (states, states - W[:, None] * rows.after)
    return model.value, model.influence(replace(part, batch=replace(part.batch, reward=reward), made=made))


def _first(rows: Confounded, strength: float, sign: float) -> Value:
    """The value, with what confounding of the first decision adds to it."""
    W, offset, outcome = rows.weighted(strength, sign * rows.plain.theta, sign)
    e = rows.part.episodes
    added = (rows.part.batch.ratio * ((W - 1.0) * outcome + offset))[e.first]
    moved = e.by_cluster(added - added.mean()) * (e.n_clusters / len(e))
    return sign * rows.value[0] + float(added.mean()), sign * rows.value[1] + moved


def _persistent(rows: Confounded, strength: float, sign: float) -> Value:
    """The least mean of W_c(v + x_c) over weights of the clusters between Πα and Πβ that average 1."""
    e, mu = rows.part.episodes, rows.mu
    value, moved = sign * rows.value[0], sign * rows.plain.influence(rows.part)
    ends = []
    for factor in (1.0 / strength, strength):
        bound = 1.0 + rows.given * (1.0 - mu) * (factor - 1.0)
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


def _quantiles(states: Array, action: Array, outcome: Array, weight: Array, tau: float, near: Array) -> Array:
    """q(s, a) = β_aᵀ[φ 1] by quantile regression of Y within every action.

    With rows weighted by ρ(1 − μ) the first-order condition is E[ρφ(W − 1)] = 0: W leaves the mean of every feature
    alone, and γW contracts as γ does. Each sweep is the least-squares problem of Hunter and Lange (2000) that majorises
    the loss. A regression that begins near the last one and ends sooner may miss the condition, and the bound with it.

    Where an action has few rows, only the constant and the columns that go most with Y are used: with a column for
    every few rows q would follow Y itself, and the bounds would close on the value.
    """
    q = np.zeros(len(outcome))
    for a in np.unique(action[weight > 0]):
        taken = np.flatnonzero((action == a) & (weight > 0))
        used, most = np.arange(states.shape[1]), _affordable(weight[taken])
        if most < len(used) - 1:
            phi, y = states[taken, :-1] - states[taken, :-1].mean(axis=0), outcome[taken] - outcome[taken].mean()
            size = np.sqrt(np.einsum("ij,ij->j", phi, phi))
            going = np.abs(phi.T @ y) / np.where(size > 0, size, np.inf)
            used = np.append(np.sort(np.argsort(-going, kind="stable")[:most]), used[-1])
        design = states if len(used) == states.shape[1] else states[:, used]
        enough = max(FITTED, ROWS_EACH * len(used))
        some = taken[:: max(len(taken) // enough, 1)]  # every few rows: a random choice would change the answer
        phi, y, c = design[some], outcome[some], np.maximum(weight[some], 1e-6)
        spread = float(y.std()) or 1.0
        beta = np.append(np.zeros(phi.shape[1] - 1), np.quantile(y, tau))
        for share in near:
            pull = c / (share * spread + np.abs(y - phi @ beta))
            pulled = phi * np.sqrt(pull)[:, None]
            gram = pulled.T @ pulled + HELD * pull.sum() * np.eye(phi.shape[1])  # of one array: BLAS forms half of it
            beta = np.linalg.solve(gram, phi.T @ (pull * y + (2 * tau - 1) * c))
        q[taken] = (design @ beta)[taken]
    return q


def _affordable(weight: Array) -> int:
    """The number of columns that a quantile of rows with these weights affords: one for every twenty effective rows."""
    squares = float(weight @ weight)
    return int(weight.sum() ** 2 / squares) // ROWS_EACH if squares > 0 else 0


def robustness(
    rows: Confounded,
    strengths: Callable[[], Columns],
    own: Value,
    logged: Value,
    level: float,
    limits: Ends,
    share: float,
) -> Robustness:
    """Γ* of the difference to the logged behaviour, which no confounding touches; `strengths` are `strengths_of`."""
    up = 1.0 if own[0] > logged[0] else -1.0

    def left(strength: float) -> float:
        """The distance of the difference's interval from 0, on the side of its sign; negative if it crosses 0."""
        value, moved = rows.bound(own, strength, "every", up, limits, SETTLED)
        gain = Estimate.of_influence("", up * (value - logged[0]), up * (moved - logged[1])).sharing(share)
        return gain.interval(level)[0]

    tried, known = (1.0, *TRIED), cache(left)
    reached = bisect_left(tried, True, key=lambda strength: known(strength) <= 0)  # a stronger cause explains more
    nearest = tried[max(reached - 1, 0) : reached + 1]
    found = crossing(nearest, map(known, nearest))
    return Robustness(found, TRIED[-1], () if found == 1.0 else strengths())


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
    heavy = np.argsort(-np.abs(coef).max(axis=0) * (spread > 0), kind="stable")[:COMPARED]
    found = []
    for j in heavy:
        without = _log_odds(np.delete(Z, j, axis=1), action)[0] if Z.shape[1] > 1 else 0.0
        found.append((log.labels()[j], float(np.exp(np.quantile(np.abs(odds - without), USUAL)))))
    return tuple(sorted(found, key=lambda entry: -entry[1]))


def _log_odds(Z: Array, action: Array) -> tuple[Array, Array]:
    """The log-odds of the logged actions by a logistic regression, and its coefficients."""
    model = LogisticRegression(max_iter=200).fit(Z, action)
    taken = model.predict_proba(Z)[np.arange(len(Z)), np.searchsorted(model.classes_, action)]
    return logit(np.clip(taken, 1e-6, 1 - 1e-6)), model.coef_  # a certain action would have infinite odds
