"""Policies worth testing, learnt from one part of a log: LSTD-Q on action blocks, and rules that stay near the log.

    μ̂ = multinomial logistic regression of the actions      Q = LSTD-Q of μ̂, or of the policy greedy in the last Q

Few columns may do as well as all: the second kind of table rests on those over which the merits vary most.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from sparsetd.evaluation.action_values import ActionRows, ActionValue
from sparsetd.evaluation.score_policy import DECIMALS, ScorePolicy
from sparsetd.logs import Transitions
from sparsetd.logs.partition import fingerprints
from sparsetd.system import Array

FEW = 5
ROUNDS = (1, 3)  # evaluations: one is a single step of improvement, more are policy iteration
RULES = (("greedy", 0.05), ("greedy", 0.15), ("safe", 0.1), ("tilt", 1.0), ("tilt", 3.0))
MOST_WEIGHTS = 3_000


@dataclass(frozen=True)
class Recipe:
    """How a candidate is made; the same recipe on other episodes makes the like policy."""

    few: bool
    rounds: int
    rule: str
    strength: float

    def __str__(self) -> str:
        columns = f"{FEW} columns" if self.few else "all columns"
        return f"{self.rule} {self.strength:g}, {columns}, {self.rounds} round{'s' * (self.rounds > 1)}"


def recipes(n_columns: int) -> list[Recipe]:
    few = (True, False) if n_columns > FEW else (False,)
    return [Recipe(*kind, *rule) for kind, rule in product(product(few, ROUNDS), RULES)]


def candidates(log: Transitions, gamma: float, n_actions: int, only: Recipe | None = None) -> dict[Recipe, ScorePolicy]:
    """Every recipe, or `only` one, carried out on this log."""
    width = log.observation.shape[1]
    if n_actions * (width + 1) > MOST_WEIGHTS:
        raise ValueError(
            f"{n_actions} actions times {width} observed columns are more than {MOST_WEIGHTS} weights: select columns "
            "first, for instance those that `sparsetd select` keeps."
        )
    made = recipes(width) if only is None else [only]
    rounds = {few: max((r.rounds for r in made if r.few == few), default=1) for few in (False, True)}
    tables = {False: _tables(log, np.arange(width), gamma, n_actions, rounds[False])}
    if any(recipe.few for recipe in made):
        tables[True] = _tables(log, _telling(tables[False][ROUNDS[0]]), gamma, n_actions, rounds[True])
    own = fingerprints(log)
    return {r: replace(tables[r.few][r.rounds], rule=r.rule, strength=r.strength, learnt_from=own) for r in made}


def _tables(log: Transitions, columns: Array, gamma: float, n_actions: int, rounds: int) -> dict[int, ScorePolicy]:
    """A policy on these columns, greedy in what it learnt after each number of rounds."""
    scaler = StandardScaler().fit(log.observation[:, columns])
    center, scale = (_rounded(v) for v in (scaler.mean_, np.where(scaler.scale_ > 0, scaler.scale_, 1.0)))
    z = _Units(columns, center, scale)
    habit = _habit(z.transform(log.observation), np.asarray(log.action), n_actions).round(DECIMALS)
    names, actions = tuple(log.labels()), (log.action_names or ())[:n_actions]
    none = np.zeros(0, dtype=np.uint64)
    now = ScorePolicy(names, columns, center, scale, habit, 0.0 * habit, "tilt", 0.0, none, actions)
    found: dict[int, ScorePolicy] = {}
    for k in range(1, rounds + 1):
        merit = _merit(ActionValue.fit(ActionRows.of(log, z, gamma, now))).round(DECIMALS)
        found[k] = now = replace(now, merit=merit, rule="greedy", strength=0.05)
    return found


def _rounded(values: Array) -> Array:
    """Six digits of every number, as they are printed."""
    return np.array([float(f"{value:.6g}") for value in values])


@dataclass(frozen=True)
class _Units:
    """The chosen columns in standard deviations, as a transformer."""

    columns: Array
    center: Array
    scale: Array

    def transform(self, observation: Array) -> Array:
        return np.asarray((observation[:, self.columns] - self.center) / self.scale)


def _habit(z: Array, action: Array, n_actions: int) -> Array:
    """Log-odds of the logged actions; one that was never taken has next to none."""
    model = LogisticRegression(max_iter=300, C=1.0).fit(z, action)
    table = np.zeros((n_actions, z.shape[1] + 1))
    table[:, -1] = -30.0
    coef, intercept = model.coef_, model.intercept_
    if len(model.classes_) == 2:
        coef, intercept = np.vstack([-coef, coef]) / 2, np.append(-intercept, intercept) / 2
    table[model.classes_] = np.column_stack([coef, intercept])
    return table


def _merit(found: ActionValue) -> Array:
    """Q less its mean over the actions of each state, in units of its standard deviation over the logged choices."""
    seen = np.unique(found.rows.action)
    theta = found.theta - found.theta[seen].mean(axis=0)
    advantage = (found.rows.phi @ theta.T) * found.rows.pi
    gap = np.einsum("td,td->t", found.rows.phi, theta[found.rows.action]) - advantage.sum(axis=1)
    return theta / (float(gap.std()) or 1.0)


def _telling(policy: ScorePolicy) -> Array:
    """The few columns over which the merits vary most between actions."""
    vary = (policy.merit[:, :-1] ** 2).sum(axis=0)
    return np.sort(policy.columns[np.argsort(-vary, kind="stable")[:FEW]])
