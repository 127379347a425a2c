"""`compare`: which of several policies is best, from one log, with intervals that hold for all of them at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np

from sparsetd.decisions.judge import Judge, is_behavior, unseen
from sparsetd.decisions.shown import Decision
from sparsetd.decisions.simultaneous import Together, Value, minus
from sparsetd.decisions.subgroups import groups_of
from sparsetd.decisions.where import Place, places
from sparsetd.evaluation.cautions import Caution, by_severity
from sparsetd.evaluation.result import SIGNS
from sparsetd.evaluation.target import Target
from sparsetd.logs import Transitions
from sparsetd.system import Array


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(Decision):
    """Values of policies, and all their differences.

    Attributes
    ----------
    values, differences : Together
        Estimates by name, and by pair (a, b) for the value of a less that of b. `interval(key)` of each holds for all
        of its keys at once.
    best_set : tuple of str
        The policies that may be the best: no other one is better beyond chance.
    unjudged : tuple of str
        The policies whose value is not to be relied on: each has a caution of severity "red".
    groups : Together
        With `by`: by (group, name), the difference to the reference within the group. Empty otherwise.
    where : mapping
        For every policy but the reference: where it acts differently, and what that is worth.
    reference : str
        The policy the others are compared with in `groups` and `where`: the first.
    cautions : tuple of Caution
        What speaks against it.
    """

    values: Together
    differences: Together
    best_set: tuple[str, ...]
    groups: Together
    where: Mapping[str, tuple[Place, ...]]
    reference: str
    unjudged: tuple[str, ...]
    gamma: float
    cautions: tuple[Caution, ...] = ()
    _page = "comparison_page"

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON and for the page."""
        return {
            "gamma": self.gamma,
            "level": self.values.level,
            "reference": self.reference,
            "values": [{"name": k, **_entry(self.values, k)} for k in self.values],
            "differences": [{"name": a, "less": b, **_entry(self.differences, (a, b))} for a, b in self.differences],
            "best_set": list(self.best_set),
            "unjudged": list(self.unjudged),
            "sentence": self.sentence(),
            "groups": [{"group": g, "name": k, **_entry(self.groups, (g, k))} for g, k in self.groups],
            "where": {
                name: [place.to_dict(self.values.level) for place in found] for name, found in self.where.items()
            },
            "warnings": [asdict(caution) for caution in self.cautions],
        }

    def __str__(self) -> str:
        level = f"{100 * self.values.level:.6g}%"
        lines = [f"values, with {level} intervals that hold for all policies at once:"]
        lines += [f"  {k:<24s} {_words(self.values, k)}" for k in self.values]
        lines += ["differences:"]
        lines += [f"  {f'{a} − {b}':<24s} {_words(self.differences, (a, b), '+')}" for a, b in self.differences]
        if self.groups:
            lines += [f"difference to {self.reference} by group:"]
            lines += [f"  {f'{g}: {k}':<36s} {_words(self.groups, (g, k), '+')}" for g, k in self.groups]
        return "\n".join([*lines, self.sentence(), *(f"{SIGNS[c.severity]}: {c}" for c in self.cautions)])

    def sentence(self) -> str:
        """Which policy is best, as far as the log can tell, and which of them it cannot judge."""
        if len(self.best_set) == 1:
            found = f"{self.best_set[0]} is the best of these policies, beyond chance."
        else:
            others = "." if len(self.best_set) == len(self.values) else "; the others are worse beyond chance."
            found = f"The log cannot tell which of {_listed(self.best_set)} is best{others}"
        if not self.unjudged:
            return found
        return f"{found} Do not rely on what the log says about {_listed(self.unjudged)}: see why below."


