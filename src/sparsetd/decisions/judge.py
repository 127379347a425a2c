"""One log, many policies: what can be made once for all of them is, and only the ratios differ."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.preprocessing import StandardScaler

from sparsetd.decisions.where import Place, places
from sparsetd.evaluation.action_values import refuse_unseen
from sparsetd.evaluation.behavior import BehaviorPolicy, estimate_behavior
from sparsetd.evaluation.episodes import Episodes
from sparsetd.evaluation.linear import LinearValue
from sparsetd.evaluation.moments import Moments, Part
from sparsetd.evaluation.target import pose
from sparsetd.features.featurize import featurize, fit_features
from sparsetd.system import Array, Batch
from sparsetd.transitions import Transitions

BEHAVIOR = ("behavior", "behaviour")


@dataclass(frozen=True, eq=False)
class Judge:
    """A log with its features and behaviour probabilities (estimated once where it has none)."""

    log: Transitions
    batch: Batch
    episodes: Episodes
    behavior: BehaviorPolicy | None = None

    @classmethod
    def of(cls, log: Transitions, gamma: float, *, features: Any = None, classifier: Any = None) -> Judge:
        needed = classifier is not None or (log.behavior_prob is None and log.ratio is None)
        found = estimate_behavior(log, classifier) if needed else None
        known = log if found is None else found.apply(log)
        same = replace(known, ratio=np.ones(len(known)))
        batch = featurize(same, fit_features(known, StandardScaler() if features is None else features), gamma)
        return cls(known, batch, Episodes.of_log(same, gamma), found)

    def part(self, members: Array) -> Judge:
        """The given episodes alone."""
        rows = np.flatnonzero(members[self.episodes.of])
        return Judge(self.log[rows], self.batch[rows], self.episodes.subset(rows))

    def ratio(self, policy: Any, name: str) -> Array:
        """π/μ of the logged actions, with whatever is wrong said of this policy."""
        try:
            if callable(policy) and self.log.action is not None and self.log.action.ndim == 1:
                refuse_unseen(self.log.action, self.log.probabilities(policy))
            return np.asarray(pose(self.log, policy).log.importance_ratio())
        except ValueError as error:
            raise ValueError(f"policy {name!r}: {error}") from None

    def fit(self, ratio: Array) -> tuple[LinearValue, Part]:
        part = Part.of(self.batch, self.episodes).with_ratio(ratio)
        return LinearValue.solve(Moments.of(part)), part

    def value(self, ratio: Array) -> tuple[float, Array]:
        """Value of a policy and its influence per episode."""
        model, part = self.fit(ratio)
        return model.value, model.influence(part)

    def earned(self) -> tuple[float, Array] | None:
        """The mean return of the log, which needs no features; None where episodes were cut."""
        returns = self.episodes.returns
        return (float(returns.mean()), returns - returns.mean()) if self.episodes.complete.all() else None

    def where(self, ratio: Array, reference: Array) -> tuple[Place, ...]:
        """Where a policy acts differently from another, and what that is worth."""
        (own, part), (other, _) = self.fit(ratio), self.fit(reference)
        return places(part, reference, self.log, (own, other))


def is_behavior(policy: Any) -> bool:
    return isinstance(policy, str) and policy in BEHAVIOR
