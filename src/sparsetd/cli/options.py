"""The options that commands share, with one name and one meaning; the log that they read; the files they may write.

An option is written once, as a constant; a command lists the options that it takes.
"""

from __future__ import annotations

import math
import os
from argparse import Action, ArgumentError, ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from inspect import signature
from pathlib import Path
from typing import Any

from sparsetd.cli.command import Option, option
from sparsetd.logs import Shard, Transitions, read, shards
from sparsetd.logs.door import FILES
from sparsetd.logs.schema import WIDEST
from sparsetd.logs.sharding import part_of
from sparsetd.logs.text import is_number
from sparsetd.storage.atomic import check_writable
from sparsetd.storage.cache import SECONDS, Cache

MOST = 2**31  # the largest count on a command line: a larger one would only be noticed when memory is gone


class Assignments(Action):
    """Collects the NAME=VALUE of a repeated option; the same name twice is an error."""

    def __call__(self, _: ArgumentParser, namespace: Namespace, values: Any, __: str | None = None) -> None:
        known = dict(getattr(namespace, self.dest) or {})
        for name, value in values if isinstance(values, list) else [values]:
            if name in known:
                raise ArgumentError(self, f"'{name}' is given twice: give it once")
            known[name] = value
        setattr(namespace, self.dest, known)


def at_least(smallest: int, largest: int = MOST) -> Callable[[str], int]:
    """An integer option with bounds."""

    def convert(text: str) -> int:
        digits = text[1:] if text[:1] in ("+", "-") else text
        if not (digits.isascii() and digits.isdigit()) or int(text) < smallest:
            raise ArgumentTypeError(f"must be an integer of at least {smallest}, not '{text}'")
        if int(text) > largest:
            raise ArgumentTypeError(f"must be at most {largest:,}, not '{text}'")
        return int(text)

    return convert


def number(what: str, holds: Callable[[float], bool]) -> Callable[[str], float]:
    """A number option; `what` says in an error which numbers `holds` lets pass."""

    def convert(text: str) -> float:
        if not (is_number(text) and holds(float(text))):
            raise ArgumentTypeError(f"must be {what}, not '{text}'")
        return float(text)

    return convert


fraction = number("a number between 0 and 1", lambda value: 0 <= value <= 1)
inside = number("a number strictly between 0 and 1", lambda value: 0 < value < 1)
confident = number("a number above 0.5 and below 1, such as 0.99", lambda value: 0.5 < value < 1)
seconds = number("a number of seconds above 0", lambda value: 0 < value < math.inf)
factor = number("numbers of at least 1, separated by commas", lambda value: 1 <= value < math.inf)


def factors(text: str) -> list[float]:
    """Numbers of at least 1, separated by commas."""
    return [factor(part.strip()) for part in text.split(",")]


def assignment(shape: str, convert: Callable[[str], Any]) -> Callable[[str], tuple[str, Any]]:
    """A reader of NAME=VALUE, which passes the value to `convert`; `shape` shows the form in an error."""

    def parse(text: str) -> tuple[str, Any]:
        name, _, value = text.partition("=")
        if not name or not value:
            raise ArgumentTypeError(f"must look like {shape}, not '{text}'")
        return name, convert(value)

    return parse


def _jobs(text: str) -> int:
    return -1 if text == "-1" else at_least(1, 2**16)(text)


def _columns(names: str) -> Any:
    several = names.split(",")
    return None if names == "none" else several if len(several) > 1 else names


def _part(text: str) -> tuple[int, int]:
    k, _, n = text.partition("/")
    if not (k.isdecimal() and n.isdecimal() and 1 <= int(k) <= int(n)):
        raise ArgumentTypeError(f"must look like 1/2, not '{text}'")
    return int(k), int(n)


def as_column(words: str, help: str, convert: Callable[[str], Any]) -> Option:
    """An option that is short for --column ROLE=VALUE: its own name is the role."""
    role = words.partition(" ")[0].strip("-").replace("-", "_")
    return option(words, help, lambda text: (role, convert(text)), {}, action=Assignments, dest="column")


