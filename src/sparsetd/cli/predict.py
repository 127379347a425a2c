"""`sparsetd predict`: values of the states of a log, from a model file."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import Any

import numpy as np

from sparsetd.cli.command import Command, Outcome, WrongInput
from sparsetd.cli.console import Console
from sparsetd.cli.log_options import add_log, check_output, read_log
from sparsetd.container import replace_file

SUMMARY = "values of the states of a log, from a model file"
DETAILS = """
One line per transition: its row, its episode and the value of its state (or one value per
action, if the model was fitted with --policy). The columns of the log must be those of the fit.

examples:
  sparsetd predict model.sparsetd log.parquet > values.csv
  sparsetd predict model.sparsetd log.parquet --out values.csv
  sparsetd predict model.sparsetd log.parquet --json
"""


def arguments(parser: ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", help="file written by 'sparsetd fit'")
    add_log(parser)
    parser.add_argument("--out", metavar="FILE", help="write .csv here instead of printing")


def run(args: Namespace, console: Console) -> Outcome:
    del console
    from sparsetd import ValueFunction, model_file

    target = check_output(args.out, ".csv")
    model = model_file.load(args.model)
    if not isinstance(model, ValueFunction):
        raise WrongInput(
            f"{args.model} holds a {type(model).__name__} without its feature map: write it with 'sparsetd fit'"
        )
    log = read_log(args)
    _check_width(model, log.observation.shape[1], args.model)
    values = model.value(log.observation) if model.n_actions_ is None else model.q(log.observation)
    start = np.atleast_2d(values.T).max(axis=0)[log.start]
    text = _csv(values, log.episode)
    data: dict[str, Any] = {"n_rows": len(log), "mean_start_value": float(start.mean()), "values": values}
    if target is not None:
        replace_file(target, text + "\n")
        data.pop("values")
        text = f"{len(log):,} values, mean at the start of an episode {start.mean():.4g}\nvalues: {target}"
    return Outcome(text, {**data, "out": None if target is None else str(target)})


def _check_width(model: Any, width: int, name: str) -> None:
    if width != model.n_observed_:
        raise WrongInput(
            f"{name} was fitted to {model.n_observed_} observed columns, but the log has {width}: select the same"
        )


def _csv(values: Any, episode: Any) -> str:
    several = values.ndim == 2
    head = [f"value_{a}" for a in range(values.shape[1])] if several else ["value"]
    rows = values.tolist() if several else [[v] for v in values.tolist()]
    lines = [
        ",".join([str(i), str(e), *map(repr, row)])
        for i, (e, row) in enumerate(zip(episode.tolist(), rows, strict=True))
    ]
    return "\n".join([",".join(["row", "episode", *head]), *lines])


PREDICT = Command("predict", SUMMARY, DETAILS, arguments, run)
