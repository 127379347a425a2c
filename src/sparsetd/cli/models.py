"""The commands about value functions: select, fit and predict."""

from __future__ import annotations

import csv
import io
from argparse import Namespace
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.preprocessing import StandardScaler

from sparsetd._tools.progress import say
from sparsetd.cli import options
from sparsetd.cli.command import Outcome, bold, command, option
from sparsetd.estimators import BaseTD, model_file
from sparsetd.estimators.fit_stream import fit_in_parts
from sparsetd.estimators.validation import check_parameters, nearest
from sparsetd.logs.door import Log, manifest_of
from sparsetd.logs.prepare import prepare
from sparsetd.logs.reading import array, observed
from sparsetd.logs.schema import ALIASES, SIZES, SPARSE, in_order
from sparsetd.logs.text import is_number
from sparsetd.report.document import aligned
from sparsetd.selection import SparseTDSelect
from sparsetd.storage.atomic import replace_file

MAPS = ("standard", "raw", "rbf", "fourier", "tiles")
MOST_SELECTED = 12_000  # columns of 20,000 hashed rows: 8,192 take 40 s, 12,000 take 80 s, and 16,384 more than 700 s
METHOD = "SparseTDSelect"
SHOWN = 15
STATE = ("observation", "episode")
OTHERS = {"next_observation", *ALIASES} - set(STATE)


@command(*options.LOG, options.TARGET, options.GAMMA)
def select(args: Namespace) -> Outcome:
    """Choose the features that carry the value, and show the path of penalties.

    Chooses among the columns as 'sparsetd evaluate' does, drops what chance would explain, and prints
    the path of penalties with the features that are left.

    examples:
      sparsetd select log.parquet
      sparsetd select log.parquet --target target_prob --gamma 0.95 --json
    """
    from sparsetd.evaluation import evaluate

    log, named = options.read_with_targets(args, {"target": args.target})
    how = {**named, "features": None, "n_resamples": 0, "progress": say}
    found = options.passed(evaluate, args, transitions=log, **how)
    features, lines = kept_features([f.name for f in found.features], [f.weight for f in found.features])
    rows = _path_rows(found.path, [feature["name"] for feature in features])
    table = aligned([("penalty", "features", ""), *(row.values() for row in rows)], bold)
    head = f"{len(features)} of {found.n_candidates} features chosen (weight per standard deviation):"
    text = "\n".join([*table, "", head, *lines])
    return text, {"path": rows, "features": features, "n_candidates": found.n_candidates}


def _path_rows(path: Mapping[str, Any] | None, kept: Sequence[str]) -> list[dict[str, Any]]:
    """The number of features at every penalty, with a mark at the first that lets in all that are kept."""
    if path is None:
        return []
    drawn = [path["weights"][name] for name in kept if name in path["weights"]]
    inside = [all(weights) for weights in zip(*drawn, strict=True)] or [False]
    first = inside.index(True) if any(inside) else len(path["penalty"]) - 1
    each = enumerate(zip(path["penalty"], path["n_features"], strict=True))
    return [{"penalty": rho, "n_features": n, "chosen": "lets in all" if k == first else ""} for k, (rho, n) in each]


def kept_features(names: Sequence[Any], coef: Any) -> tuple[list[dict[str, Any]], list[str]]:
    """The features with a weight, the heaviest first, and a line for each."""
    order = [j for j in np.argsort(-np.abs(coef), kind="stable") if coef[j] != 0]
    kept = [{"name": str(names[j]), "weight": float(coef[j])} for j in order]
    return kept, [f"  {one['name']:<28s} {one['weight']:+.4g}" for one in kept]


def value_of(text: str) -> Any:
    """A number, true, false, none, or the text itself."""
    words = {"true": True, "false": False, "none": None}
    if text.lower() in words:
        return words[text.lower()]
    if not is_number(text):
        return text
    return int(text) if text.lstrip("+-").isdigit() else float(text)


SETTING = options.assignment("NAME=VALUE", value_of)
CODE = "the code of that module is run, found in the current folder first"


