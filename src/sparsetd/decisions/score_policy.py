"""A policy that can be read: two small tables of scores and one rule.

    z = (s − center)/scale      habit_a = h_aᵀ[z 1]      merit_a = m_aᵀ[z 1]      μ̂ = softmax(habit)

    greedy   the action of greatest merit among those with μ̂(a|s) ≥ strength (and the most usual one)
    safe     as greedy, but rarer actions keep their probability: only the rest of it moves
    tilt     softmax(habit + strength · merit) over the actions with μ̂(a|s) ≥ .02

Habit is what was usually done, merit the estimated value of an action in units of its usual spread. The numbers are
rounded when the policy is made: what is printed is what was tested.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sparsetd.system import Array

DECIMALS = 3
LEAST = 0.02  # what was done more rarely than this is not advised
RULES = {
    "greedy": "Take the action of greatest merit among those usually taken with probability {0:g} or more.",
    "safe": "Give the probability of all actions usually taken with {0:g} or more to the one of greatest merit among "
    "them; leave rarer actions as they are.",
    "tilt": "Take each action with the probability that the scores give (softmax): the usual log-odds plus {0:g} times "
    "its merit. Actions usually taken with less than 0.02 are left out.",
}


@dataclass(frozen=True, eq=False, repr=False)
class ScorePolicy:
    """Observations (n, p) → probabilities (n, A), by `rule` on the tables `habit` and `merit` (A, k + 1).

    `names` are all observed columns, `columns` the numbers of the k that are used; the last column of a table
    is its constant, and `learnt_from` the fingerprints of the episodes that taught it (`evaluation.learnt`).
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

    def __call__(self, observation: Any) -> Array:
        """π(·|s) of every row."""
        s = np.atleast_2d(np.asarray(observation, dtype=np.float64))
        if s.shape[1] != len(self.names):
            raise ValueError(
                f"the policy was learnt from {len(self.names)} observed columns, but row 0 has {s.shape[1]}: pass the "
                "same columns."
            )
        z = np.hstack([(s[:, self.columns] - self.center) / self.scale, np.ones((len(s), 1))])
        return _RULES[self.rule](z @ self.habit.T, z @ self.merit.T, self.strength)

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
        """Whether the tables fit together: a file may hold anything."""
        k, numbers = np.shape(self.columns), (self.center, self.scale, self.habit, self.merit)
        if not isinstance(self.names, tuple) or not all(isinstance(name, str) for name in self.names):
            return False
        whole = isinstance(self.columns, np.ndarray) and len(k) == 1
        if not whole or not all(isinstance(v, np.ndarray) and v.dtype == np.float64 for v in numbers):
            return False
        sized = self.center.shape == self.scale.shape == k and self.habit.shape == self.merit.shape
        sized = sized and self.habit.ndim == 2 and self.habit.shape[1] == k[0] + 1 and len(self.habit) > 0
        finite = all(np.isfinite(v).all() for v in numbers) and isinstance(self.strength, float)
        known = isinstance(self.rule, str) and self.rule in RULES and isinstance(self.learnt_from, np.ndarray)
        inside = self.columns.dtype.kind == "i" and bool(np.all((self.columns >= 0) & (self.columns < len(self.names))))
        return sized and finite and bool(np.isfinite(self.strength)) and known and inside

    def to_dict(self) -> dict[str, Any]:
        """The rule and the table of scores, by action and column."""
        heads = [*(self.names[c] for c in self.columns), "constant"]
        tables = {"scores": np.round(self.scores, DECIMALS), "habit": self.habit, "merit": self.merit}
        named = {key: [dict(zip(heads, row, strict=True)) for row in table.tolist()] for key, table in tables.items()}
        units = {"center": dict(zip(heads, self.center.tolist(), strict=False))}
        units["scale"] = dict(zip(heads, self.scale.tolist(), strict=False))
        words = RULES[self.rule].format(self.strength)
        return {"rule": self.rule, "strength": self.strength, "words": words, **named, **units}

    def __repr__(self) -> str:
        return f"ScorePolicy({self.rule} {self.strength:g}: {len(self.habit)} actions, {len(self.columns)} columns)"

    def __str__(self) -> str:
        """The rule in a sentence and, for every action, the columns that move its score most."""
        unit = "change in log-odds" if self.rule == "tilt" else "change in merit"
        lines = [RULES[self.rule].format(self.strength), f"score of each action ({unit} per standard deviation):"]
        for a, row in enumerate(self.scores):
            top = np.argsort(-np.abs(row[:-1]), kind="stable")[:5]
            parts = [f"{row[j]:+.{DECIMALS}f} {self.names[self.columns[j]]}" for j in top if row[j]]
            lines.append(f"  action {a}: {row[-1]:+.{DECIMALS}f} {' '.join(parts)}" + (" …" if len(row) > 6 else ""))
        return "\n".join(lines)


def _allowed(habit: Array, strength: float) -> tuple[Array, Array]:
    """μ̂, and which actions are usual enough; the most usual one always is."""
    usual = softmax(habit)
    return usual, (usual >= strength) | (usual == usual.max(axis=1, keepdims=True))


def _greedy(habit: Array, merit: Array, strength: float) -> Array:
    _, allowed = _allowed(habit, strength)
    return np.asarray(np.eye(merit.shape[1])[np.where(allowed, merit, -np.inf).argmax(axis=1)])


def _safe(habit: Array, merit: Array, strength: float) -> Array:
    usual, allowed = _allowed(habit, strength)
    moved = (usual * allowed).sum(axis=1, keepdims=True)
    return np.asarray(usual * ~allowed + moved * _greedy(habit, merit, strength))


def _tilt(habit: Array, merit: Array, strength: float) -> Array:
    _, allowed = _allowed(habit, LEAST)
    return softmax(np.where(allowed, habit + strength * merit, -np.inf))


_RULES = {"greedy": _greedy, "safe": _safe, "tilt": _tilt}


def softmax(scores: Array) -> Array:
    share = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(share / share.sum(axis=1, keepdims=True))
