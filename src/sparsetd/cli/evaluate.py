"""Estimate the value of a target policy from a log, with an interval and reasons.

Prints the value of the target policy at the start of an episode, with a 95 % interval. Says how
much of the log speaks about that policy: effective sample size, largest importance ratio and
coverage. Lists the features that carry the value, and what importance sampling, doubly robust
estimates and LSTD say for comparison.

If the log has no column behavior_prob (or ratio), the behaviour policy is estimated from the
actions by a cross-fitted, calibrated classifier.

examples:
  sparsetd evaluate log.parquet --target target_prob --report report.html
  sparsetd evaluate log.csv --target policies:greedy --gamma 1
  sparsetd evaluate log.parquet --target behavior --all-features --json
  sparsetd evaluate log-shards --target target_prob --n-jobs 4 --checkpoint kept
"""

from __future__ import annotations

import math
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from typing import Any

from sparsetd._tools import memory
from sparsetd.cli.command import Command, Console, Outcome, words
from sparsetd.cli.options import (
    TARGET_HELP,
    add_engine,
    add_gamma,
    add_log,
    add_n_folds,
    add_n_resamples,
    add_part,
    add_random_state,
    add_report,
    check_output,
    engine_of,
    inside,
    model_in,
    read_shards,
    said,
    target_of,
)
from sparsetd.logs import Shard
from sparsetd.logs.door import extent

CLASSIFIERS = ("logistic", "boosting", "forest")


def arguments(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add_log(parser)
    add_part(parser)
    add("--target", metavar="POLICY", help=TARGET_HELP)
    add_report(parser)
    add(
        "--lower",
        type=confident,
        metavar="P",
        help="also print a one-sided bound: the value is at least this, at level P",
    )
    add("--all-features", action="store_true", help="keep every feature, without selection")
    add("--check", choices=("boosting",), help="also ask boosted trees, for up to a minute")
    add_n_resamples(parser, "random halves of the log for the selection frequencies")
    add_random_state(parser, "the halves")
    add_judging(parser)


def add_judging(parser: ArgumentParser) -> None:
    """The options of every command that judges policies."""
    add = parser.add_argument
    add_gamma(parser)
    add("--level", type=inside, default=0.95, metavar="P", help="level of the intervals (default: %(default)s)")
    add(
        "--features",
        choices=("auto", "none"),
        default="auto",
        help="functions that are built of the columns, or 'none' for the columns as they are (default: %(default)s)",
    )
    add("--classifier", choices=CLASSIFIERS, help="estimate the behaviour policy with this classifier")
    add("--cluster", metavar="COLUMN", help="episodes with the same value belong together: 'patient' of several stays")
    add_n_folds(parser)
    add_engine(parser)


def judging(args: Namespace, console: Console) -> dict[str, Any]:
    """How policies are judged, from the options of `add_judging`."""
    return {
        "gamma": args.gamma,
        "level": args.level,
        "features": None if args.features == "none" else args.features,
        "classifier": classifier_of(args.classifier),
        "cluster": args.cluster,
        "n_folds": args.n_folds,
        "engine": engine_of(args),
        "checkpoint": args.checkpoint,
        "progress": console.progress,
    }


def judged_log(args: Namespace, console: Console, **columns: Any) -> tuple[Shard, ...]:
    """The log of a command that judges policies; what is in one file is refused where it does not fit into memory."""
    groups = {} if args.cluster is None else {"group": args.cluster}
    parts = read_shards(args, **groups, **columns)
    return (_fitting(parts[0], console, args.features),) if len(parts) == 1 else parts


def run(args: Namespace, console: Console) -> Outcome:
    from sparsetd.evaluation import evaluate
    from sparsetd.storage.atomic import replace_file

    page = check_output(args.report, ".html", ".htm", inputs=[args.log, model_in(args.target)])
    target, columns = target_of(args.target, args.log)
    result = evaluate(
        judged_log(args, console, **columns),
        target,
        estimator=_estimator(args),
        n_resamples=args.n_resamples,
        random_state=args.random_state,
        check=args.check,
        **judging(args, console),
    )
    data, text = result.to_dict(), str(result)
    if not math.isfinite(data["value"]):
        raise ArithmeticError("the value is too large to compute: rescale the rewards, and look at 'sparsetd inspect'")
    if args.lower is not None:
        bound = data["lower_bound"] = result.estimate.interval(2 * args.lower - 1)[0]
        text += f"\nat least {bound:.4f} with {100 * args.lower:.6g}% confidence"
    named = {"log": args.log, "target": args.target or "as logged"}
    data |= {"unit": args.unit, "settings": {**named, **data["settings"]}}
    if page is not None:
        replace_file(page, result.page(**said(args, **named)))
        text += f"\nreport: {page}"
    return Outcome(text, {**data, "report": None if page is None else str(page)})


def confident(text: str) -> float:
    """A number above a half and below 1."""
    if (value := inside(text)) <= 0.5:
        raise ArgumentTypeError(f"must be a number above 0.5 and below 1, such as 0.99, not '{text}'")
    return value


def _fitting(log: Shard, console: Console, features: str) -> Shard:
    """The log, refused where its evaluation does not fit into memory; it is read here if only that tells its size."""
    from sparsetd.features.basis import LARGEST

    n, p = (0, 0) if log.log is not None else extent(log.path, **log.columns)
    if not n:
        log = Shard(log.read())
        n, p = log.read().observation.shape
    built = LARGEST // 3 if features == "auto" else 0
    need = memory.for_evaluation(n, p + built)
    if need > memory.GIB:
        console.progress(f"this takes up to {need / memory.GIB:.1f} GiB of memory")
    what, remedy = f"to evaluate about {n:,} rows of {p} columns", "take fewer rows or columns, or a larger machine"
    memory.require(need, what, remedy)
    return log


def _estimator(args: Namespace) -> Any:
    from sparsetd import LSTD

    return LSTD(gamma=args.gamma, fit_intercept=True) if args.all_features else None


def classifier_of(name: str | None) -> Any:
    if name is None:
        return None
    from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return {
        "logistic": make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)),
        "boosting": HistGradientBoostingClassifier(random_state=0),
        "forest": RandomForestClassifier(min_samples_leaf=5, random_state=0),
    }[name]


EVALUATE = Command("evaluate", *words(__doc__), arguments, run)