@command(
    *options.LOG,
    options.PART,
    option("--out FILE", "model file to write", required=True),
    option("--method NAME", f"estimator (default: {METHOD})"),
    option("--set NAME=VALUE", "a parameter of the estimator (repeatable)", SETTING, {}, action=options.Assignments),
    option("--gamma G", "discount of one step, 0 to 1 (default: 0.99)", options.fraction),
    option("--features", "feature map (default: standard, and raw for sparse rows)", MAPS),
    option("--target POLICY", f"learn action values of this policy: a rule in words, or module:function; {CODE}"),
    option("--init FILE", "continue from this model file, with its method, settings and features"),
    option("--export FILE", "also write the weights alone: .sparsetd, .json or .onnx"),
    options.CHECKPOINT,
    options.CHECKPOINT_EVERY,
)
def fit(args: Namespace) -> Outcome:
    """Learn a value function from a log and save it to a file.

    Fits an estimator to the standardised columns of the log (or to another feature map) and writes
    a model file: no pickle, checksummed, with the names of the features. Where the log has
    importance ratios they are used. With --target, action values of that policy are learned.

    A method that learns row by row (TD, TDC, ROTD …) continues from an earlier file with --init: its
    features and settings stay, and it goes on learning its weights. --export writes what serving needs, and no more.

    examples:
      sparsetd fit log.parquet --out model.sparsetd
      sparsetd fit log.parquet --out model.sparsetd --method LSTD --set alpha=0.01
      sparsetd fit big.parquet --out model.sparsetd --method ROTD --checkpoint kept
      sparsetd fit shards --out model.sparsetd        a folder of shards, larger than memory
      sparsetd fit today.parquet --init yesterday.sparsetd --out today.sparsetd --export today.json
      sparsetd fit log.csv --out q.sparsetd --method LSTD --target policies:greedy
    """
    options.check_output(args.out, inputs=[args.log, args.init])
    options.check_output(args.export, ".sparsetd", ".json", ".onnx", inputs=[args.log, args.init, args.out])
    kept = options.checkpoint_of(args)
    earlier = None if args.init is None else _earlier(args)
    estimator = _estimator(args) if earlier is None else earlier.estimator_
    policy, parts = _policy(args.target), options.read_shards(args)
    whole = len(parts) == 1 or policy is not None
    log = options.read_log(args, sparse=True) if whole else parts[0].read(sparse=True)
    model = _unfitted(args.features, log, estimator) if earlier is None else earlier
    _refuse_too_many(estimator, log)
    say(f"fitting {type(estimator).__name__} to {f'{len(log):,} transitions' if whole else f'{len(parts)} shards'}")
    whose = _whose(args, log)
    say(f"values are those of {whose}")
    _tell_of_ends(log, whole)
    _learn(model, log if whole else parts, policy, earlier is not None, kept)
    model.policy_ = None  # a function cannot be kept in a file; the action values can
    notes = {"log": args.log, "gamma": estimator.gamma, "policy": args.target or "", "init": args.init or ""}
    named = _named_for_later(args, log)
    notes |= {"columns": named, "values": named.get("values"), "whose": whose}
    model_file.save(model, args.out, notes=notes)
    if args.export is not None:
        _export(model, args.export, notes)
    return _told(args, model)


def _whose(args: Namespace, log: Any) -> str:
    """The policy whose values a fit learns: where the log has ratios, the fit uses them. A model keeps its policy."""
    if args.target is not None:
        return f"the policy {args.target!r}, by action"
    both = log.target_prob is not None and log.behavior_prob is not None
    whose = "the policy of the log's `target_prob` or `ratio`" if both or log.ratio is not None else "what was done"
    before = whose if args.init is None else model_file.read_notes(args.init).get("whose", whose)
    if before != whose:
        other = f"{args.init} holds values of {before}, and this log has those of {whose}"
        raise ValueError(f"{other}: give it the columns of probabilities that the first log had, and no others")
    return whose


def _policy(target: str | None) -> Any:
    """The policy whose action values are asked for."""
    from sparsetd.evaluation.target import is_named, named_policy
    from sparsetd.logs.rules import policy

    if target is None:
        return None
    return named_policy(target) if is_named(target) else policy(target)


def _unfitted(kind: str | None, log: Any, estimator: Any) -> Any:
    """The estimator with the feature map of this name; sparse rows are taken as they are, if none is named."""
    from sparsetd import ValueFunction, features

    maps: dict[str, Any] = {"rbf": features.RBFGrid, "fourier": features.Fourier, "tiles": features.TileCoding}
    maps |= {"standard": StandardScaler, "raw": lambda: None}
    return ValueFunction(maps[kind or ("raw" if issparse(log.observation) else "standard")](), estimator)


def _named_for_later(args: Namespace, log: Any) -> dict[str, Any]:
    """The columns by role that a later log needs for this model.

    Sparse rows keep their width, because a column means another feature if the width changes.
    """
    if not issparse(log.observation):
        return dict(args.column)
    known = manifest_of(args.log)["columns"].items()
    named = {**{role: name for role, name in known if name}, **args.column}
    return named if named.get("buckets") else {**named, "n_features": log.observation.shape[1]}


