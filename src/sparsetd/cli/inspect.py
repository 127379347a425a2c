"""Say what a log was understood to be, what is missing, what looks wrong.

Run this first. It reads the log as every other command will and reports in plain words: which
columns were taken for what, how episodes end, whether probabilities make sense, and what looks
suspicious (rewards shifted by a row, time limits marked as terminal, poor support).

examples:
  sparsetd inspect log.parquet
  sparsetd inspect log.csv --column reward=score --column observation=age,HR,SOFA
  sparsetd inspect minari:sepsis/expert-v0 --json
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from sparsetd.cli.command import Command, Console, Outcome, WrongInput, words
from sparsetd.cli.options import add_log
from sparsetd.logs import inspect


def run(args: Namespace, console: Console) -> Outcome:
    del console
    found = inspect(args.log, **dict(args.column))
    if found.error is not None:
        raise WrongInput(found.error)
    return Outcome(str(found).rstrip(), {**found.to_dict(), "ok": found.ok})


def arguments(parser: ArgumentParser) -> None:
    add_log(parser)


INSPECT = Command("inspect", *words(__doc__), arguments, run)