SOURCES = (
    ".parquet, .arrow, .csv, .tsv, .txt, .jsonl, .npz, a folder or pattern of such files, sqlite:FILE?table=NAME, or "
    "minari:ID"
)
COLUMNS = option(
    "--column ROLE=NAME",
    "the name of a column, if it is not the usual one: reward=score, action=drug (repeatable; "
    "'sparsetd inspect' shows the roles that were recognised)",
    assignment("ROLE=NAME", _columns),
    {},
    action=Assignments,
)
WIDTH = at_least(1, WIDEST)
SIZES = (
    as_column("--n-features N", "sparse rows (lists of indices and values) have N columns (default: as needed)", WIDTH),
    as_column("--buckets N", "fold sparse rows into N columns", WIDTH),
    as_column("--sql QUERY", "the log is an SQLite file, and its rows are those that this query returns", str),
)
LOG = (option("log LOG", SOURCES), COLUMNS, *SIZES)
PART = option(
    "--part K/N",
    "only the K-th of N parts of the episodes, by a hash of their ids: 1/2 to learn a policy, 2/2 to judge it",
    _part,
)
TARGET = option(
    "--target POLICY",
    "a rule in words, 'B if lactate > 2' (elsewhere as was done) or 'B' (always); 'behavior' for the logged policy "
    "itself; a column with the target's probability of the logged action (target_prob); module:function, called with "
    "the observations (n, p) and returning probabilities (n, n_actions) or actions: the code of that module is run, "
    "found in the current folder first; greedy:MODEL for the best action in a fitted model of action values; or a file "
    "that 'sparsetd improve' wrote",
)
REPORT = (
    option("--report FILE", "also write a page for a browser (.html)"),
    option("--unit TEXT", "what the value is measured in: 'hours of care'"),
)
GAMMA = option("--gamma G", "discount of one step, 0 to 1", fraction, 0.99)
N_FOLDS = option("--n-folds N", "number of held-out folds", at_least(2), 5)
N_JOBS = option("--n-jobs N", "processes; -1 is one for every core", _jobs, 1)
CHECKPOINT = option(
    "--checkpoint FOLDER", "keep finished work in this folder, resume from it after a stop, and clear it at the end"
)
CHECKPOINT_EVERY = option(
    "--checkpoint-every SECONDS", f"time from one checkpoint to the next (default: {SECONDS:g})", seconds
)
SCHEDULER = option("--scheduler ADDRESS", "a Dask cluster that reads the shards: tcp://…")
ENGINE = tuple(
    (name, how | {"group": "a log in shards (see 'sparsetd shard')"}) for name, how in (N_JOBS, SCHEDULER, CHECKPOINT)
)


def seed_of(what: str) -> Option:
    return option("--random-state N", f"seed of {what}", at_least(0), 0)


def n_resamples(what: str, default: int = 20) -> Option:
    return option("--n-resamples N", what, at_least(0), default)


def passed(function: Callable[..., Any], args: Namespace, **others: Any) -> Any:
    """Call a function with the options that are named like its parameters; `others` replace them."""
    known = signature(function).parameters
    return function(**{name: value for name, value in vars(args).items() if name in known} | others)


def read_log(args: Namespace, *, sparse: bool = False, **columns: Any) -> Transitions:
    """Read the log with the columns that the command line names; `columns` replace them."""
    log = read(args.log, **{**args.column, **columns})
    log = log if sparse else Shard(log).read()
    return log if getattr(args, "part", None) is None else log.part(*args.part)


def read_shards(args: Namespace, **columns: Any) -> tuple[Shard, ...]:
    """The shards of the log, with the column of --cluster; any other log counts as one shard."""
    cluster = getattr(args, "cluster", None)
    groups = {} if cluster is None else {"group": cluster}
    parts = shards(args.log, **{**args.column, **groups, **columns})
    return parts if getattr(args, "part", None) is None else part_of(parts, *args.part)


def engine_of(args: Namespace) -> Any:
    """The engine that reads the shards; None for this process."""
    if args.scheduler is not None:
        from sparsetd.logs.dask import Dask

        return Dask(args.scheduler)
    from sparsetd.logs.engines import Processes

    return None if args.n_jobs == 1 else Processes(args.n_jobs)


def checkpoint_of(args: Namespace) -> dict[str, Any]:
    """Where and how often the state of a fit is kept; a folder that cannot hold it is refused before any work."""
    where = Cache(args.checkpoint).folder
    if where is None and args.checkpoint_every is not None:
        raise ValueError("--checkpoint-every says how often to keep the state: say where with --checkpoint FOLDER")
    if where is None:
        return {}
    if os.path.realpath(where) == os.path.realpath(args.out):
        raise ValueError(f"the checkpoint '{args.checkpoint}' is also the output: name another folder")
    return {"checkpoint": args.checkpoint, "seconds_per_save": args.checkpoint_every or SECONDS}


def check_output(path: str | None, *endings: str, inputs: Iterable[str | None] = ()) -> None:
    """Refuse a path that cannot be written to, before any work is done.

    `inputs` are the files that the command reads: none of them may be overwritten.
    """
    if path is None:
        return
    target = check_writable(path, *endings)
    where = Path(os.path.realpath(target))
    for given in filter(None, inputs):
        source = Path(os.path.realpath(given))
        if where == source:
            raise ValueError(f"the output file '{target}' is also an input and would be overwritten; name another")
        # The next command that reads the folder would take the result for rows of the log.
        if source.is_dir() and where.parent == source and where.suffix.lower() in FILES:
            raise ValueError(
                f"the output file '{target}' would become a part of the log '{given}'; name another folder"
            )


def read_with_targets(args: Namespace, targets: Mapping[str, str | None]) -> tuple[tuple[Shard, ...], dict[str, Any]]:
    """The shards of the log, with the columns that the targets need, and the targets by name."""
    from sparsetd.evaluation.reading import read_for

    # "target_prob" names the role: its column may have another name.
    own = args.column.get("target_prob", "target_prob")
    named = {name: own if text == "target_prob" else text for name, text in targets.items()}
    return read_for(named, args.log, partial(read_shards, args))