def _tell_of_ends(log: Any, whole: bool) -> None:
    """Say what becomes of episodes that were cut; of a log in shards, only the first shard is looked at."""
    if not log.terminated.any():
        say(
            "no row is marked as terminated, so every episode counts as going on after its last row: name the column "
            "that says where episodes ended (--column terminated=NAME), if there is one"
        )
    cut = log.truncated.sum()
    if cut:
        place = "" if whole else "in the first shard, "
        say(
            f"{place}{cut:,} of {log.n_episodes:,} episodes were cut: unless columns hold the successors of their last "
            f"rows, these rows are left out, and ends then seem {cut / len(log):.1%} more frequent"
        )


def _learn(model: Any, log: Any, policy: Any, goes_on: bool, kept: Mapping[str, Any]) -> None:
    """Fit the model to a log in memory or to shards; a model that continues keeps its features."""
    from sparsetd.evaluation import fit_shards

    if isinstance(log, tuple):
        fit_shards(model, log, warm_start=goes_on, **kept)
    elif not kept:
        (model.partial_fit if goes_on else model.fit)(log, policy)
    else:
        if not goes_on:
            model._begin(log)
        model._learn(log, policy, partial(fit_in_parts, model.estimator_, warm_start=goes_on, **kept))


def _export(model: Any, path: str, notes: Mapping[str, Any]) -> None:
    """Write the weights alone, in the format that the ending names."""
    if path.lower().endswith(".json"):
        model_file.export_json(model, path)
    elif path.lower().endswith(".onnx"):
        model_file.export_onnx(model.estimator_, path)
    else:
        model_file.save(model, path, notes=notes, learning=False)


def _earlier(args: Namespace) -> Any:
    """The model file that --init names, if the other options leave its settings alone."""
    from sparsetd import ValueFunction

    model, notes = _loaded(args.init, ValueFunction)
    for name in ("method", "set", "gamma", "features"):
        if getattr(args, name):
            raise ValueError(f"--{name} is settled by the model file that --init names: leave it out")
    if (model.n_actions_ is None) != (args.target is None):
        what = "state values: leave --target out" if model.n_actions_ is None else "action values: name --target too"
        raise ValueError(f"{args.init} holds {what}")
    args.column = {**model_file.columns_of_fit(notes, args.column), **args.column}
    return model


def _loaded(path: str, *kinds: type) -> tuple[Any, dict[str, Any]]:
    """The model of a file, if it is of one of these kinds, and the notes about how it was fitted."""
    model = model_file.load(path)
    if not isinstance(model, kinds):
        raise ValueError(f"{path} holds a {type(model).__name__} without its feature map: use a file of 'sparsetd fit'")
    return model, model_file.read_notes(path)


def _refuse_too_many(estimator: Any, log: Any) -> None:
    """Refuse the selection of features among so many that it would not end in a reasonable time."""
    d = log.observation.shape[1]
    if isinstance(estimator, SparseTDSelect) and d > MOST_SELECTED:
        raise ValueError(
            f"{type(estimator).__name__} selects among at most {MOST_SELECTED:,} columns in a reasonable time, and the "
            f"log has {d:,}: name another method with --method, for instance --method TDC"
        )


def _told(args: Namespace, model: Any) -> Outcome:
    """How a fit ended: its status, the heaviest features and the constant."""
    fitted, method = model.estimator_, type(model.estimator_).__name__
    n, (kept, lines) = len(fitted.coef_), kept_features(model.feature_names_, fitted.coef_)
    head = f"{method}: {fitted.status_} after {fitted.n_iter_:,} steps; {len(kept)} of {n} features kept"
    more = [f"  … and {len(kept) - SHOWN} more"] if len(kept) > SHOWN else []
    if fitted.fit_intercept:
        more.append(f"  and a constant, {fitted.intercept_:+.4g} (--set fit_intercept=false leaves it out)")
    text = "\n".join([head, *lines[:SHOWN], *more, f"model: {args.out}"])
    data = {"model": args.out, "method": method, "status": fitted.status_, "intercept": fitted.intercept_}
    return text, {**data, "features": kept, "n_candidates": n}


def _estimator(args: Namespace) -> Any:
    """The estimator that --method names, with the parameters that --set and --gamma give."""
    method = method_named(args.method or METHOD)
    if "gamma" in args.set:
        raise ValueError("--set gamma is the discount, and that has its own option: write --gamma")
    given = {"gamma": 0.99 if args.gamma is None else args.gamma, "fit_intercept": True, **args.set}
    parameters = method().get_params()
    for name in given:
        if name not in parameters:
            raise ValueError(nearest(f"parameter of {method.__name__}", name, sorted(parameters)))
    check_parameters(given)
    return method(**given)


