"""What if something unobserved drove the actions? Bounds on the value over the strength Γ of hidden confounding.

The marginal sensitivity model lets an unobserved u change the odds of the logged action by a factor between 1/Γ and Γ.
With μ = μ(a|s), τ = 1/(1 + Γ), α = μ + (1 − μ)/Γ and β = μ + Γ(1 − μ), the lowest value that such a u can hide solves

    Q(s, a) = E[α Y + (1 − α)(q − (q − Y)₊/τ) | s, a]      Y = r + γV(s')      q = τ-quantile of Y given (s, a)

which is LSTD-Q with the weight W = α + (β − α)1{Y ≤ q} and the offset o = (1 − α)q(1 − 1{Y ≤ q}/τ). The bracket is the
conditional value at risk, a maximum over q: a rough quantile makes the bound wider, never too narrow. The highest value
is the same for −r. Γ = 1 is LSTD-Q itself.

It holds for a u that is drawn anew at every step given the state. A cause that persists over an episode (a trait of the
patient that was never recorded) is not covered.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any

import numpy as np
from sklearn.preprocessing import StandardScaler

from sparsetd.decisions.judge import Judge
from sparsetd.evaluation.action_values import ActionRows, ActionValue, refuse_unseen
from sparsetd.evaluation.estimate import Estimate
from sparsetd.evaluation.facts import Facts
from sparsetd.evaluation.sanity import possible
from sparsetd.features.featurize import fit_features
from sparsetd.logs import Policy, Transitions
from sparsetd.logs.learnt import refuse_own
from sparsetd.system import Array

GAMMAS = (1.0, 1.25, 1.5, 2.0, 3.0, 5.0)
SWEEPS = 5
MAJORISED = 25  # least-squares problems for one quantile regression


@dataclass(frozen=True)
class Bound:
    """At one Γ: the lowest and highest value of the policy and of its difference to the logged behaviour."""

    confounding: float
    low: Estimate
    high: Estimate
    difference_low: Estimate
    difference_high: Estimate

    def interval(self, level: float) -> tuple[float, float]:
        """From the lower end of the lowest value to the upper end of the highest: bounds and chance together."""
        return self.low.interval(level)[0], self.high.interval(level)[1]

    def difference(self, level: float) -> tuple[float, float]:
        return self.difference_low.interval(level)[0], self.difference_high.interval(level)[1]


@dataclass(frozen=True)
class Sensitivity:
    """Bounds over Γ. `flips` is the least Γ (interpolated) at which the difference may have the other sign."""

    bounds: tuple[Bound, ...]
    level: float

    @property
    def flips(self) -> float | None:
        """None where the sign holds over all Γ that were asked for."""
        return self._crossing([(b.difference_low.value, b.difference_high.value) for b in self.bounds])

    @property
    def undecided(self) -> float | None:
        """The least Γ at which confounding and chance together may explain the difference."""
        return self._crossing([b.difference(self.level) for b in self.bounds])

    def _crossing(self, ends: Sequence[tuple[float, float]]) -> float | None:
        """Where the end that is nearer to zero crosses it, by interpolation in log Γ."""
        up = self.bounds[0].difference_low.value > 0
        left = [low if up else -high for low, high in ends]
        if left[0] <= 0:
            return 1.0
        for i, b in enumerate(left[1:], start=1):
            if b <= 0:
                g, h = np.log([self.bounds[i - 1].confounding, self.bounds[i].confounding])
                return float(np.exp(g + (h - g) * left[i - 1] / (left[i - 1] - b)))
        return None

    def to_dict(self) -> dict[str, Any]:
        rows = [
            {
                "confounding": b.confounding,
                "bounds": [b.low.value, b.high.value],
                "interval": b.interval(self.level),
                "difference_bounds": [b.difference_low.value, b.difference_high.value],
                "difference_interval": b.difference(self.level),
            }
            for b in self.bounds
        ]
        told = {"flips": self.flips, "undecided": self.undecided, "sentence": self.sentence()}
        return {"level": self.level, "bounds": rows, **told}

    def __str__(self) -> str:
        lines = ["hidden confounding: what the difference to the logged behaviour may be at most and at least"]
        for row in self.to_dict()["bounds"]:
            apart, chance = (
                f"{row[key][0]:+.4f} to {row[key][1]:+.4f}" for key in ("difference_bounds", "difference_interval")
            )
            lines.append(f"  Γ = {row['confounding']:<5g} {apart}   with chance {chance}")
        return "\n".join([*lines, self.sentence()])

    def sentence(self) -> str:
        """What the bounds mean, for somebody who must decide."""
        top = self.bounds[-1].confounding
        if self.flips is None:
            found = f"The sign of the difference holds up to Γ = {top:g}"
        else:
            found = f"The sign of the difference may flip from Γ = {self.flips:.2f} on"
        if self.undecided == 1.0:
            found += "; chance alone may explain the difference even without confounding"
        elif self.undecided is not None:
            found += f", with chance from Γ = {self.undecided:.2f} on"
        return (
            f"{found}. Γ = 2 means that an unrecorded cause doubles or halves the odds of the logged action. This "
            "holds for causes that are new at every step, not for a trait that persists over an episode."
        )


def sensitivity(
    log: Transitions,
    policy: Policy,
    *,
    gamma: float = 0.99,
    confounding: Sequence[float] = GAMMAS,
    features: Any = None,
    classifier: Any = None,
    level: float = 0.95,
) -> Sensitivity:
    """Bounds on the value of `policy`, and on its difference to the logged behaviour, over Γ.

    Parameters
    ----------
    log : Transitions
        In whole episodes, with integer actions. Missing behaviour probabilities are estimated.
    policy : callable
        From observations (n, p) to probabilities (n, n_actions).
    confounding : sequence of float
        The values of Γ, each at least 1. Γ = 1 (nothing hidden) is always among the answers.
    features : transformer, optional
        φ of an observation; its standardised columns by default.
    """
    strengths = sorted({1.0, *map(float, confounding)})
    if not all(1.0 <= g < np.inf for g in strengths):
        odd = next(g for g in strengths if not 1.0 <= g < np.inf)
        raise ValueError(f"`confounding` is {odd:g}, but odds change by a factor of at least 1: pass Γ ≥ 1.")
    refuse_own(policy, log)
    judge = Judge.of(log, gamma, features=features, classifier=classifier)
    phi = fit_features(log, StandardScaler() if features is None else features)
    rows, mu = ActionRows.of(log, phi, gamma, policy, judge.behavior), np.asarray(judge.log.behavior_prob)
    refuse_unseen(rows.action, rows.pi)
    earned = judge.earned() or judge.value(np.ones(len(log)))  # no confounding touches what the log itself earned
    limits = possible(Facts.of(judge.part))
    return Sensitivity(tuple(accumulate((_bound(rows, mu, g, *earned, limits) for g in strengths), _wider)), level)


def _bound(
    rows: ActionRows, mu: Array, strength: float, earned: float, moved: Array, limits: tuple[float, float]
) -> Bound:
    low, (high, moved_up) = lowest(rows, mu, strength), lowest(replace(rows, reward=-rows.reward), mu, strength)
    ends = [low, (-high, -moved_up)]
    if strength > 1.0:  # however strong, no cause makes a value impossible
        within = [float(np.clip(v, *limits)) for v, _ in ends]
        ends = [(w, i if w == v else 0.0 * i) for w, (v, i) in zip(within, ends, strict=True)]
    values = [Estimate.of_influence("bound", v, i) for v, i in ends]
    gains = [Estimate.of_influence("bound", v - earned, i - moved) for v, i in ends]
    return Bound(strength, *values, *gains)


def _wider(before: Bound, b: Bound) -> Bound:
    """Whatever a smaller Γ allows a larger one does: an end that a rough fit made narrower is the one before it."""
    low, high = b if b.low.value < before.low.value else before, b if b.high.value > before.high.value else before
    return Bound(b.confounding, low.low, high.high, low.difference_low, high.difference_high)


def lowest(rows: ActionRows, mu: Array, strength: float) -> tuple[float, Array]:
    """The lowest value under confounding of this strength, and its influence per episode."""
    tau, alpha = 1.0 / (1.0 + strength), mu + (1.0 - mu) / strength
    beta = mu + strength * (1.0 - mu)
    found = ActionValue.fit(rows)
    for _ in range(SWEEPS if strength > 1.0 else 0):
        outcome = found.target()
        q = _quantiles(rows, outcome, 1.0 - mu, tau)
        below = outcome <= q
        weight = alpha + (beta - alpha) * below
        found = ActionValue.fit(rows, weight, (1.0 - alpha) * q * (1.0 - below / tau))
    return found.start_value()


def _quantiles(rows: ActionRows, outcome: Array, weight: Array, tau: float) -> Array:
    """q(s, a) = β_aᵀ[φ 1] by quantile regression of Y within every action, rows weighted by 1 − μ.

    With these weights the first-order condition is E[φ(s, a)(W − 1)] = 0: W leaves the mean of every feature alone, and
    γW contracts as γ does. Each sweep is the least-squares problem of Hunter and Lange (2000) that majorises the loss.
    """
    q = np.zeros(len(outcome))
    for a in np.unique(rows.action):
        taken = np.flatnonzero(rows.action == a)
        phi, y, c = rows.phi[taken], outcome[taken], np.maximum(weight[taken], 1e-6)
        near = 1e-3 * (float(y.std()) or 1.0)
        beta = np.append(np.zeros(phi.shape[1] - 1), np.quantile(y, tau))
        for _ in range(MAJORISED):
            pull = c / (near + np.abs(y - phi @ beta))
            gram = (phi * pull[:, None]).T @ phi + 1e-9 * pull.sum() * np.eye(phi.shape[1])
            beta = np.linalg.solve(gram, phi.T @ (pull * y + (2 * tau - 1) * c))
        q[taken] = phi @ beta
    return q
