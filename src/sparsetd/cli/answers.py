"""The commands that judge policies on a log: evaluate, compare, improve and sensitivity."""

from __future__ import annotations

import math
import shlex
from argparse import ArgumentTypeError, Namespace
from collections.abc import Callable
from typing import Any

from sparsetd import evaluation
from sparsetd._tools import memory
from sparsetd._tools.progress import say
from sparsetd.cli import options
from sparsetd.cli.command import Outcome, command, option
from sparsetd.evaluation.result import Decision
from sparsetd.features.basis import LARGEST
from sparsetd.logs import Shard
from sparsetd.logs.door import Log, extent, files_of, manifest_of
from sparsetd.logs.files import notes_of
from sparsetd.logs.sharding import DENSE

BUILT = "'auto' adds bends and products of the columns; 'none' takes the columns as they are"
CLASSIFIERS = ("logistic", "boosting", "forest")
JUDGING = (
    options.GAMMA,
    option("--level P", "level of the intervals", options.inside, 0.95),
    option("--features", BUILT, ("auto", "none"), "auto"),
    option("--classifier", "estimate the behaviour policy with this classifier", CLASSIFIERS),
    option("--cluster COLUMN", "episodes with the same value belong together: 'patient' of several stays"),
    options.N_FOLDS,
    *options.ENGINE,
)
HALVES = "random halves of the log for the selection frequencies"
KINDS = ("every", "first", "persistent")
NAMED = "a policy, with a name if you like (repeatable): current=behavior, new='B if lactate > 2'"
WHEN = "the cause is new at every decision, affects only the first one, or lasts for the whole episode"
FACTORS = "1.25,1.5,2,3,5"
FOLDED = (
    "The probabilities of the logged actions were estimated from {n} folded columns. Features that share a column hide "
    "what people looked at, as an unrecorded cause does, so the value may be off. Log the probabilities (a column "
    "behavior_prob), or fold into more columns: --buckets {more}."
)
IN_WORDS = {"folding": "folded columns", "repeated_ids": "repeated ids"}  # doubts on the page
SHARED_ID = (
    "Several episodes share one `{name}`: they are not independent, and the intervals are too narrow. Ask with {ask}."
)
MISFITS = {"misspecified", "unobserved_state", "behavior_misfit"}  # cautions that say that the model is wrong
SHARED = (
    "The features were folded into {n} columns, and the model cannot tell apart features that share one. This may be "
    "why it is wrong: compare with the answer of --buckets {more}."
)


def named_policy(text: str) -> tuple[str, str]:
    """The name and the policy of NAME=POLICY; a rule in words, which may hold an equals sign, names itself."""
    name, equals, policy = text.partition("=")
    if not equals or " if " in name:
        return text, text
    if not name.strip() or not policy:
        raise ArgumentTypeError(f"must look like NAME=POLICY or POLICY, not '{text}'")
    return name, policy


def judged(question: Callable[..., Any], args: Namespace, log: tuple[Shard, ...], **others: Any) -> Any:
    """Call a function of `evaluation` with the options as its arguments."""
    features = None if args.features == "none" else args.features
    others |= {"classifier": classifier_of(args.classifier), "engine": options.engine_of(args), "progress": say}
    return options.passed(question, args, transitions=afforded(args, log), features=features, **others)


def afforded(args: Namespace, parts: tuple[Shard, ...]) -> tuple[Shard, ...]:
    """The log of a command that judges policies. A single file is refused if it does not fit into memory."""
    log, *others = parts
    if others:
        return parts
    n, p = (0, 0) if log.log is not None else extent(log.path, **log.columns)
    if not n:  # only reading tells its size
        log = Shard(log.read())
        n, p = log.read().observation.shape
    built = LARGEST // 3 if args.features == "auto" else 0  # a log large enough to matter gets no more functions
    need = memory.for_evaluation(n, p + built)
    if need > memory.GIB:
        say(f"this takes up to {need / memory.GIB:.1f} GiB of memory")
    what, remedy = f"to evaluate about {n:,} rows of {p} columns", "take fewer rows or columns, or a larger machine"
    memory.require(need, what, remedy)
    return (log,)


def classifier_of(name: str | None) -> Any:
    """The classifier of this name; None without a name."""
    from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    known = {
        "logistic": make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)),
        "boosting": HistGradientBoostingClassifier(random_state=0),
        "forest": RandomForestClassifier(min_samples_leaf=5, random_state=0),
    }
    return None if name is None else known[name]


def check_page(args: Namespace, *targets: str | None) -> None:
    """Refuse to write the page over an input, such as the log or a model file that a target names."""
    files = [text for text in targets if text and (text.startswith("greedy:") or text.endswith(".sparsetd"))]
    models = [text.removeprefix("greedy:") for text in files]
    options.check_output(args.report, ".html", ".htm", inputs=[args.log, *models])


