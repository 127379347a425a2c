"""`evaluate`: from a log and a target policy to its value, with an interval and with reasons."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import numpy as np

from sparsetd._tools.lazy_names import renamed
from sparsetd.evaluation.boosting import ADVICE, boosting
from sparsetd.evaluation.evaluator import judge
from sparsetd.evaluation.reading import Progress, Settings
from sparsetd.evaluation.result import Evaluation
from sparsetd.logs.engines import Engine


@renamed
def evaluate(
    transitions: Any,
    target: Any = None,
    *,
    gamma: float = 0.99,
    features: Any = "auto",
    estimator: Any = None,
    classifier: Any = None,
    level: float = 0.95,
    n_folds: int = 5,
    n_resamples: int = 20,
    random_state: int = 0,
    cluster: Any = None,
    engine: Engine | None = None,
    checkpoint: str | None = None,
    check: Literal["boosting"] | None = None,
    progress: Progress | None = None,
) -> Evaluation:
    """Estimate what a policy would have been worth, from a log of other decisions, with an interval and cautions.

    LSTD with importance ratios on all features gives the value (on those that double selection keeps where the rows do
    not afford all of them, see `choice`), and leaving out one cluster at a time gives its interval (see `linear`). The
    value of the logged behaviour itself is the mean return where every episode terminated. Which features matter is a
    separate question, answered beside it. `warnings` says what speaks against the answer; one of severity "red" means
    that the answer should not be used. `compare` does the same for several policies.

    Parameters
    ----------
    transitions : Transitions, or path
        The log, in whole episodes. A folder or pattern of shards (see `sparsetd shard`) may be larger than memory.
    target : optional
        The policy to evaluate: a rule in words, a function, a classifier, probabilities (`evaluation.target` lists all
        forms). By default the log's `target_prob` or ratios say it, and without these it is the logged behaviour.
    gamma : float
        Discount of one step.
    features : "auto", transformer or None
        φ of an observation. By default the columns, hinges of their ranks and products of them, as far as
        held-out episodes speak for them (see `features.Basis`); None takes the columns as they are. Columns are brought
        to one scale here, so units do not matter.
    estimator : estimator, optional
        Chooses the features that matter: whatever has a `support_` after `fit`. By default elimination. The value is
        not computed from its coefficients.
    classifier : scikit-learn classifier, optional
        Estimates the behaviour policy. If it is given, it is used even where the log has probabilities.
    level : float
        Level of the intervals.
    n_folds, n_resamples : int
        Number of folds of episodes, and of random halves of the log for the selection frequencies (0: none).
    random_state : int
        Seed of the halves. Folds and groups follow from the episodes' ids, so the order of the log does not matter.
    cluster : str or array, optional
        Which episodes are not independent of one another: the name of a column, or a value for each row or episode (the
        patient of a stay). Folds, intervals and halves are then made of whole clusters.
    engine : Engine, optional
        How shards are read: by `logs.engines.Processes(n)` or `logs.dask.Dask(client)`; by this process if None.
    checkpoint : path, optional
        A folder that keeps the sums of each shard, so that a run that was killed continues from there. These files are
        removed at the end; others in the folder stay.
    check : {"boosting"}, optional
        Another opinion among the `comparisons`: boosted trees (see `evaluation.boosting`), for up to a minute.
        If they do not settle by then, their value is not a number.
    progress : callable, optional
        Gets a sentence at the beginning of every step of the work.

    See also `compare`: several policies, and their differences; `sensitivity`: what unrecorded causes could change in
    the answer; `improve`: a better policy, learnt and tested.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsetd import evaluate, prepare
    >>> rng = np.random.default_rng(0)
    >>> x, action = rng.normal(size=300), rng.integers(2, size=300)
    >>> raw = {"x": x, "action": action, "reward": action * x + rng.normal(0, 0.5, size=300)}
    >>> log = prepare(raw, bandit=True).transitions
    >>> found = evaluate(log, "1 if x > 0; else 0", features=None, n_resamples=0)
    >>> low, high = found.interval
    >>> expected_return = 1 / np.sqrt(2 * np.pi)
    >>> bool(low < expected_return < high)
    True
    >>> bool(found.difference.value > 0)
    True
    """
    how = (gamma, features, estimator, classifier, level, n_folds, n_resamples, random_state, cluster)
    settings = Settings(*how, engine, checkpoint, progress)
    if check not in (None, "boosting"):
        raise ValueError(f'`check` is {check!r}: pass "boosting", or None for no further opinion.')
    (own,) = judge(transitions, {"target": target}, settings)
    result, log = own.evaluation(), own.first.log
    if check is None:
        return result
    settings.tell("asking boosted trees")
    part = log.sample.under(0)
    cluster = np.searchsorted(part.episodes.clusters, part.episodes.of, side="right")
    opinion = boosting(log.log, part.batch.ratio, cluster, gamma)
    cautions = [
        replace(c, text=c.text.replace(ADVICE, ""), remedy=c.remedy.replace(ADVICE, "")) for c in result.warnings
    ]
    return replace(result, comparisons=(*result.comparisons, opinion), warnings=tuple(cautions))
