"""The commands that make a log or look at one: example, prepare, shard and inspect."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import Any

import numpy as np

from sparsetd import logs
from sparsetd._tools.progress import say
from sparsetd.cli.command import Outcome, command, option
from sparsetd.cli.options import (
    COLUMNS,
    LOG,
    SIZES,
    SOURCES,
    Assignments,
    assignment,
    at_least,
    check_output,
    passed,
    seed_of,
)
from sparsetd.logs import sharding
from sparsetd.logs.door import Log
from sparsetd.logs.files import write_parquet
from sparsetd.logs.prepare import KEEP, MISSING
from sparsetd.storage.atomic import replace_file

GAPS = (
    "gaps get the last value of the episode (the default where the time is known), the median, or the median and a "
    "mark (the default elsewhere), or are listed as problems"
)
ENDS = "if no column says how episodes end: they end with their last row, or recording stopped there"


@command(
    option("name", "which example", ("icu-sepsis",)),
    option("--out FILE", ".parquet, .csv or .npz", required=True),
    option("--episodes N", "patients", at_least(1, 10**6), 2000),
    option("--target", "target policy", ("greedy", "half", "expert", "optimal"), "greedy"),
    option("--noise N", "columns of noise to add", at_least(0, 10**5), 0),
    seed_of("the patients"),
)
def example(args: Namespace) -> Outcome:
    """Write an example log to try the other commands on.

    icu-sepsis: intensive-care patients treated by clinicians (needs: pip install icu-sepsis). 47
    clinical features, the clinicians' probabilities and those of a target policy; the true value of
    the target is printed, so that you can compare.

    examples:
      sparsetd example icu-sepsis --out icu.parquet
      sparsetd evaluate icu.parquet --target target_prob --gamma 1 --report icu.html
    """
    from sparsetd.problems.icu_sepsis import ICUSepsis

    check_output(args.out, ".parquet", ".csv", ".npz")
    problem = ICUSepsis.load(gamma=1.0)
    policy = problem.policy(args.target)
    say(f"treating {args.episodes:,} patients")
    log = problem.log(args.episodes, policy, np.random.default_rng(args.random_state), n_noise=args.noise)
    write_log(log, Path(args.out))
    truth = problem.exact_value(policy)
    counts = f"{len(log):,} transitions of {log.n_episodes:,} patients"
    text = f"{counts}; true value of the target {truth:.4f}, its survival rate (--gamma 1)"
    data = {"log": args.out, "n_rows": len(log), "n_episodes": log.n_episodes, "true_value": truth, "gamma": 1.0}
    return f"{text}\nlog: {args.out}", data


def write_log(log: logs.Transitions, path: Path) -> None:
    """Write a log as Parquet, CSV or NumPy archive under the documented column names; flags become 0 and 1."""
    import pyarrow
    import pyarrow.csv

    names = log.names or tuple(str(i) for i in range(log.observation.shape[1]))
    every: dict[str, Any] = {"episode": log.episode}
    every |= {f"obs_{name}": log.observation[:, j] for j, name in enumerate(names)}
    every |= {name: getattr(log, name) for name in ("action", "reward", "terminated", "truncated")}
    every |= {f"next_obs_{name}": log.next_observation[:, j] for j, name in enumerate(names)}
    every |= {name: getattr(log, name) for name in ("behavior_prob", "target_prob", "ratio")}
    known = {name: column for name, column in every.items() if column is not None}
    columns = {name: column.astype(int) if column.dtype == bool else column for name, column in known.items()}
    if path.suffix.lower() == ".parquet":
        write_parquet(path, columns, {})
    elif path.suffix.lower() == ".npz":
        replace_file(path, lambda file: np.savez(file, allow_pickle=False, **columns))
    else:
        plain = pyarrow.csv.WriteOptions(quoting_style="none", quoting_header="none")
        replace_file(path, lambda file: pyarrow.csv.write_csv(pyarrow.table(columns), file, plain))


@command(
    option("log TABLE", SOURCES),
    option(
        "--column ROLE=NAME",
        "the column of a role, if it has another name: episode=mrn, action=drug; with words that say which episodes "
        "ended for good, 'terminated=Reason: discharged=1, lost=0' (repeatable)",
        assignment("ROLE=NAME", lambda name: None if name == "none" else name),
        {},
        action=Assignments,
    ),
    option(
        "--reward COLUMN[: WORD=NUMBER, …]",
        "the reward, and what each word of an outcome is worth; 'cost: each=-1' for a cost",
    ),
    option("--out FILE", "the log to write (.parquet)", required=True),
    option("--missing", GAPS, MISSING),
    option("--ends", ENDS, ("last-row", "cut")),
    option("--bandit", "every row is a separate decision, without episodes", bool),
    option("--drop NAME", "leave this column out", list),
    option("--keep WHAT", f"do not touch this: {', '.join(KEEP)}", list),
    option("--na WORD", "one more word for a missing value", list),
    option("--text NAME", "read this column as text", list),
    option("--skip ROW", "leave out the row of this number, or all rows in which this column is empty", list),
    option(
        "--fill NAME=WORD",
        "what an empty cell of a column stands for (repeatable)",
        assignment("NAME=WORD", str),
        {},
        action=Assignments,
    ),
    option("--dates", "how dates such as 3/4/2024 are meant", ("day-first", "month-first")),
    option("--encoding NAME", "the encoding of a CSV file, such as cp1250 (default: found out)"),
    option("--like LOG", "prepare the table as this log was prepared: same codes, categories and medians"),
)
def prepare(args: Namespace) -> Outcome:
    """Turn a raw table with text, dates and gaps into a log.

    One row of the table is one decision. Treatments and categories may be text and keep their
    names, yes and no become flags, dates put the rows of an episode in order, exact copies are
    dropped, and gaps are filled. Columns that have no role are observed. The command lists everything
    that it did. If something cannot be understood, it lists all problems of the file at once and
    writes nothing.

    examples:
      sparsetd prepare stays.csv --out log.parquet
      sparsetd prepare stays.csv --out log.parquet --column episode=mrn --column time=charted --drop notes
      sparsetd prepare stays.csv --out log.parquet --reward "Outcome: alive=1, dead=0"
      sparsetd prepare clicks.csv --out log.parquet --bandit --column reward=clicked
      sparsetd prepare new.csv --out new.parquet --like log.parquet
    """
    check_output(args.out, ".parquet", inputs=[args.log, args.like])
    roles = args.column | ({} if args.reward is None else {"reward": args.reward})
    made = passed(logs.prepare, args, source=args.log, **roles)
    log = made.transitions if "reward" in made.columns else f"{len(made)} rows without a reward"
    made.save(args.out)
    data = {"log": args.out, "rows": len(made), "notes": made.notes, "action_names": made.action_names}
    return f"{made}\n\n{log}\nlog: {args.out}", data


@command(
    option("logs RAW", SOURCES, nargs="+"),
    COLUMNS,
    *SIZES,
    option("--out DIR", "folder for the shards", required=True),
    option("--shards N", "how many (default: one for every 64 MiB)", at_least(1, sharding.MOST_SHARDS)),
)
def shard(args: Namespace) -> Outcome:
    """Split a log of any size into files of whole, sorted episodes.

    Sorts rows that come in any order, and need not fit in memory, by episode and step into Parquet
    files of whole episodes, with a manifest (columns, counts, checksums). Give the folder to
    evaluate, select, fit and inspect in place of a log: they then need memory for only a few of its
    files. An interrupted run continues when you start it again with the same arguments.

    examples:
      sparsetd shard log.csv --out log-shards
      sparsetd shard 2024/*.parquet 2025/*.parquet --out log-shards --shards 200
      sparsetd evaluate log-shards --target target_prob --n-jobs 4
    """
    manifest = sharding.shard(args.logs, args.out, n_shards=args.shards, **args.column)
    counts = {"rows": manifest["rows"], "episodes": manifest["episodes"], "shards": len(manifest["shards"])}
    text = f"{counts['rows']:,} rows of {counts['episodes']:,} episodes in {counts['shards']:,} shards: {args.out}"
    ignored = Log(*args.logs, **args.column).schema.keeping_texts().ignored
    if ignored:
        text += f"\nleft out, because they have no role: {', '.join(map(repr, ignored))}"
        text += " (--column ROLE=NAME gives one; shards hold one policy's probabilities, --column target_prob=NAME)"
    return text, {"out": args.out, **counts, "left_out": list(ignored)}


@command(*LOG)
def inspect(args: Namespace) -> Outcome:
    """Show how a log was understood, what is missing and what looks wrong.

    Run this first. It reads the log as every other command will and reports in plain words: which
    columns were taken for what, how episodes end, whether probabilities make sense, and what looks
    suspicious (rewards shifted by a row, time limits marked as terminal, poor support).

    examples:
      sparsetd inspect log.parquet
      sparsetd inspect log.csv --column reward=score --column observation=age,HR,SOFA
      sparsetd inspect minari:sepsis/expert-v0 --json
    """
    found = logs.inspect(args.log, **args.column)
    if found.error is not None:
        raise ValueError(found.error)
    return str(found).rstrip(), {**found.to_dict(), "ok": found.ok}