def told(args: Namespace, result: Decision, *lines: str, **settings: Any) -> Outcome:
    """Write the page if one is asked for, and return the answer with these lines below it."""
    answer = result.to_dict()
    red = {caution["code"] for caution in answer.get("warnings", ()) if caution["severity"] == "red"}
    doubts = {"folding": about_folding(args, misfit=bool(red & MISFITS)), "repeated_ids": about_ids(args)}
    doubts = {name: doubt for name, doubt in doubts.items() if doubt}
    lines = (*lines, *(f"caution: {doubt}" for doubt in doubts.values()))
    settings |= {IN_WORDS[name]: doubt for name, doubt in doubts.items()}
    if args.report is not None:
        command = shlex.join(["sparsetd", *args.words])
        result.save_report(args.report, unit=args.unit, command=command, log=args.log, **settings)
        lines = (*lines, f"report: {args.report}")
    told = {**answer, "report": args.report} | doubts
    return "\n".join([result.text(unit=args.unit), *lines]), told


def about_ids(args: Namespace) -> str:
    """A caution if `prepare` found an id that several episodes share, and nobody asks with it; otherwise empty."""
    files = files_of(args.log) if getattr(args, "cluster", None) is None else []
    shared = (notes_of(files[0]).get("learnt") or {}).get("shared") if files else None
    return SHARED_ID.format(name=shared, ask=shlex.join(["--cluster", shared])) if shared else ""


def about_folding(args: Namespace, *, misfit: bool) -> str:
    """A caution if features were folded into so few columns that the answer may suffer; otherwise empty."""
    columns = {**manifest_of(args.log)["columns"], **args.column}
    n = columns.get("buckets")
    if n is None or n >= DENSE:
        return ""
    schema, more = Log(args.log, **columns).schema, min(4 * n, DENSE)
    if not (schema.behavior_prob or schema.ratio) and getattr(args, "target", None) != "behavior":
        return FOLDED.format(n=n, more=more)
    return SHARED.format(n=n, more=more) if misfit else ""


@command(
    *options.LOG,
    options.PART,
    options.TARGET,
    *options.REPORT,
    option("--lower P", "also print a one-sided bound: the value is at least this, at level P", options.confident),
    option("--all-features", "keep every feature, without selection", bool),
    option("--check", "also ask boosted trees, for up to a minute", ("boosting",)),
    options.n_resamples(HALVES),
    options.seed_of("the halves"),
    *JUDGING,
)
def evaluate(args: Namespace) -> Outcome:
    """Estimate what a policy would have been worth, from a log, with an interval and reasons.

    Prints the value that an episode would have under the policy, with a 95 % interval, and the
    difference to what was done. Says what the policy does, how much of the log speaks about it, which
    columns carry the value, what other estimators find, and what speaks against the answer. With
    --report it writes the same as a page for people who do not program.

    The policy may be a rule in words, a column of probabilities, a model file or a Python function.
    If the log does not say how probable its actions were (columns behavior_prob or ratio), this is
    estimated from the actions.

    examples:
      sparsetd evaluate log.parquet --target 'B if lactate > 2' --gamma 1 --report report.html
      sparsetd evaluate log.parquet --target target_prob
      sparsetd evaluate log.csv --target policies:greedy --gamma 1
      sparsetd evaluate log.parquet --target behavior --all-features --json
      sparsetd evaluate log-shards --target target_prob --n-jobs 4 --checkpoint kept
    """
    from sparsetd import LSTD

    check_page(args, args.target)
    log, named = options.read_with_targets(args, {"target": args.target})
    estimator = LSTD(gamma=args.gamma, fit_intercept=True) if args.all_features else None
    result = judged(evaluation.evaluate, args, log, **named, estimator=estimator)
    if not math.isfinite(result.value):
        raise ArithmeticError("the value is too large to compute: rescale the rewards, and look at 'sparsetd inspect'")
    bound = None if args.lower is None else result.estimate.interval(2 * args.lower - 1)[0]
    lines = [] if bound is None else [f"at least {bound:.4f} with {100 * args.lower:.6g}% confidence"]
    settings = {"log": args.log, "target": args.target or "as logged"}
    text, data = told(args, result, *lines, target=settings["target"])
    data |= {"unit": args.unit, "settings": {**settings, **data["settings"]}}
    return text, data | ({} if bound is None else {"lower_bound": bound})


