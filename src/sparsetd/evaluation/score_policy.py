"""A policy that a person can read: two small tables of scores and one rule, learnt from a log.

    z = (s − center)/scale      habit_a = h_aᵀ[z 1]      merit_a = m_aᵀ[z 1]      μ̂ = softmax(habit)

    greedy   the action of greatest merit among those with μ̂(a|s) ≥ strength (and the most usual one)
    safe     as greedy, but rarer actions keep their probability: only the rest of it moves
    tilt     softmax(habit + strength · merit) over the actions with μ̂(a|s) ≥ .02

Habit is what was usually done, merit the estimated value of an action in units of its usual spread. The numbers are
rounded when the policy is made: what is printed is what was tested.

    μ̂ = multinomial logistic regression of the actions      Q = LSTD-Q of μ̂, or of the policy greedy in the last Q

Candidates are learnt from one part of a log. Few columns may do as well as all, so half of the candidates use only the
columns over which the merits vary most.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from importlib import import_module
from itertools import product
from typing import Any

import numpy as np
from scipy.special import softmax
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from sparsetd.evaluation.action_values import ActionRows, ActionValue
from sparsetd.evaluation.reading import with_ones
from sparsetd.logs import Transitions
from sparsetd.logs.partition import fingerprints
from sparsetd.system import Array

DECIMALS = 3
FEW = 5  # columns of a short table: as many as a person can keep in mind
ROUNDS = (1, 3)  # evaluations: one is a single step of improvement, more are policy iteration
TRIED = (("greedy", 0.05), ("greedy", 0.15), ("safe", 0.1), ("tilt", 1.0), ("tilt", 3.0))
MOST_WEIGHTS = 3_000  # of one table: LSTD-Q solves a dense system of this size
LEAST = 0.02  # an action that was taken more rarely than this is not advised
RULES = {
    "greedy": "Take the action with the highest score among those that people took with a probability of at least "
    "{0:g} in this situation.",
    "safe": "Take rare actions as often as people took them. In all other cases take the action with the highest score "
    "among those that people took with a probability of at least {0:g} in this situation.",
    "tilt": "The higher the score of an action, the more often it is taken: its probability is proportional to e to "
    "the power of the score, which is what people usually did (in log-odds) plus {0:g} times the estimated advantage. "
    "Actions that people took with a probability below 0.02 are left out.",
}


@dataclass(frozen=True, eq=False, repr=False)
class ScorePolicy:
    """Choose actions by a short table of scores that a person can read: the policy that `improve` finds.

    Observations (n, p) become probabilities (n, A), by `rule` on the tables `habit` and `merit` (A, k + 1).

    `names` are all observed columns, `columns` the numbers of the k that are used; the last column of a table is its
    constant, and `learnt_from` the fingerprints of the episodes that taught it (`logs.partition`). `actions` are the
    names of the actions where the log has them: another log may number them in another order.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsetd import improve, prepare
    >>> rng = np.random.default_rng(0)
    >>> x, action = rng.normal(size=300), rng.integers(2, size=300)
    >>> raw = {"x": x, "action": action, "reward": action * x + rng.normal(0, 0.5, size=300)}
    >>> log = prepare(raw, bandit=True).transitions
    >>> policy = improve(log, features=None, n_resamples=1).policy
    >>> policy([[-2.0], [2.0]]).round(2).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    >>> policy.act([[-2.0], [2.0]]).tolist()
    [0, 1]
    >>> policy.feature_names_in_
    ['obs_x']
    """

    names: tuple[str, ...]
    columns: Array
    center: Array
    scale: Array
    habit: Array
    merit: Array
    rule: str
    strength: float
    learnt_from: Array
    actions: tuple[str, ...] = ()
    __name__ = "the proposed policy"

    def __call__(self, observation: Any) -> Array:
        """π(·|s) of every row."""
        s = np.atleast_2d(np.asarray(observation, dtype=np.float64))
        if s.shape[1] != len(self.names):
            raise ValueError(
                f"the policy was learnt from {len(self.names)} observed columns, but row 0 has {s.shape[1]}: pass the "
                "same columns."
            )
        z = with_ones(self.transform(s))
        habit, merit = z @ self.habit.T, z @ self.merit.T
        usual = softmax(habit, axis=1)
        least = LEAST if self.rule == "tilt" else self.strength
        allowed = (usual >= least) | (usual == usual.max(axis=1, keepdims=True))  # the most usual action always is
        if self.rule == "tilt":
            return np.asarray(softmax(np.where(allowed, habit + self.strength * merit, -np.inf), axis=1))
        best = np.eye(len(self.merit))[np.where(allowed, merit, -np.inf).argmax(axis=1)]
        if self.rule == "safe":
            best = usual * ~allowed + (usual * allowed).sum(axis=1, keepdims=True) * best
        return np.asarray(best)

    def transform(self, observation: Array) -> Array:
        """The chosen columns in standard deviations."""
        return np.asarray((observation[:, self.columns] - self.center) / self.scale)

    predict_proba = __call__  # with `classes_`: logs find their own actions among these by name

    @property
    def classes_(self) -> Array:
        return np.array(self.actions or range(len(self.habit)))

    def act(self, observation: Any) -> Array:
        """The most probable action of every row, the first of equals."""
        return np.asarray(self(observation).argmax(axis=1))

    @property
    def feature_names_in_(self) -> list[str]:
        """The columns it was learnt from: a log is brought into this order, or refused."""
        return list(self.names)

    @property
    def scores(self) -> Array:
        """The table that decides, (A, k + 1): log-odds for a tilt, merits otherwise."""
        return self.habit + self.strength * self.merit if self.rule == "tilt" else self.merit

    def fits(self) -> bool:
        """Return whether the tables fit together: a file may hold anything."""
        kinds = {"columns": "i", "center": "f", "scale": "f", "habit": "f", "merit": "f", "learnt_from": "u"}
        for name, kind in kinds.items():
            found = getattr(self, name)
            if not isinstance(found, np.ndarray) or found.dtype.kind != kind or not np.isfinite(found).all():
                return False
        if not all(isinstance(t, tuple) and all(isinstance(v, str) for v in t) for t in (self.names, self.actions)):
            return False
        if not (isinstance(self.strength, float) and np.isfinite(self.strength) and isinstance(self.rule, str)):
            return False
        k, n = self.columns.shape, len(self.actions) or len(self.habit)
        sized = len(k) == 1 and self.center.shape == self.scale.shape == k and n > 0
        sized = sized and self.habit.shape == self.merit.shape == (n, k[0] + 1) and self.rule in RULES
        return sized and bool(np.all((self.columns >= 0) & (self.columns < len(self.names))))

    def to_dict(self) -> dict[str, Any]:
        """The rule and the table of scores, by action and column, and the units of the columns."""
        heads = [*(self.names[c] for c in self.columns), "constant"]
        tables = {"scores": np.round(self.scores, DECIMALS), "habit": self.habit, "merit": self.merit}
        named = {key: [dict(zip(heads, row, strict=True)) for row in table.tolist()] for key, table in tables.items()}
        units = {key: dict(zip(heads, getattr(self, key).tolist(), strict=False)) for key in ("center", "scale")}
        words = RULES[self.rule].format(self.strength)
        told = {"rule": self.rule, "strength": self.strength, "words": words, "actions": self.classes_.tolist()}
        return {**told, **named, **units}

    def __repr__(self) -> str:
        return f"ScorePolicy({self.rule} {self.strength:g}: {len(self.habit)} actions, {len(self.columns)} columns)"

    def __str__(self) -> str:
        """The rule in a sentence, and the table of the scores."""
        # The page is of a layer above, so it is found by name.
        return str(import_module("sparsetd.report.decision_page").policy_text(self.to_dict()))


@dataclass(frozen=True)
class Recipe:
    """How a candidate is made. The same recipe on other episodes makes a similar policy."""

    few: bool
    rounds: int
    rule: str
    strength: float

    def __str__(self) -> str:
        columns = f"{FEW} columns" if self.few else "all columns"
        return f"{self.rule} {self.strength:g}, {columns}, {self.rounds} round{'s' * (self.rounds > 1)}"


def recipes(n_columns: int) -> list[Recipe]:
    few = (True, False) if n_columns > FEW else (False,)
    return [Recipe(*kind, *rule) for kind, rule in product(product(few, ROUNDS), TRIED)]


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
        # The few columns over which the merits vary most between actions.
        vary = (tables[False][ROUNDS[0]].merit[:, :-1] ** 2).sum(axis=0)
        few = np.sort(np.argsort(-vary, kind="stable")[:FEW])
        tables[True] = _tables(log, few, gamma, n_actions, rounds[True])
    own = fingerprints(log)
    return {r: replace(tables[r.few][r.rounds], rule=r.rule, strength=r.strength, learnt_from=own) for r in made}


def _tables(log: Transitions, columns: Array, gamma: float, n_actions: int, rounds: int) -> dict[int, ScorePolicy]:
    """A policy on these columns after each number of rounds, greedy in the values it has learnt by then."""
    scaler = StandardScaler().fit(log.observation[:, columns])
    units = (scaler.mean_, np.where(scaler.scale_ > 0, scaler.scale_, 1.0))
    center, scale = (np.array([float(f"{v:.6g}") for v in unit]) for unit in units)  # six digits, as they are printed
    names, actions = tuple(log.labels()), (log.action_names or ())[:n_actions]
    zero, none = np.zeros((n_actions, len(columns) + 1)), np.zeros(0, dtype=np.uint64)
    now = ScorePolicy(names, columns, center, scale, zero, zero, "tilt", 0.0, none, actions)
    habit = _habit(now.transform(log.observation), np.asarray(log.action), n_actions).round(DECIMALS)
    now, found = replace(now, habit=habit), dict[int, ScorePolicy]()
    for k in range(1, rounds + 1):
        merit = _merit(ActionValue.fit(ActionRows.of(log, now, gamma, now))).round(DECIMALS)
        found[k] = now = replace(now, merit=merit, rule="greedy", strength=0.05)
    return found


def _habit(z: Array, action: Array, n_actions: int) -> Array:
    """Log-odds of the logged actions; an action that was never taken has a probability near 0."""
    model = LogisticRegression(max_iter=300, C=1.0).fit(z, action)
    table = np.zeros((n_actions, z.shape[1] + 1))
    table[:, -1] = -30.0  # e⁻³⁰: impossible in practice, and still finite in a printed table
    coef, intercept = model.coef_, model.intercept_
    if len(model.classes_) == 2:  # scikit-learn gives one row of log-odds for two classes: each gets half
        coef, intercept = np.vstack([-coef, coef]) / 2, np.append(-intercept, intercept) / 2
    table[model.classes_] = np.column_stack([coef, intercept])
    return table


def _merit(found: ActionValue) -> Array:
    """Q less its mean over the actions of a state, divided by its standard deviation over the logged choices."""
    seen = np.unique(found.rows.action)
    theta = found.theta - found.theta[seen].mean(axis=0)
    advantage = (found.rows.phi @ theta.T) * found.rows.pi
    gap = np.einsum("td,td->t", found.rows.phi, theta[found.rows.action]) - advantage.sum(axis=1)
    return theta / (float(gap.std()) or 1.0)
