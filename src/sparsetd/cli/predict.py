"""Values of the states of a log from a model file, or actions from a policy file.

One line per row of the log, in its order: its number, its episode (where the log has them) and
the value of its state, or one value per action, if the model was fitted with --target. The
observed columns must be those of the fit, by name, in any order; no others are needed. A file
of 'sparsetd improve' gives the advised action and the probability of every action instead.

examples:
  sparsetd predict model.sparsetd log.parquet > values.csv
  sparsetd predict model.sparsetd log.parquet --out values.csv
  sparsetd predict model.sparsetd log.parquet --json
  sparsetd predict policy.sparsetd new.parquet --out actions.csv
  sparsetd predict model.sparsetd new.csv --like log.parquet
"""

from __future__ import annotations

import csv
import io
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable
from typing import Any

import numpy as np
from scipy.sparse import issparse

from sparsetd.cli.command import Command, Console, Outcome, WrongInput, words
from sparsetd.cli.options import add_log, check_output
from sparsetd.logs.door import Log
from sparsetd.logs.prepare import prepare
from sparsetd.logs.reading import array, observed
from sparsetd.logs.schema import ALIASES, SIZES, SPARSE, in_order
from sparsetd.storage.atomic import replace_file

STATE = ("observation", "episode")
OTHERS = {"next_observation", *ALIASES} - set(STATE)


def arguments(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add("model", metavar="MODEL", help="file written by 'sparsetd fit' or 'sparsetd improve'")
    add_log(parser)
    add("--out", metavar="FILE", help="write .csv here instead of printing")
    add("--like", metavar="LOG", help="LOG is a raw table: prepare it as this log was prepared, in the order of time")


def run(args: Namespace, console: Console) -> Outcome:
    del console
    from sparsetd import ValueFunction
    from sparsetd.estimators import model_file
    from sparsetd.evaluation import ScorePolicy

    target = check_output(args.out, ".csv", inputs=[args.model, args.log])
    model = model_file.load(args.model)
    if not isinstance(model, (ValueFunction, ScorePolicy)):
        raise WrongInput(
            f"{args.model} holds a {type(model).__name__} without its feature map: write it with 'sparsetd fit'"
        )
    values, episode = _values(model, args)
    what = "actions" if isinstance(model, ScorePolicy) else "values"
    chosen = model.classes_[values.argmax(axis=1)].tolist() if isinstance(model, ScorePolicy) else None
    text = _csv(values, episode, chosen, getattr(model, "classes_", range(values.shape[-1])))
    said = {"mean": float(values.mean())} if chosen is None else {"actions": chosen}
    data: dict[str, Any] = {"n_rows": len(values), **said, "values": values}
    if target is not None:
        replace_file(target, text + "\n")
        data.pop("values")
        mean = f", mean {values.mean():.4g}" if what == "values" else ""
        text = f"{what} of {len(values):,} rows{mean}\n{what}: {target}"
    return Outcome(text, {**data, "out": None if target is None else str(target)})


def _values(model: Any, args: Namespace) -> tuple[Any, list[Any]]:
    """Values and episodes of all rows in the file's own order: a value needs no rewards, successors or sorted rows."""
    from sparsetd.estimators import model_file

    values: list[Any] = []
    episode: list[Any] = []
    asked = {role: names for role, names in args.column if role in (*STATE, *SPARSE, *SIZES, "sql")}
    buckets = model_file.read_notes(args.model).get("buckets")  # as the model was fitted
    source = args.log if args.like is None else prepare(args.log, like=args.like).columns
    log = Log(source, **dict.fromkeys(OTHERS) | asked | ({"buckets": buckets} if buckets else {}))
    for table in log:
        rows, ids = observed(table, log.schema), array(table, "episode")
        names = log.schema.names(rows.shape[1])
        values.append(_of(model, in_order(rows, names, getattr(model, "feature_names_in_", None)), args.model))
        episode += [] if ids is None else ids.tolist()
    return np.concatenate(values), episode


def _of(model: Any, observation: Any, name: str) -> Any:
    """One value per row, one per action, or the probability of every action."""
    if callable(model):
        return model(observation)
    if not issparse(observation):
        _check_width(model, observation.shape[1], name)
    return model.value(observation) if model.n_actions_ is None else model.q(observation)


def _check_width(model: Any, width: int, name: str) -> None:
    if width != model.n_observed_:
        raise WrongInput(
            f"{name} was fitted to {model.n_observed_} observed columns, but the log has {width}: "
            "select the same columns"
        )


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


PREDICT = Command("predict", *words(__doc__), arguments, run)