@command(
    *options.LOG,
    options.PART,
    option("--target [NAME=]POLICY", NAMED, named_policy, {}, action=options.Assignments, required=True),
    option("--by COLUMN", "also compare within groups of this column, observed or not"),
    *options.REPORT,
    options.n_resamples(f"{HALVES}, where one policy is named"),
    options.seed_of("the halves"),
    *JUDGING,
)
def compare(args: Namespace) -> Outcome:
    """Compare several policies on one log: values, all differences, which may be best.

    Prints the value of every policy and all their differences, with intervals that hold for all of them
    at once, and names the policies that may be best. It also shows where they act differently and how
    much of the difference comes from there. The other policies are compared with the first one.

    A policy is anything that 'sparsetd evaluate --target' takes. One rule with a range of thresholds in
    braces, without a name, stands for one policy per threshold.

    examples:
      sparsetd compare log.parquet --target current=behavior --target new=target_prob
      sparsetd compare log.parquet --target current=behavior --target q=greedy:q.sparsetd --report page.html
      sparsetd compare log.parquet --target behavior --target 'B if lactate > 2' --by age
      sparsetd compare log.parquet --target 'B if lactate > {1..4}'
    """
    check_page(args, *args.target.values())
    log, named = options.read_with_targets(args, args.target)
    family = len(named) == 1 and "{" in "".join(named)
    say("comparing the thresholds" if family else f"comparing {len(named)} policies")
    targets = next(iter(named.values())) if family else named
    result = judged(evaluation.compare, args, log, targets=targets, by=_groups(args, len(log)))
    pairs = (policy if name == policy else f"{name}={policy}" for name, policy in args.target.items())
    return told(args, result, targets=", ".join(pairs), gamma=args.gamma)


def _groups(args: Namespace, n_parts: int) -> Any:
    """The argument `by` from --by: the name of an observed column, or any other column of the log with its values."""
    if args.by is None or n_parts > 1:
        return args.by
    try:
        log = options.read_log(args, ratio=None, target_prob=None)
        if args.by in (log.names or ()):
            return args.by
        return {args.by: options.read_log(args, ratio=None, target_prob=None, group=args.by).group}
    except ValueError as error:
        raise ValueError(str(error).replace("`group` names", "--by names")) from None


@command(
    *options.LOG,
    options.PART,
    option("--out FILE", "policy file to write (.sparsetd), recommended or not"),
    *options.REPORT,
    option("--learn P", "share of episodes to learn on", options.inside, 0.5),
    options.n_resamples("random splits, an odd number; their median decides", 5),
    options.seed_of("the splits"),
    *JUDGING,
)
def improve(args: Namespace) -> Outcome:
    """Learn a better policy on one part of a log and test it once on the other.

    The episodes are split. On one part several policies near what was done are learnt and one of them
    is chosen; on the other part it is tested once. That is done for several splits, and the median
    decides: the policy is recommended only if it does better than what was done, beyond chance. "It is
    not recommended" is an answer, not an error.

    The policy is a small table of scores, one for each action. A score is a straight line in every
    column, so it cannot bend at a threshold. You can read the table, save it, apply it to new rows with
    'sparsetd predict', and name the file as a --target.

    examples:
      sparsetd improve log.parquet --out policy.sparsetd --report page.html
      sparsetd predict policy.sparsetd new.parquet
      sparsetd compare other.parquet --target current=behavior --target new=policy.sparsetd
    """
    from sparsetd.estimators import model_file

    options.check_output(args.out, ".sparsetd", inputs=[args.log])
    check_page(args)
    log = options.read_shards(args, ratio=None, target_prob=None)
    result = judged(evaluation.improve, args, log)
    lines = []
    if args.out is not None:
        notes = {"log": args.log, "recommended": result.recommended, "columns": args.column}
        model_file.save(result.policy, args.out, notes=notes)
        lines = [f"policy: {args.out}"]
    settings = {"gamma": args.gamma, "learn": args.learn, "splits": args.n_resamples, "random state": args.random_state}
    text, data = told(args, result, *lines, **settings)
    return text, data | {"out": args.out}


@command(
    *options.LOG,
    options.PART,
    options.TARGET,
    option("--confounding G,…", "the factors, each at least 1", options.factors, FACTORS),
    option("--kind", WHEN, KINDS, "every"),
    *options.REPORT,
    *JUDGING,
)
def sensitivity(args: Namespace) -> Outcome:
    """Ask how strong an unrecorded cause would have to be to change the answer.

    Suppose that a cause which nobody recorded changed the odds of the logged actions by up to a factor
    of G (the marginal sensitivity model). This prints how low and how high the difference to what was
    done could then be. G = 1 is the answer of 'sparsetd evaluate'.

    examples:
      sparsetd sensitivity log.parquet --target 'B if lactate > 2'
      sparsetd sensitivity log.parquet --target 'B if lactate > 2' --confounding 1.1,1.5,2 --report page.html
      sparsetd sensitivity log.parquet --target policies:mine --kind persistent
    """
    check_page(args, args.target)
    log, named = options.read_with_targets(args, {"target": args.target})
    result = judged(evaluation.sensitivity, args, log, **named)
    return told(args, result, target=args.target or "as logged")
