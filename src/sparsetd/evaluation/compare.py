"""`compare`: which of several policies is best, from one log, with intervals that hold for all of them at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from typing import Any

from sparsetd import plots
from sparsetd._tools.lazy_names import renamed
from sparsetd.evaluation.cautions import Caution, by_severity
from sparsetd.evaluation.estimate import Together
from sparsetd.evaluation.evaluator import judge
from sparsetd.evaluation.reading import Progress, Settings
from sparsetd.evaluation.result import ASSUMPTIONS, Decision, Evaluation, Robustness
from sparsetd.evaluation.subgroups import DONE, Place, by_group, groups_of, places, thirds_of
from sparsetd.logs.engines import Engine
from sparsetd.logs.rules import Family, is_rule, policy

NO_GAIN = "No gain over what was done is beyond chance."


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(Decision):
    """Hold the values of several policies and all their differences, as `compare` found them.

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
        With `by`, the difference to the reference within each group, by (group, name). With a single policy it is the
        difference to what was done. Empty without `by`.
    where : mapping
        Where each policy except the reference acts differently, and what that is worth.
    reference : str
        The policy the others are compared with in `groups` and `where`: the first.
    evaluations : mapping
        What `evaluate` says of each policy.
    cautions : tuple of Caution
        What speaks against these values. A caution that not all policies share begins with the policy's name.
    thresholds : tuple of float
        The threshold of each policy, if they are a family of rules.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsetd import compare, prepare
    >>> rng = np.random.default_rng(0)
    >>> x, action = rng.normal(size=300), rng.integers(2, size=300)
    >>> raw = {"x": x, "action": action, "reward": action * x + rng.normal(0, 0.5, size=300)}
    >>> log = prepare(raw, bandit=True).transitions
    >>> found = compare(log, {"never": "0", "by x": "1 if x > 0; else 0"}, features=None, n_resamples=0)
    >>> found.reference, found.best_set, found.unjudged
    ('never', ('by x',), ())
    >>> bool(found.differences["by x", "never"].value > 0)
    True
    >>> list(found.evaluations)
    ['never', 'by x']
    """

    values: Together
    differences: Together
    best_set: tuple[str, ...]
    groups: Together
    where: Mapping[str, tuple[Place, ...]]
    reference: str
    unjudged: tuple[str, ...]
    gamma: float
    evaluations: Mapping[str, Evaluation]
    cautions: tuple[Caution, ...] = ()
    thresholds: tuple[float, ...] = ()
    _page = "decision_page:comparison"

    @property
    def robustness(self) -> dict[str, Robustness | None]:
        """For each policy, the strength of an unrecorded cause that would explain away its difference to the log."""
        return {name: e.robustness for name, e in self.evaluations.items()}

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON and for the page."""
        return {
            "gamma": self.gamma,
            "level": self.values.level,
            "reference": self.reference if len(self.values) > 1 else DONE,
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
            "robustness": {name: None if r is None else r.sentence() for name, r in self.robustness.items()},
            "done": self.evaluations[self.reference].to_dict()["behavior_value"],
            "to_done": {
                name: {"value": e.difference.value, "interval": self.to_done(name)}
                | {"robustness": None if e.robustness is None else e.robustness.to_dict()}
                for name, e in self.evaluations.items()
            },
            "acts": {name: e.acts for name, e in self.evaluations.items()},
            "thresholds": list(self.thresholds),
            "called": self.called,
            "assumptions": ASSUMPTIONS,
        }

    def plot(self, ax: Any = None) -> Any:
        """Plot the values with intervals that hold at once: by threshold for a family of rules, else by name.

        A dashed line is the value of what was done.
        """
        ends = [(name, self.values[name].value, self.values.interval(name)) for name in self.values]
        done = ("what was done", self.evaluations[self.reference].behavior.value)
        if not self.thresholds:
            return plots.forest(ends, ax, label="value of the policy", ours=len(ends), line=done)
        return plots.band(self.thresholds, [v for _, v, _ in ends], [i for _, _, i in ends], ax, line=done)

    def sentence(self) -> str:
        """A sentence about the best policy, as far as the log can tell, and about those that it cannot judge."""
        if len(self.values) == 1:
            gain = "It is better than what was done, beyond chance." if self.better else NO_GAIN
            found = f"One policy, {self.reference}, was evaluated. {gain}"
        elif len(self.best_set) == 1:
            found = self._listed(self.best_set)
            found = found[0].upper() + found[1:] if self.thresholds else found
            if self.best_set[0] in self.unjudged:
                found = f"{found} has the highest value of these policies."
            else:
                found = f"{found} is the best of these policies, beyond chance and if the assumptions hold."
                found += "" if self.better else f" {NO_GAIN}"
        else:
            others = "." if len(self.best_set) == len(self.values) else "; the others are worse beyond chance."
            found = f"The log cannot tell which of {self._listed(self.best_set)} is best{others}"
        if not self.unjudged:
            return found
        return f"{found} Do not rely on what the log says about {self._listed(self.unjudged)}: see why below."

    def to_done(self, name: str) -> tuple[float, float]:
        """The interval of a policy's difference to what was done; those of all policies hold at once."""
        others = sum(e.difference.standard_error > 0 for e in self.evaluations.values())  # not the log itself
        each = 1 - (1 - self.values.level) / max(others, 1)
        return self.evaluations[name].difference.interval(each)

    @property
    def better(self) -> tuple[str, ...]:
        """The policies of `best_set` that are better than what was done, beyond chance."""
        return tuple(name for name in self.best_set if self.to_done(name)[0] > 0)

    @property
    def called(self) -> dict[str, str]:
        """How a sentence calls each policy: by its name, or by its threshold if the policies are a family of rules."""
        return dict(zip(self.values, [f"threshold {t:g}" for t in self.thresholds] or self.values, strict=True))

    def _listed(self, names: Sequence[str]) -> str:
        *others, last = (self.called[name].removeprefix("threshold ") for name in names)
        kind = f"the threshold{'s' if others else ''} " if self.thresholds else ""
        return kind + (f"{', '.join(others)} and {last}" if others else last)