def method_named(name: str) -> Any:
    """The estimator of this name; capitals do not matter."""
    classes = [cls for cls in model_file.known_classes().values() if issubclass(cls, BaseTD) and cls is not BaseTD]
    known = {cls.__name__.lower(): cls for cls in classes}
    if name.lower() not in known:
        raise ValueError(nearest("method", name, sorted(cls.__name__ for cls in classes)))
    return known[name.lower()]


@command(
    option("model MODEL", "file written by 'sparsetd fit' or 'sparsetd improve'"),
    *options.LOG,
    option("--out FILE", "write .csv here instead of printing"),
    option("--like LOG", "LOG is a raw table: prepare it as this log was prepared, in the order of time"),
)
def predict(args: Namespace) -> Outcome:
    """Values of the states of a log from a model file, or actions from a policy file.

    One line per row of the log, in its order: its number, its episode (where the log has them) and
    the value of its state, or one value per action, if the model was fitted with --target. The
    observed columns must be those of the fit, by name, in any order; no others are needed, and what
    --column named for the fit need not be named again. A file of 'sparsetd improve' gives the
    advised action and the probability of every action instead.

    examples:
      sparsetd predict model.sparsetd log.parquet > values.csv
      sparsetd predict model.sparsetd log.parquet --out values.csv
      sparsetd predict model.sparsetd log.parquet --json
      sparsetd predict policy.sparsetd new.parquet --out actions.csv
      sparsetd predict model.sparsetd new.csv --like log.parquet
    """
    from sparsetd import ValueFunction
    from sparsetd.evaluation import ScorePolicy

    options.check_output(args.out, ".csv", inputs=[args.model, args.log])
    model, notes = _loaded(args.model, ValueFunction, ScorePolicy)
    values, episode = _values(model, notes, args)
    what = "actions" if isinstance(model, ScorePolicy) else "values"
    chosen = model.classes_[values.argmax(axis=1)].tolist() if isinstance(model, ScorePolicy) else None
    text = _csv(values, episode, chosen, getattr(model, "classes_", range(values.shape[-1])))
    said = {"mean": float(values.mean())} if chosen is None else {"actions": chosen}
    data: dict[str, Any] = {"n_rows": len(values), **said, "values": values}
    if args.out is not None:
        replace_file(args.out, text + "\n")
        data.pop("values")
        mean = f", mean {values.mean():.4g}" if what == "values" else ""
        text = f"{what} of {len(values):,} rows{mean}\n{what}: {args.out}"
    return text, {**data, "out": args.out}


def _values(model: Any, notes: Mapping[str, Any], args: Namespace) -> tuple[Any, list[Any]]:
    """Values and episodes of all rows in the file's own order: a value needs no rewards, successors or sorted rows."""
    values: list[Any] = []
    episode: list[Any] = []
    known = {**manifest_of(args.log)["columns"], **args.column}
    asked = {role: names for role, names in known.items() if role in (*STATE, *SPARSE, *SIZES, "sql")}
    fitted = {role: names for role, names in model_file.columns_of_fit(notes, known).items() if role not in OTHERS}
    weights = notes.get("values")
    source = args.log if args.like is None else prepare(args.log, like=args.like).columns
    log = Log(source, earlier=fitted, **dict.fromkeys(OTHERS) | asked)
    if weights and log.schema.indices and not log.schema.values:
        raise ValueError(
            f"{args.model} was fitted to sparse rows with values (their column was {weights!r}), and these rows have "
            "none: name it with --column values=NAME"
        )
    for table in log:
        rows, ids = observed(table, log.schema), array(table, "episode")
        names = log.schema.names(rows.shape[1])
        rows = in_order(rows, names, getattr(model, "feature_names_in_", None))
        if callable(model):
            values.append(model(rows))  # the probability of every action
        else:
            values.append(model.value(rows) if model.n_actions_ is None else model.q(rows))
        episode += [] if ids is None else ids.tolist()
    return np.concatenate(values), episode


def _harmless(entry: Any) -> Any:
    """Text that a spreadsheet would run as a formula gets an apostrophe before it, so that it stays text."""
    return f"'{entry}" if isinstance(entry, str) and entry.lstrip()[:1] in ("=", "+", "-", "@") else entry


def _csv(values: Any, episode: list[Any], chosen: list[Any] | None, actions: Iterable[Any]) -> str:
    each = "value" if chosen is None else "probability"
    head = [f"{each}_{a}" for a in actions] if values.ndim == 2 else [each]
    table = {"row": range(len(values)), **({"episode": list(map(_harmless, episode))} if episode else {})}
    table |= {} if chosen is None else {"action": list(map(_harmless, chosen))}
    table |= dict(zip(head, values.reshape(len(values), -1).T.tolist(), strict=True))
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(table)
    writer.writerows(zip(*table.values(), strict=True))
    return file.getvalue().rstrip("\n")
