"""Learn a value function from a log and save it to a file.

Fits an estimator to the standardised columns of the log (or to another feature map) and writes
a model file: no pickle, checksummed, with the names of the features. Where the log has
importance ratios they are used. With --target, action values of that policy are learned.

A method that learns row by row (TD, TDC, ROTD …) goes on from an earlier file with --init: its
features and settings stay, its weights move on. --export writes what serving needs, and no more.

examples:
  sparsetd fit log.parquet --out model.sparsetd
  sparsetd fit log.parquet --out model.sparsetd --method LSTD --set alpha=0.01
  sparsetd fit big.parquet --out model.sparsetd --method ROTD --checkpoint kept
  sparsetd fit shards --out model.sparsetd        a folder of shards, larger than memory
  sparsetd fit today.parquet --init yesterday.sparsetd --out today.sparsetd --export today.json
  sparsetd fit log.csv --out q.sparsetd --method LSTD --target policies:greedy
"""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError, Namespace
from functools import partial
from pathlib import Path
from typing import Any

from sparsetd.cli.command import Command, Console, Outcome, WrongInput, words
from sparsetd.cli.options import (
    GAMMA,
    Assignments,
    add_checkpoint,
    add_gamma,
    add_log,
    add_part,
    check_checkpoint,
    check_output,
    function_of,
    read_log,
    read_shards,
)
from sparsetd.logs.text import is_number

FEATURES = {"standard": "StandardScaler", "raw": None, "rbf": "RBFGrid", "fourier": "Fourier", "tiles": "TileCoding"}
METHOD = "SparseTDSelect"
TARGET_HELP = (
    "learn action values of this policy: a rule in words, or module:function; the code of that module is run, found in "
    "the current folder first"
)
SHOWN = 15


