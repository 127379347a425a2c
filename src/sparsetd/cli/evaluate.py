"""`sparsetd evaluate`: what a policy is worth, from a log of another one."""

from __future__ import annotations

import math
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from typing import Any

from sparsetd.cli.command import Command, Outcome, WrongInput
from sparsetd.cli.console import Console
from sparsetd.cli.log_options import (
    add_engine,
    add_gamma,
    add_log,
    add_part,
    check_output,
    engine_of,
    read_log,
    read_shards,
)
from sparsetd.cli.options import at_least, inside
from sparsetd.cli.policies import TARGET_HELP, model_in, target_of
from sparsetd.logs import Shard, memory
from sparsetd.logs.door import extent

SUMMARY = "estimate the value of a target policy from a log, with an interval and reasons"
DETAILS = """
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
CLASSIFIERS = ("logistic", "boosting", "forest")


def arguments(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add_log(parser)
    add_part(parser)
    add("--target", metavar="POLICY", help=TARGET_HELP)
    add_gamma(parser)
    add("--report", metavar="FILE", help="also write a page for a browser (.html)")
    add("--unit", metavar="TEXT", help="what the value is measured in, for the page: 'hours of care'")
    add(
        "--confounding",
        type=strengths,
        nargs="?",
        const=[1.25, 1.5, 2.0, 3.0, 5.0],
        metavar="G,…",
        help="also bound the value if an unrecorded cause changed the odds of the actions by up to these factors "
        "(1.25 to 5 if none is named)",
    )
    add(
        "--lower",
        type=confident,
        metavar="P",
        help="also print a one-sided bound: the value is at least this, at level P",
    )
    add("--all-features", action="store_true", help="keep every feature, without selection")
    add("--level", type=inside, default=0.95, metavar="P", help="level of the intervals (default: %(default)s)")
    add("--classifier", choices=CLASSIFIERS, help="estimate the behaviour policy with this classifier")
    add(
        "--resamples",
        type=at_least(0),
        default=20,
        metavar="N",
        help="random halves of the log for the selection frequencies (default: %(default)s)",
    )
    add("--folds", type=at_least(2), default=5, metavar="N", help="number of held-out folds (default: %(default)s)")
    add("--seed", type=at_least(0), default=0, metavar="N", help="seed of the folds and halves (default: %(default)s)")
    add_engine(parser)


def run(args: Namespace, console: Console) -> Outcome:
    from sparsetd.evaluation import evaluate
    from sparsetd.report.page import write_page

    page = check_output(args.report, ".html", ".htm", inputs=[args.log, model_in(args.target)])
    target, columns = target_of(args.target, args.log)
    parts = read_shards(args, **columns)
    if len(parts) == 1:
        parts = (_fitting(parts[0], console),)
    result = evaluate(
        parts,
        target,
        gamma=args.gamma,
        estimator=_estimator(args),
        classifier=classifier_of(args.classifier),
        level=args.level,
        n_folds=args.folds,
        n_resamples=args.resamples,
        seed=args.seed,
        engine=engine_of(args),
        checkpoint=args.checkpoint,
        progress=console.progress,
    )
    data = result.to_dict()
    if not math.isfinite(data["value"]):
        raise ArithmeticError("the value is too large to compute: rescale the rewards, and look at 'sparsetd inspect'")
    text = str(result)
    if args.lower is not None:
        bound = data["lower_bound"] = result.estimate.interval(2 * args.lower - 1)[0]
        text += f"\nat least {bound:.4f} with {100 * args.lower:.6g}% confidence"
    if args.confounding is not None:
        bounds = _bounds(read_log(args, **columns), target, args)
        data["confounding"] = bounds.to_dict()
        text += f"\n{bounds}"
    data |= {"unit": args.unit, "settings": {"log": args.log, "target": args.target or "as logged", **data["settings"]}}
    if page is not None:
        write_page(data, page)
        text += f"\nreport: {page}"
    return Outcome(text, {**data, "report": None if page is None else str(page)})


def _bounds(log: Any, target: Any, args: Namespace) -> Any:
    from sparsetd.control import greedy
    from sparsetd.decisions import sensitivity

    if not callable(target) and not hasattr(target, "q"):
        raise WrongInput(
            "--confounding needs a policy that can be asked about any state: module:function, greedy:MODEL or a file "
            "of 'sparsetd improve'"
        )
    policy = target if callable(target) else greedy(target.q)
    classifier = classifier_of(args.classifier)
    options = {"gamma": args.gamma, "confounding": args.confounding, "classifier": classifier, "level": args.level}
    return sensitivity(log, policy, **options)


def confident(text: str) -> float:
    """A number above a half and below 1."""
    if (value := inside(text)) <= 0.5:
        raise ArgumentTypeError(f"must be a number above 0.5 and below 1, such as 0.99, not '{text}'")
    return value


def strengths(text: str) -> list[float]:
    """Factors of at least 1, separated by commas."""
    try:
        found = [float(part) for part in text.split(",")]
    except ValueError:
        found = [0.0]
    if not all(1 <= g < float("inf") for g in found):
        raise ArgumentTypeError(f"must be numbers of at least 1, separated by commas, not '{text}'")
    return found


def _fitting(log: Shard, console: Console) -> Shard:
    """The log, refused where its evaluation does not fit into memory; it is read here if only that tells its size."""
    n, p = (0, 0) if log.log is not None else extent(log.path, **log.columns)
    if not n:
        log = Shard(log.read())
        n, p = log.read().observation.shape
    need = memory.for_evaluation(n, p)
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


EVALUATE = Command("evaluate", SUMMARY, DETAILS, arguments, run)
