"""The policy whose value is asked for, in any of the forms a user may have it.

    None              what the log says: its ratios, or target_prob / behavior_prob
    "behavior"        the policy that was logged: every ratio is 1
    a callable        from observations (n, p) to probabilities of the discrete actions (n, n_actions)
    an array          π(a|s) of the logged action in every row, or (n, n_actions)
    a classifier      of scikit-learn, fitted to the actions (numbers or names)
    a fitted model    of action values (`ValueFunction` fitted for a policy): greedy with respect to it

Where the log has no behaviour probabilities they are estimated (see `behavior`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sparsetd.control import greedy
from sparsetd.evaluation.behavior import BehaviorPolicy, estimate_behavior
from sparsetd.logs import Transitions


@dataclass(frozen=True, eq=False)
class Question:
    """A log with the ratios of the target policy, the target in words, and the behaviour if it had to be estimated."""

    log: Transitions
    target: str
    behavior: BehaviorPolicy | None = None


def pose(log: Transitions, target: Any = None, *, classifier: Any = None, floor: float = 1e-3) -> Question:
    """Bring a log and a target policy together."""
    if not isinstance(log, Transitions):
        raise TypeError(
            f"A {type(log).__name__} is not a log yet: read it with `sparsetd.read(…)` or, if it holds text or gaps, "
            "with `sparsetd.prepare(…).transitions`."
        )
    if hasattr(target, "fit") and not any(name.endswith("_") and name[0] != "_" for name in vars(target)):
        raise ValueError(f"`target` is a {type(target).__name__} that was not fitted: fit it first.")
    if isinstance(target, str):
        if target not in ("behavior", "behaviour"):
            raise ValueError(f"`target` is {target!r}: pass 'behavior', a callable, an array or a fitted model.")
        return Question(replace(log, ratio=np.ones(len(log))), "the logged behaviour itself")
    if target is None:
        return _as_logged(log, classifier, floor)
    asked, words = _with_probabilities(log, target)
    return _with_behavior(asked, words, classifier, floor)


def _as_logged(log: Transitions, classifier: Any, floor: float) -> Question:
    if log.target_prob is not None and (log.ratio is None or classifier is not None):
        return _with_behavior(log, "target_prob", classifier, floor)
    if log.ratio is None:
        return Question(replace(log, ratio=np.ones(len(log))), "the logged behaviour itself")
    if classifier is not None:
        raise ValueError(
            "`classifier` estimates the behaviour policy, but the log has `ratio` without `target_prob`: leave the "
            "classifier out, or log the target's probabilities."
        )
    return Question(log, "the target of the logged ratios")


def _with_probabilities(log: Transitions, target: Any) -> tuple[Transitions, str]:
    if hasattr(target, "q") and hasattr(target, "act"):
        return log.with_target(greedy(target.q)), "greedy in the given model"
    if callable(target) or hasattr(target, "predict_proba"):
        return log.with_target(target), getattr(target, "__name__", type(target).__name__)
    if hasattr(target, "predict"):
        raise TypeError(
            f"`target` is a {type(target).__name__}, which predicts numbers but chooses no action: pass a function of "
            "the observations, a classifier of actions, or a `ValueFunction` that was fitted for a policy."
        )
    table = np.asarray(target, dtype=np.float64)
    if table.ndim == 2:
        return log.with_target(lambda _: table), "the given probabilities"
    if table.shape != (len(log),) or not np.all((table >= 0) & (table <= 1)):
        bad = ~((table >= 0) & (table <= 1)) if table.shape == (len(log),) else np.array([True])
        row = int(np.argmax(bad))
        raise ValueError(
            f"`target` must hold {len(log)} probabilities between 0 and 1; row {row} is the first that fails."
        )
    return replace(log, target_prob=table, ratio=None), "the given probabilities"


def _with_behavior(log: Transitions, words: str, classifier: Any, floor: float) -> Question:
    if log.behavior_prob is not None and classifier is None:
        return Question(replace(log, ratio=None), words)
    found = estimate_behavior(log, classifier, floor=floor)
    return Question(found.apply(log), words, found)