def arguments(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add_log(parser)
    add_part(parser)
    add("--out", required=True, metavar="FILE", help="model file to write")
    add("--method", metavar="NAME", help=f"estimator (default: {METHOD})")
    values = "a parameter of it (repeatable)"
    add("--set", action=Assignments, default=[], type=_assignment, metavar="NAME=VALUE", help=values)
    add_gamma(parser, default=None)
    add("--features", choices=list(FEATURES), help="feature map (default: standard, and raw for sparse rows)")
    add("--target", metavar="POLICY", help=TARGET_HELP)
    add("--init", metavar="FILE", help="go on from this model file, which has the method, its settings and features")
    add("--export", metavar="FILE", help="also write the weights alone: .sparsetd, .json or .onnx")
    add_checkpoint(parser)


def run(args: Namespace, console: Console) -> Outcome:
    from scipy.sparse import issparse

    from sparsetd import ValueFunction
    from sparsetd.estimators import model_file
    from sparsetd.estimators.fit_stream import fit_in_parts
    from sparsetd.evaluation import fit_shards

    out = check_output(args.out, inputs=[args.log, args.init])
    exported = check_output(args.export, ".sparsetd", ".json", ".onnx", inputs=[args.log, args.init, args.out])
    check_checkpoint(args.checkpoint, args.out)
    earlier = None if args.init is None else _earlier(args)
    estimator = _estimator(args) if earlier is None else earlier.estimator_
    policy = None if args.target is None else function_of(args.target)
    parts = read_shards(args)
    whole = len(parts) == 1 or policy is not None
    log = read_log(args, sparse=True) if whole else parts[0].read(sparse=True)
    kind = args.features or ("raw" if issparse(log.observation) else "standard")
    model = ValueFunction(_features(kind), estimator) if earlier is None else earlier
    what = f"{len(log):,} transitions" if whole else f"{len(parts)} shards"
    console.progress(f"fitting {type(estimator).__name__} to {what}")
    if not whole:
        fit_shards(model, parts, checkpoint=args.checkpoint, warm_start=earlier is not None)
    elif args.checkpoint is None:
        (model.fit if earlier is None else model.partial_fit)(log, policy)
    else:
        if earlier is None:
            model._begin(log)
        how = {"checkpoint": args.checkpoint, "warm_start": earlier is not None}
        model._learn(log, policy, partial(fit_in_parts, model.estimator_, **how))
    model.policy_ = None  # a function cannot be kept in a file; the action values can
    notes = {"log": args.log, "gamma": estimator.gamma, "policy": args.target or "", "init": args.init or ""}
    notes["buckets"] = dict(args.column).get("buckets")
    model_file.save(model, out or args.out, notes=notes)
    if exported is not None:
        _export(model, exported, notes)
    return _outcome(args, model)


def _earlier(args: Namespace) -> Any:
    """The model that is to go on."""
    from sparsetd import ValueFunction
    from sparsetd.estimators import model_file

    model = model_file.load(args.init)
    if not isinstance(model, ValueFunction):
        raise WrongInput(f"{args.init} holds a {type(model).__name__} without its feature map: use a file of 'fit'")
    given = {"--method": args.method, "--set": args.set, "--gamma": args.gamma, "--features": args.features}
    for option, value in given.items():
        if value:
            raise WrongInput(f"{option} is settled by the model file that --init names: leave it out")
    if (model.n_actions_ is None) != (args.target is None):
        what = "state values: leave --target out" if model.n_actions_ is None else "action values: name --target too"
        raise WrongInput(f"{args.init} holds {what}")
    buckets = model_file.read_notes(args.init).get("buckets")
    if buckets and "buckets" not in dict(args.column):
        args.column.append(("buckets", buckets))
    return model


def _export(model: Any, path: Path, notes: dict[str, Any]) -> None:
    """Write the weights alone, in the format that the ending of the file says."""
    from sparsetd.estimators import model_file

    if path.suffix.lower() == ".json":
        model_file.export_json(model, path)
    elif path.suffix.lower() == ".onnx":
        model_file.export_onnx(model.estimator_, path)
    else:
        model_file.save(model, path, notes=notes, learning=False)


def _outcome(args: Namespace, model: Any) -> Outcome:
    fitted, method = model.estimator_, type(model.estimator_).__name__
    weights = sorted(zip(model.feature_names_, fitted.coef_, strict=True), key=lambda pair: -abs(pair[1]))
    kept = [(str(name), float(weight)) for name, weight in weights if weight != 0]
    lines = [f"{method}: {fitted.status_} after {fitted.n_iter_:,} steps; {len(kept)} of {len(weights)} features kept"]
    lines += [f"  {name:<28s} {weight:+.4g}" for name, weight in kept[:SHOWN]]
    lines += [f"  … and {len(kept) - SHOWN} more"] if len(kept) > SHOWN else []
    data = {"model": args.out, "method": method, "status": fitted.status_, "intercept": fitted.intercept_}
    features = [{"name": name, "weight": weight} for name, weight in kept]
    return Outcome(
        "\n".join([*lines, f"model: {args.out}"]), {**data, "features": features, "n_candidates": len(weights)}
    )


def _estimator(args: Namespace) -> Any:
    from sparsetd.estimators.validation import check_parameters, nearest

    method = method_named(args.method or METHOD)
    if "gamma" in dict(args.set):
        raise WrongInput("--set gamma is the discount, which has an option of its own: write --gamma")
    given = {"gamma": GAMMA if args.gamma is None else args.gamma, "fit_intercept": True, **dict(args.set)}
    parameters = method().get_params()
    for name in given:
        if name not in parameters:
            raise WrongInput(nearest(f"parameter of {method.__name__}", name, sorted(parameters)))
    check_parameters(given)
    return method(**given)


def method_named(name: str) -> Any:
    """The estimator of this name, in small letters or capitals."""
    from sparsetd.estimators import BaseTD
    from sparsetd.estimators.model_file import known_classes
    from sparsetd.estimators.validation import nearest

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


FIT = Command("fit", *words(__doc__), arguments, run)
