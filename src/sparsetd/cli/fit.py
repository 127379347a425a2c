"""`sparsetd fit`: learn a value function from a log and keep it in a file."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError, Namespace
from functools import partial
from typing import Any

from sparsetd.cli.command import Command, Outcome, WrongInput
from sparsetd.cli.console import Console
from sparsetd.cli.log_options import (
    add_checkpoint,
    add_gamma,
    add_log,
    add_part,
    check_checkpoint,
    check_output,
    read_log,
    read_shards,
)
from sparsetd.cli.policies import function_of
from sparsetd.logs.text import is_number

SUMMARY = "learn a value function from a log and save it to a file"
DETAILS = """
Fits an estimator to the standardised columns of the log (or to another feature map) and writes
a model file: no pickle, checksummed, with the names of the features. Where the log has
importance ratios they are used. With --policy, action values of that policy are learned.

examples:
  sparsetd fit log.parquet --out model.sparsetd
  sparsetd fit log.parquet --out model.sparsetd --method LSTD --set alpha=0.01
  sparsetd fit big.parquet --out model.sparsetd --method ROTD --checkpoint kept
  sparsetd fit shards --out model.sparsetd        a folder of shards, larger than memory
  sparsetd fit log.csv --out q.sparsetd --method LSTD --policy policies:greedy
"""
FEATURES = {"standard": "StandardScaler", "raw": None, "rbf": "RBFGrid", "fourier": "Fourier", "tiles": "TileCoding"}
SHOWN = 15


def arguments(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add_log(parser)
    add_part(parser)
    add("--out", required=True, metavar="FILE", help="model file to write")
    add("--method", default="SparseTDCV", metavar="NAME", help="estimator (default: %(default)s)")
    add(
        "--set",
        action="append",
        default=[],
        type=_assignment,
        metavar="NAME=VALUE",
        help="a parameter of it (repeatable)",
    )
    add_gamma(parser)
    add("--features", choices=list(FEATURES), help="feature map (default: standard, and raw for sparse rows)")
    add(
        "--policy",
        metavar="MODULE:FUNCTION",
        help="learn action values of this policy; the code of MODULE is run, found in the current folder first",
    )
    add_checkpoint(parser)


def run(args: Namespace, console: Console) -> Outcome:
    from scipy.sparse import issparse

    from sparsetd import ValueFunction, model_file
    from sparsetd.estimators.fit_stream import fit_in_parts
    from sparsetd.evaluation import fit_shards

    target = check_output(args.out, inputs=[args.log])
    check_checkpoint(args.checkpoint, args.out)
    estimator = _estimator(args)
    policy = None if args.policy is None else function_of(args.policy)
    parts = read_shards(args)
    whole = len(parts) == 1 or policy is not None
    log = read_log(args, sparse=True) if whole else parts[0].read(sparse=True)
    model = ValueFunction(_features(args.features or ("raw" if issparse(log.observation) else "standard")), estimator)
    console.progress(f"fitting {args.method} to {f'{len(log):,} transitions' if whole else f'{len(parts)} shards'}")
    if not whole:
        fit_shards(model, parts, checkpoint=args.checkpoint)
    elif args.checkpoint is None:
        model.fit(log, policy)
    else:
        model._begin(log)
        model._learn(log, policy, partial(fit_in_parts, model.estimator_, checkpoint=args.checkpoint))
    model.policy_ = None  # a function cannot be kept in a file; the action values can
    notes = {"log": args.log, "gamma": args.gamma, "policy": args.policy or ""}
    model_file.save(model, target or args.out, notes=notes | {"buckets": dict(args.column).get("buckets")})
    return _outcome(args, model)


def _outcome(args: Namespace, model: Any) -> Outcome:
    fitted = model.estimator_
    weights = sorted(zip(model.feature_names_, fitted.coef_, strict=True), key=lambda pair: -abs(pair[1]))
    kept = [(str(name), float(weight)) for name, weight in weights if weight != 0]
    lines = [
        f"{args.method}: {fitted.status_} after {fitted.n_iter_:,} steps; {len(kept)} of {len(weights)} features kept"
    ]
    lines += [f"  {name:<28s} {weight:+.4g}" for name, weight in kept[:SHOWN]]
    lines += [f"  … and {len(kept) - SHOWN} more"] if len(kept) > SHOWN else []
    data = {"model": args.out, "method": args.method, "status": fitted.status_, "intercept": fitted.intercept_}
    features = [{"name": name, "weight": weight} for name, weight in kept]
    return Outcome(
        "\n".join([*lines, f"model: {args.out}"]), {**data, "features": features, "n_candidates": len(weights)}
    )


def _estimator(args: Namespace) -> Any:
    from sparsetd.estimators.validation import check_parameters, nearest

    method = method_named(args.method)
    given = {"gamma": args.gamma, "fit_intercept": True, **dict(args.set)}
    parameters = method().get_params()
    for name in given:
        if name not in parameters:
            raise WrongInput(nearest(f"parameter of {args.method}", name, sorted(parameters)))
    check_parameters(given)
    return method(**given)


def method_named(name: str) -> Any:
    """The estimator of this name, in small letters or capitals."""
    from sparsetd.estimators import BaseTD
    from sparsetd.estimators.validation import nearest
    from sparsetd.model_file import known_classes

    known = {n.lower(): cls for n, cls in known_classes().items() if issubclass(cls, BaseTD) and cls is not BaseTD}
    if name.lower() not in known:
        raise WrongInput(nearest("method", name, sorted(cls.__name__ for cls in known.values())))
    return known[name.lower()]


def _features(kind: str) -> Any:
    from sklearn.preprocessing import StandardScaler

    from sparsetd import features

    name = FEATURES[kind]
    return None if name is None else StandardScaler() if kind == "standard" else getattr(features, name)()


def _assignment(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise ArgumentTypeError(f"must look like NAME=VALUE, not '{text}'")
    return name, value_of(value)


def value_of(text: str) -> Any:
    """A number, true, false, none, or the text itself."""
    words = {"true": True, "false": False, "none": None}
    if text.lower() in words:
        return words[text.lower()]
    if not is_number(text):
        return text
    return int(text) if text.lstrip("+-").isdigit() else float(text)


FIT = Command("fit", SUMMARY, DETAILS, arguments, run)
