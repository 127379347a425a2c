"""Where two policies differ, for whom, and what that is worth.

    v_π − v_κ = Σ_t ω_t ρ_t (r_t + γV_κ(s'_t) − V_κ(s_t))

is exact for the two fits of linear values on the same rows: the performance difference, with the implied weights ωρ of
the rows for π. So every row has a share in the difference, and shares add up over any groups of rows. How much the
policies differ in a group is the mean of |ρ_π − ρ_κ|/2, the total variation between them, seen from the logged actions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from sparsetd.decisions.subgroups import thirds
from sparsetd.evaluation.episodes import Episodes
from sparsetd.evaluation.estimate import Estimate
from sparsetd.evaluation.linear import LinearValue
from sparsetd.evaluation.moments import Part
from sparsetd.system import Array
from sparsetd.transitions import Transitions

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


def places(
    part: Part, reference: Array, log: Transitions, models: tuple[LinearValue, LinearValue]
) -> tuple[Place, ...]:
    """The difference of two policies by logged action, and by thirds of the columns by which their acts differ most.

    `part` has the ratios of the policy, `reference` those of the policy it is compared with; `models` are their fits.
    """
    (own, other), batch, episodes = models, part.batch, part.episodes
    weight = own.weights(part)
    gain = weight * batch.ratio * other.errors(part) * len(episodes)
    rows = (gain, np.abs(batch.ratio - reference) / 2, weight * batch.ratio)
    found = [] if log.action is None or log.action.ndim > 1 else _of_actions(log, rows, episodes)
    groups = [thirds(name, column) for name, column in _columns(log)]
    cut = [
        [_place(words, rows_, rows, episodes) for words, rows_ in group.items()] for group in groups if len(group) > 1
    ]
    return (*found, *(place for column in sorted(cut, key=_spread)[-1 : -SHOWN - 1 : -1] for place in column))


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


def _columns(log: Transitions) -> list[tuple[str, Array]]:
    names = log.names or [f"x{i}" for i in range(log.observation.shape[1])]
    return list(zip(names, log.observation.T, strict=True))


def _place(name: str, members: Array, rows: Sequence[Array], episodes: Episodes) -> Place:
    gain, differs, weight = rows
    each = episodes.total(gain * members)
    total = Estimate.of_influence(name, float(each.mean()), each - each.mean())
    visited = float(weight[members].sum() / weight.sum()) if weight.sum() > 0 else float("nan")
    return Place(name, float(members.mean()), visited, float(differs[members].mean()), total)


def _spread(found: list[Place]) -> float:
    values = [place.differs for place in found]
    return max(values) - min(values)
