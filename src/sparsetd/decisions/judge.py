"""One log, many policies: what can be made once for all of them is, and only the ratios differ."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.preprocessing import StandardScaler

from sparsetd.decisions.simultaneous import Value
from sparsetd.decisions.subgroups import thirds
from sparsetd.evaluation.action_values import refuse_unseen
from sparsetd.evaluation.behavior import BehaviorPolicy, estimate_behavior
from sparsetd.evaluation.cautions import Caution
from sparsetd.evaluation.choice import affordable, choose, value_columns
from sparsetd.evaluation.diagnostics import overlap
from sparsetd.evaluation.episodes import Episodes
from sparsetd.evaluation.estimate import Estimate
from sparsetd.evaluation.facts import Facts
from sparsetd.evaluation.linear import LinearValue
from sparsetd.evaluation.misfit import extra_sums, misfit
from sparsetd.evaluation.moments import Moments, Part
from sparsetd.evaluation.sanity import on_the_value
from sparsetd.evaluation.support import support, weights
from sparsetd.evaluation.target import Target, pose
from sparsetd.features.featurize import feature_names, featurize, fit_features
from sparsetd.logs import Transitions
from sparsetd.logs.learnt import taught
from sparsetd.selection import SparseTDCV
from sparsetd.system import Array

BEHAVIOR = ("behavior", "behaviour")


@dataclass(frozen=True, eq=False)
class Fit:
    """The linear value of one policy, on the rows with its ratios."""

    model: LinearValue
    part: Part
    moments: Moments

    @property
    def as_logged(self) -> bool:
        """Whether the policy is the logged behaviour."""
        return bool((self.part.batch.ratio == 1).all())

    @cached_property
    def value(self) -> Value:
        return self.model.value, self.model.influence(self.part)

    def cautions(self, estimated: bool) -> list[Caution]:
        """What speaks against the value: the fit, how little of the log carries it, how few of its actions it has."""
        none, facts = np.zeros(0, dtype=np.intp), Facts.of(self.part)
        (sums,) = self.part.answer(weights(self.model, none, none, none))
        fit = on_the_value(self.model, self._estimate(), facts)
        return [*fit, *support(sums, none, facts.n_episodes).cautions(), *overlap(facts, estimated).cautions()]

    def misfit(self, names: Array) -> list[Caution]:
        """Whether these features can represent the value, and whether the log records the state."""
        order = np.argsort(-np.abs(self.model.theta[:-1]) * self.moments.spread(), kind="stable")
        (sums,) = self.part.answer(extra_sums(self.model, order))
        return misfit(self.model, sums, self.part, self.moments, names, order).cautions(self._estimate())

    def _estimate(self) -> Estimate:
        return Estimate.of_influence("", *self.value)


@dataclass(frozen=True, eq=False)
class Judge:
    """A log with its features and behaviour probabilities (estimated once where it has none)."""

    log: Transitions
    part: Part
    names: Array
    behavior: BehaviorPolicy | None = None

    @classmethod
    def of(cls, log: Transitions, gamma: float, *, features: Any = None, classifier: Any = None) -> Judge:
        needed = classifier is not None or (log.behavior_prob is None and log.ratio is None)
        found = estimate_behavior(log, classifier) if needed else None
        known = log if found is None else found.apply(log)
        same = replace(known, ratio=np.ones(len(known)))
        phi = fit_features(known, StandardScaler() if features is None else features)
        batch = featurize(same, phi, gamma)
        all_of_them = not batch.is_sparse and batch.n_features <= affordable(len(batch))
        columns = None if all_of_them else value_columns(batch, choose(batch, SparseTDCV(gamma=gamma)).support)
        told = hasattr(phi, "get_feature_names_out")
        names = feature_names(phi, known) if told else np.array([f"x{j}" for j in range(batch.n_features)])
        kept = names if columns is None else names[columns]
        return cls(known, Part.of(batch, Episodes.of_log(same, gamma), columns), kept, found)

    def only(self, rows: Array) -> Judge:
        """The given rows alone, in whole episodes."""
        return Judge(self.log[rows], Part(self.part.batch[rows], self.part.episodes.subset(rows)), self.names)

    def ratio(self, policy: Any, name: str) -> Array:
        """π/μ of the logged actions, with whatever is wrong said of this policy."""
        try:
            asked = Target.of(policy, self.log)
            found = asked.shares(self.log)
            if found is not None and self.log.action is not None and self.log.action.ndim == 1:
                refuse_unseen(self.log.action, found[0])
            return np.asarray(pose(self.log, asked).log.importance_ratio())
        except ValueError as error:
            raise ValueError(f"policy {name!r}: {error}") from None

    def fit(self, ratio: Array) -> Fit:
        part = self.part.with_ratio(ratio)
        moments = Moments.of(part)
        return Fit(LinearValue.solve(moments), part, moments)

    def value(self, ratio: Array) -> Value:
        return self.fit(ratio).value

    @cached_property
    def thirds(self) -> list[dict[str, Array]]:
        """The rows by thirds of every observed column that varies."""
        columns = zip(self.log.labels(), self.log.observation.T, strict=True)
        found = [thirds(name, column) for name, column in columns]
        return [groups for groups in found if len(groups) > 1]

    def earned(self) -> Value | None:
        """The mean return of the log, which needs no features; None where episodes were cut."""
        episodes = self.part.episodes
        returns = episodes.returns
        return (float(returns.mean()), returns - returns.mean()) if episodes.complete.all() else None


def is_behavior(policy: Any) -> bool:
    return isinstance(policy, str) and policy in BEHAVIOR


def unseen(log: Transitions, policies: Mapping[str, Any]) -> Array:
    """The rows of the episodes from which none of the policies was learnt."""
    own = np.any([taught(policy, log) for policy in policies.values()], axis=0)
    if own.all():
        raise ValueError("A policy was learnt from every episode of this log: compare policies on others.")
    return np.flatnonzero(~own[numbered(log)])


def numbered(log: Transitions) -> Array:
    """The number 0, 1, … of every row's episode."""
    return np.cumsum(np.diff(log.episode, prepend=log.episode[:1]) != 0)
