"""`sensitivity`: bounds on a value over the strength Γ of an unrecorded cause of the actions (see `confounding`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sparsetd._tools.lazy_names import renamed
from sparsetd.evaluation.cautions import Caution
from sparsetd.evaluation.confounding import Ends, Kind, crossing
from sparsetd.evaluation.estimate import Estimate
from sparsetd.evaluation.evaluator import confounded, judge
from sparsetd.evaluation.reading import Progress, Settings
from sparsetd.evaluation.result import Decision, Evaluation
from sparsetd.logs.engines import Engine

GAMMAS = (1.0, 1.25, 1.5, 2.0, 3.0, 5.0)
KINDS: dict[str, str] = {
    "every": "an unrecorded cause that is new at every decision",
    "first": "an unrecorded cause of the first decision alone",
    "persistent": "an unrecorded trait that lasts over all decisions of a cluster",
}
ANYTHING: Ends = (-np.inf, np.inf)
CUT = (
    " Where chance and such a cause could explain any value, an end is the least or the greatest return that rewards "
    "like the logged ones allow."
)


@dataclass(frozen=True)
class Bound:
    """At one Γ: the lowest and highest value of the policy and of its difference to the logged behaviour.

    Intervals end at the `possible` values and differences: those that rewards like the logged ones allow.
    """

    confounding: float
    low: Estimate
    high: Estimate
    difference_low: Estimate
    difference_high: Estimate
    possible: tuple[Ends, Ends] = (ANYTHING, ANYTHING)

    def interval(self, level: float) -> Ends:
        """From the lower end of the lowest value to the upper end of the highest: bounds and chance together."""
        return _within(self.low.interval(level)[0], self.high.interval(level)[1], self.possible[0])

    def difference(self, level: float) -> Ends:
        return _within(
            self.difference_low.interval(level)[0], self.difference_high.interval(level)[1], self.possible[1]
        )

    def is_cut(self, level: float) -> bool:
        """Whether an end is what the rewards allow, so that chance and the cause alone would go further."""
        return bool(np.equal((self.interval(level), self.difference(level)), self.possible).any())


def _within(low: float, high: float, ends: Ends) -> Ends:
    return max(low, ends[0]), min(high, ends[1])


@dataclass(frozen=True, repr=False)
class Sensitivity(Decision):
    """Hold the bounds that `sensitivity` found, one for each strength of an unrecorded cause.

    `flips` is the least Γ (interpolated) at which the difference may have the other sign.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsetd import prepare, sensitivity
    >>> rng = np.random.default_rng(0)
    >>> x, action = rng.normal(size=300), rng.integers(2, size=300)
    >>> raw = {"x": x, "action": action, "reward": action * x + rng.normal(0, 0.5, size=300)}
    >>> log = prepare(raw, bandit=True).transitions
    >>> found = sensitivity(log, "1 if x > 0; else 0", confounding=[1.0, 10.0], features=None)
    >>> [bound.confounding for bound in found.bounds]
    [1.0, 10.0]
    >>> first, last = found.bounds
    >>> last.low.value < first.low.value < last.high.value
    True
    """

    bounds: tuple[Bound, ...]
    level: float
    evaluation: Evaluation
    kind: str = "every"

    @property
    def cautions(self) -> tuple[Caution, ...]:
        """The cautions about the value at Γ = 1, which is that of `evaluate`."""
        return self.evaluation.warnings

    @property
    def flips(self) -> float | None:
        """The least Γ at which the difference may have the other sign; None if no Γ in `bounds` is so large."""
        return self._crossing(lambda b: (b.difference_low.value, b.difference_high.value))

    @property
    def undecided(self) -> float | None:
        """The least Γ at which confounding and chance together may explain the difference."""
        return self._crossing(lambda b: b.difference(self.level))

    def _crossing(self, ends: Callable[[Bound], tuple[float, float]]) -> float | None:
        """The Γ at which the end nearer to zero crosses it, interpolated in log Γ; None if it does not."""
        up = self.bounds[0].difference_low.value > 0
        left = (low if up else -high for low, high in map(ends, self.bounds))
        return crossing([b.confounding for b in self.bounds], left)

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
        told = {"flips": self.flips, "undecided": self.undecided, "sentence": self.sentence(), "kind": self.kind}
        return {"level": self.level, "bounds": rows, **told, "evaluation": self.evaluation.to_dict()}

    def _document(self, **more: Any) -> Any:
        """The document of the evaluation, with the bounds in it."""
        return self.evaluation._document(**more, confounding=self.to_dict())

    def sentence(self) -> str:
        """The meaning of the bounds in words, for somebody who must decide."""
        top = self.bounds[-1].confounding
        if self.flips is None:
            found = f"The difference keeps its sign up to Γ = {top:g}"
        else:
            found = f"From Γ = {self.flips:.2f} on the difference may have the other sign"
        if self.undecided == 1.0:
            found += ". Chance alone may explain the difference, even without such a cause"
        elif self.undecided is not None:
            found += f". Together with chance this begins at Γ = {self.undecided:.2f}"
        cut = CUT if any(b.is_cut(self.level) for b in self.bounds) else ""
        return (
            f"{found}. Γ is the factor by which {KINDS[self.kind]} changes the odds of the logged action: Γ = 2 "
            f"doubles or halves them (the marginal sensitivity model; Tan, 2006).{cut}"
        )


@renamed
def sensitivity(
    transitions: Any,
    target: Any = None,
    *,
    confounding: Sequence[float] = GAMMAS,
    kind: Kind = "every",
    gamma: float = 0.99,
    features: Any = "auto",
    classifier: Any = None,
    level: float = 0.95,
    n_folds: int = 5,
    cluster: Any = None,
    engine: Engine | None = None,
    checkpoint: str | None = None,
    progress: Progress | None = None,
) -> Sensitivity:
    """Bound what an unrecorded cause could do to the value of a policy and to its gain over what was done.

    The bounds hold for all causes that change the odds of the logged action by a factor of at most Γ. Γ = 1 is what
    `evaluate` says, to the last digit.

    Parameters
    ----------
    transitions : Transitions, or path
        The log, in memory or in shards. Missing behaviour probabilities are estimated.
    target : optional
        The policy, in any form that `evaluate` takes.
    confounding : sequence of float
        The values of Γ, each at least 1. Γ = 1 (nothing hidden) is always added.
    kind : {"every", "first", "persistent"}
        Whether the cause is new at every decision, touches the first one alone, or lasts.
    gamma, features, classifier, level, n_folds, cluster, engine, checkpoint
        As in `evaluate`.

    See also `evaluate`: the value if every cause was recorded.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsetd import prepare, sensitivity
    >>> rng = np.random.default_rng(0)
    >>> x, action = rng.normal(size=300), rng.integers(2, size=300)
    >>> raw = {"x": x, "action": action, "reward": action * x + rng.normal(0, 0.5, size=300)}
    >>> log = prepare(raw, bandit=True).transitions
    >>> found = sensitivity(log, "1 if x > 0; else 0", confounding=[1.0, 1.5, 10.0], features=None)
    >>> lower_ends = [b.difference(0.95)[0] for b in found.bounds]
    >>> [end > 0 for end in lower_ends]
    [True, True, False]
    >>> 1.5 < found.undecided < 10
    True
    """
    strengths = sorted({1.0, *map(float, confounding)})
    if not all(1.0 <= g < np.inf for g in strengths):
        odd = next(g for g in strengths if not 1.0 <= g < np.inf)
        raise ValueError(f"`confounding` is {odd:g}, but odds change by a factor of at least 1: pass Γ ≥ 1.")
    if kind not in KINDS:
        raise ValueError(f"`kind` is {kind!r}: pass one of {', '.join(KINDS)}.")
    settings = Settings(gamma, features, None, classifier, level, n_folds, 0, 0, cluster, engine, checkpoint, progress)
    (own,) = judge(transitions, {"target": target}, settings)
    rows = None if own.facts.as_logged else confounded(own.first, 0)
    if rows is None and not own.facts.as_logged:
        raise ValueError("Bounds need the behaviour's probabilities: log `behavior_prob` or the actions.")
    bounds: list[Bound] = []
    limits = own.facts.possible()
    done = own.logged.value.estimate().interval(level)
    for strength in strengths:
        ends = []
        for sign in (1.0, -1.0):
            end = own.value if rows is None else rows.bound(own.value, strength, kind, sign, limits)
            gain = end.less(own.logged.value)  # no confounding touches the value of what was done
            ends.append((end.estimate("bound"), gain.estimate("bound")))
        low, high = ends
        if bounds:  # bounds must widen with Γ; if a rough fit made an end narrower, the one before it is kept
            before = bounds[-1]
            low = low if low[0].value < before.low.value else (before.low, before.difference_low)
            high = high if high[0].value > before.high.value else (before.high, before.difference_high)
        possible = _possible(limits, done, bounds[0], level) if bounds else (ANYTHING, ANYTHING)
        bounds.append(Bound(strength, low[0], high[0], low[1], high[1], possible))
    return Sensitivity(tuple(bounds), level, own.evaluation(), kind)


def _possible(limits: Ends, done: Ends, plain: Bound, level: float) -> tuple[Ends, Ends]:
    """The range of values that a policy can have, and of its differences to a value within the range `done`.

    No range is narrower than the `plain` one, which is what `evaluate` says.
    """
    gains = limits[0] - done[1], limits[1] - done[0]
    pairs = (limits, plain.interval(level)), (gains, plain.difference(level))
    return tuple((min(a[0], b[0]), max(a[1], b[1])) for a, b in pairs)  # type: ignore[return-value]