def compare(
    log: Transitions,
    policies: Mapping[str, Any],
    *,
    gamma: float = 0.99,
    features: Any = None,
    classifier: Any = None,
    level: float = 0.95,
    by: Any = None,
) -> Comparison:
    """Values of several policies and all their differences, with simultaneous intervals.

    Parameters
    ----------
    log : Transitions
        In whole episodes.
    policies : mapping
        Name to policy, in any form that `evaluate` takes as a target. The first is the reference.
    features : transformer, optional
        φ of an observation; its standardised columns by default.
    by : str, array, mapping or function, optional
        Subgroups by what is known when an episode begins: the name of an observed column, or {name: values} of another
        (thirds where it has many values); a label per row or per episode; a function from observations to labels; or
        "group", for a column that the log was read with as ``read(…, group="age_group")``.
    """
    if len(policies) < 2:
        raise ValueError(f"`policies` has {len(policies)} entry: name at least two policies to compare.")
    if any(not isinstance(name, str) or not name.strip() for name in policies):
        raise ValueError("`policies` has an empty name: give every policy a name.")
    rows, groups = unseen(log, policies), {} if by is None else groups_of(log, by)
    judge = Judge.of(log[rows], gamma, features=features, classifier=classifier)
    own = {
        name: policy[rows] if isinstance(policy, (np.ndarray, Target)) else policy for name, policy in policies.items()
    }
    ratios = {name: judge.ratio(policy, name) for name, policy in own.items()}
    fits = {name: judge.fit(ratio) for name, ratio in ratios.items()}
    found = {name: fit.value for name, fit in fits.items()}
    # The logged behaviour is worth what it earned. Differences are between fits of the same features, so that what
    # these miss cancels.
    shown = {name: (is_behavior(own[name]) and judge.earned()) or value for name, value in found.items()}
    differences = Together.of({(b, a): minus(found[b], found[a]) for a, b in combinations(found, 2)}, level)
    reference, best = next(iter(policies)), _best(differences, list(policies))
    said = {name: fit.cautions(judge.behavior is not None) for name, fit in fits.items() if not fit.as_logged}
    top = max(found, key=lambda name: found[name][0])
    if len(best) < len(policies) and top in said:  # somebody may follow it
        said[top] += fits[top].misfit(judge.names)
    return Comparison(
        values=Together.of(shown, level),
        differences=differences,
        best_set=best,
        groups=_by_group(judge, ratios, {label: members[rows] for label, members in groups.items()}, level),
        where={name: places(judge, fits[name], fits[reference]) for name in policies if name != reference},
        reference=reference,
        unjudged=tuple(name for name, cautions in said.items() if any(c.severity == "red" for c in cautions)),
        gamma=gamma,
        cautions=_cautions(judge, said, log.n_episodes),
    )


def _cautions(judge: Judge, said: Mapping[str, list[Caution]], n_episodes: int) -> tuple[Caution, ...]:
    """What speaks against each value, with the policy's name before it, and what was left out or estimated."""
    found = [replace(c, text=f"{name}: {c.text}") for name, cautions in said.items() for c in cautions]
    if (gone := n_episodes - judge.log.n_episodes) > 0:
        words = f"{gone} of {n_episodes} episodes are left out, because a policy was learnt from them."
        found.append(Caution("episodes_left_out", "note", words))
    if judge.behavior is not None:
        found.append(Caution("behavior_estimated", "note", judge.behavior.summary()))
    return by_severity(found)


def _best(differences: Together, names: list[str]) -> tuple[str, ...]:
    """All but those that another policy beats: the interval of a difference lies on one side of 0."""
    worse = set()
    for a, b in differences:
        low, high = differences.interval((a, b))
        worse |= {b} if low > 0 else {a} if high < 0 else set()
    return tuple(name for name in names if name not in worse)


def _by_group(judge: Judge, ratios: Mapping[str, Array], groups: Mapping[str, Array], level: float) -> Together:
    """Differences to the reference within every group of rows, each fitted to the group's own episodes."""
    reference, *others = ratios
    found: dict[Any, Value] = {}
    within: dict[Any, Array] = {}
    for label, members in groups.items():
        rows, inside = np.flatnonzero(members), members[judge.part.episodes.first]
        if inside.sum() < 2:
            raise ValueError(f"`by` makes a group {label!r} of one episode, which has no interval: join it to another.")
        part = judge.only(rows)
        base = part.value(ratios[reference][rows])
        found |= {(label, name): minus(part.value(ratios[name][rows]), base) for name in others}
        within |= {(label, name): inside for name in others}
    return Together.of(found, level, within)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:-1]) + " and " + names[-1] if len(names) > 1 else names[0]


def _entry(found: Together, key: Any) -> dict[str, Any]:
    return {"value": found[key].value, "interval": found.interval(key), "standard_error": found[key].standard_error}


def _words(found: Together, key: Any, sign: str = "") -> str:
    low, high = found.interval(key)
    return f"{found[key].value:{sign}.4f} ({low:{sign}.4f} to {high:{sign}.4f})"
