"""Small logs whose truth is known: linear walks that end by a coin, so that their age says nothing."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np

from sparsetd.evaluation.cautions import RULES
from sparsetd.evaluation.linear import LinearValue, sums_of
from sparsetd.evaluation.reading import Part, answer
from sparsetd.logs import Transitions

GAMMA = 0.9


def found_by(code, **evidence):
    """Severity and sentence of a rule of the table, or None, for evidence of which only this is known."""
    rule = next(rule for rule in RULES if rule.code == code)
    found = rule.caution(SimpleNamespace(sample_mean=False, **evidence))
    return None if found is None else (found.severity, found.text)


def asked(rows, *asks):
    """The answers to asks: one, or a list of several."""
    found = list(vars(answer(rows, **{f"ask {i}": ask for i, ask in enumerate(asks)})).values())
    return found[0] if len(found) == 1 else found


def dense_part(batch, episodes, columns=None, ratios=None):
    """The part on these columns of φ, dense; on all of them by default."""
    return Part(batch, episodes, ratios=ratios).on(np.arange(batch.n_features) if columns is None else columns)


def fitted(batch, support, episodes):
    """The value function on the columns `support` of a batch, and the part that it was fitted on."""
    part = dense_part(batch, episodes, support)
    return LinearValue.solve(sums_of(part)), part


def linear_walk(seed=0, episodes=150, ends=1 / 6, cut_after=None, start=0.0, columns=3):
    """s' = 0.7 s + noise, moved by the action; r = s₀ + s₁/2 + 0.3 a. The behaviour tosses a coin, the target leans.

    V of the target is linear in the first two columns; the others are noise.
    """
    rng = np.random.default_rng(seed)
    rows = []
    for episode in range(episodes):
        s, age, over = start + rng.normal(size=columns), 0, False
        while not over:
            a = int(rng.random() < 0.5)
            after = 0.7 * s + 0.5 * rng.normal(size=columns)
            after[0] += 0.5 * (2 * a - 1)
            age += 1
            over = rng.random() < ends if cut_after is None else age == cut_after
            rows.append((s, s[0] + 0.5 * s[1] + 0.3 * a + 0.2 * rng.normal(), after, a, over, episode))
            s = after
    s, r, after, a, over, episode = map(np.array, zip(*rows, strict=True))
    return Transitions.from_arrays(
        s, r, after, action=a, terminated=over & (cut_after is None), truncated=over & (cut_after is not None),
        episode=episode, behavior_prob=np.full(len(s), 0.5), target_prob=np.where(a == 1, 0.6, 0.4),
        names=[f"x{i}" for i in range(columns)],
    )  # fmt: skip


def one_step(x, reward, ratio):
    """Episodes of one step each."""
    x = np.asarray(x, dtype=float).reshape(len(reward), -1)
    end = np.ones(len(x), dtype=bool)
    return Transitions.from_arrays(x, reward, np.zeros_like(x), terminated=end, episode=np.arange(len(x)), ratio=ratio)


def with_columns(log, here, there):
    """The log with more observed columns."""
    s, after = np.column_stack([log.observation, here]), np.column_stack([log.next_observation, there])
    return replace(log, observation=s, next_observation=after, names=tuple(f"x{i}" for i in range(s.shape[1])))