@renamed
def compare(
    transitions: Any,
    targets: Any,
    *,
    gamma: float = 0.99,
    features: Any = "auto",
    classifier: Any = None,
    level: float = 0.95,
    by: Any = None,
    n_folds: int = 5,
    n_resamples: int = 20,
    random_state: int = 0,
    cluster: Any = None,
    engine: Engine | None = None,
    checkpoint: str | None = None,
    progress: Progress | None = None,
) -> Comparison:
    """Compare several policies on one log: which may be best, with intervals that hold for all of them at once.

    All policies are judged as `evaluate` judges one, from the same readings of the log.

    Parameters
    ----------
    transitions : Transitions, or path
        The log, in whole episodes, in memory or in shards.
    targets : mapping, or family of rules
        Name to policy, in any form that `evaluate` takes as a target; the first is the reference. A rule with a range
        of thresholds ("B if lactate > {1..4}") stands for one policy per threshold.
    by : str, array, mapping or function, optional
        Subgroups by something known when an episode begins: the name of an observed column, or {name: values} of
        another (thirds where it has many values); a label per row or per episode; a function from observations to
        labels; or "group", for a column that the log was read with as ``read(…, group="age_group")``.
    gamma, features, classifier, level, n_folds, n_resamples, random_state, cluster, engine, checkpoint
        As in `evaluate`.

    See also `evaluate`: one policy; `improve`: a policy that need not be known beforehand.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsetd import compare, prepare
    >>> rng = np.random.default_rng(0)
    >>> x, action = rng.normal(size=300), rng.integers(2, size=300)
    >>> raw = {"x": x, "action": action, "reward": action * x + rng.normal(0, 0.5, size=300)}
    >>> log = prepare(raw, bandit=True).transitions
    >>> targets = {"always 1": "1", "by x": "1 if x > 0; else 0"}
    >>> found = compare(log, targets, features=None, n_resamples=0)
    >>> found.best_set
    ('by x',)
    >>> low, high = found.differences.interval(("by x", "always 1"))
    >>> bool(low > 0)
    True
    """
    named, thresholds = _named(targets)
    how = (gamma, features, None, classifier, level, n_folds, n_resamples, random_state, cluster)
    settings = Settings(*how, engine, checkpoint, progress)
    found = judge(transitions, named, settings)
    own = {policy.name: policy for policy in found}
    values = {name: policy.value for name, policy in own.items()}
    pairs = {(b, a): values[b].less(values[a]) for a, b in combinations(values, 2)}
    differences, (reference, *others) = Together.of(pairs, level), list(own)
    # A policy is worse than another if the interval of their difference excludes 0.
    ends = {pair: differences.interval(pair) for pair in pairs}
    worse = {b for (_, b), (low, _) in ends.items() if low > 0} | {a for (a, _), (_, high) in ends.items() if high < 0}
    said = {name: policy.cautions for name, policy in own.items()}
    return Comparison(
        values=Together.of(values, level),
        differences=differences,
        best_set=tuple(name for name in own if name not in worse),
        groups=Together.of({}, level) if by is None else by_group(found, groups_of(found[0].first.log, by, cluster)),
        where=places(found, own[reference], thirds_of(found[0].log)) if others and not thresholds else {},
        reference=reference,
        unjudged=tuple(name for name, cautions in said.items() if any(c.severity == "red" for c in cautions)),
        gamma=gamma,
        evaluations={name: policy.evaluation() for name, policy in own.items()},
        cautions=_cautions(said),
        thresholds=thresholds,
    )


def _named(targets: Any) -> tuple[dict[str, Any], tuple[float, ...]]:
    """The policies by name, and their thresholds if they are a family of rules."""
    family = _family(targets)
    if family is not None:
        return {rule.text: rule for rule in family}, tuple(family.thresholds)
    if not isinstance(targets, Mapping) or not targets:
        raise ValueError("`targets` must name the policies to compare: pass {'current': 'behavior', 'new': …}.")
    if any(not isinstance(name, str) or not name.strip() for name in targets):
        raise ValueError("`targets` has an empty name: give every policy a name.")
    named: dict[str, Any] = {}
    for name, form in targets.items():
        several = _family(form)
        named |= {name: form} if several is None else {rule.text: rule for rule in several}
    return named, ()


def _family(form: Any) -> Family | None:
    """The policies of a rule with a range of thresholds; None for any other form of a target."""
    found = policy(form) if isinstance(form, str) and is_rule(form) else form
    return found if isinstance(found, Family) else None


def _cautions(said: Mapping[str, Sequence[Caution]]) -> tuple[Caution, ...]:
    """The cautions of all policies, each after the policy's name; one that all share comes once, without a name."""
    found: list[Caution] = []
    for name, cautions in said.items():
        for caution in cautions:
            of_all = all(caution in others for others in said.values())
            own = caution if of_all else replace(caution, text=f"{name}: {caution.text}")
            found += [] if own in found else [own]
    return by_severity(found)


def _entry(found: Together, key: Any) -> dict[str, Any]:
    return {"value": found[key].value, "interval": found.interval(key), "standard_error": found[key].standard_error}
