"""Where two policies differ, for whom, and what that is worth.

    v_π − v_κ = Σ_t ω_t ρ_t (r_t + γV_κ(s'_t) − V_κ(s_t))      ω the implied weights of π (see `evaluation.linear`)

is exact for the two fits of linear values on the same rows: the performance difference. So every row has a share in the
difference, and shares add up over any groups of rows. How much the policies differ in a group is the mean of
|ρ_π − ρ_κ|/2, the total variation between them, seen from the logged actions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from sparsetd.decisions.judge import Fit, Judge
from sparsetd.evaluation.episodes import Episodes
from sparsetd.evaluation.estimate import Estimate
from sparsetd.logs import Transitions
from sparsetd.system import Array

SHOWN = 4  # columns that are cut into groups
ACTIONS = 8  # actions that stand alone; the others are one group


@dataclass(frozen=True)
class Place:
    """A group of rows: its name, its share of the log and of the policy's own steps, and what differs there.

    `differs` is the share of decisions that the policy takes otherwise; NaN for the group of one action.
    """

    group: str
    share: float
    visited: float
    differs: float
    gain: Estimate

    def to_dict(self, level: float) -> dict[str, Any]:
        return {**asdict(self), "gain": self.gain.value, "interval": self.gain.interval(level)}


def places(judge: Judge, own: Fit, other: Fit) -> tuple[Place, ...]:
    """The difference of two policies by logged action, and by thirds of the columns by which their acts differ most."""
    part, log = own.part, judge.log
    weight = own.model.weights(part) * part.batch.ratio
    gain = weight * other.model.errors(part) * len(part.episodes)
    rows = (gain, np.abs(part.batch.ratio - other.part.batch.ratio) / 2, weight)
    found = [] if log.action is None or log.action.ndim > 1 else _of_actions(log, rows, part.episodes)
    cut = sorted(judge.thirds, key=lambda groups: -np.ptp([rows[1] @ own / own.sum() for own in groups.values()]))
    return (
        *found,
        *(_place(name, members, rows, part.episodes) for groups in cut[:SHOWN] for name, members in groups.items()),
    )


def _of_actions(log: Transitions, rows: Sequence[Array], episodes: Episodes) -> list[Place]:
    """The actions that matter most, and all others as one group."""
    gain, _, weight = rows
    action, names = np.asarray(log.action), log.action_names
    rows = (gain, np.full(len(gain), np.nan), weight)
    size = np.abs(np.bincount(action, gain))
    logged = np.unique(action)
    order = logged[np.argsort(-size[logged], kind="stable")]
    shown, rest = order[:ACTIONS], np.isin(action, order[ACTIONS:])
    words = [f"action {a if names is None else names[a]}" for a in shown]
    found = [_place(name, action == a, rows, episodes) for name, a in zip(words, shown, strict=True)]
    return [*found, *([_place("other actions", rest, rows, episodes)] if rest.any() else [])]


def _place(name: str, members: Array, rows: Sequence[Array], episodes: Episodes) -> Place:
    gain, differs, weight = rows
    each = episodes.total(gain * members)
    total = Estimate.of_influence(name, float(each.mean()), each - each.mean())
    visited = float(weight[members].sum() / weight.sum()) if weight.sum() > 0 else float("nan")
    return Place(name, float(members.mean()), visited, float(differs[members].mean()), total)
