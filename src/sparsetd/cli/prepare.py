"""Turn a raw table with text, dates and gaps into a log.

One row of the table is one decision. Treatments and categories may be text and keep their
names, yes and no become flags, dates put the rows of an episode in order, exact copies are
dropped, and gaps are filled. Columns that have no role are observed. Everything that was done is
said. If something cannot be understood, all problems of the file are listed at once and nothing
is written.

examples:
  sparsetd prepare stays.csv --out log.parquet
  sparsetd prepare stays.csv --out log.parquet --column episode=mrn --column time=charted --drop notes
  sparsetd prepare stays.csv --out log.parquet --reward "Outcome: alive=1, dead=0"
  sparsetd prepare clicks.csv --out log.parquet --bandit --column reward=clicked
  sparsetd prepare new.csv --out new.parquet --like log.parquet
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import Any

from sparsetd.cli.command import Command, Console, Outcome, words
from sparsetd.cli.options import LOG_HELP, add_columns, check_output
from sparsetd.logs.prepare import KEEP, MISSING, MessyLog, prepare


def arguments(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add("log", metavar="TABLE", help=LOG_HELP)
    add_columns(parser)
    add("--reward", metavar="COLUMN[: WORD=NUMBER, …]", help="the reward, and what each word of an outcome is worth")
    add("--out", required=True, metavar="FILE", help="the log to write (.parquet)")
    add(
        "--missing",
        choices=MISSING,
        help="gaps get the last value of the episode (the default where the time is known), the median, or the median "
        "and a mark (the default elsewhere), or are listed as problems",
    )
    add(
        "--ends",
        choices=("last-row", "cut"),
        help="if no column says how episodes end: they end with their last row, or recording stopped there",
    )
    add("--bandit", action="store_true", help="every row is a decision of its own")
    _repeatable(add, "--drop", "NAME", "leave this column out")
    _repeatable(add, "--keep", "WHAT", f"do not touch this: {', '.join(KEEP)}")
    _repeatable(add, "--na", "WORD", "one more word for a missing value")
    _repeatable(add, "--text", "NAME", "read this column as text")
    add("--dates", choices=("day-first", "month-first"), help="how dates such as 3/4/2024 are meant")
    add("--like", metavar="LOG", help="prepare the table as this log was prepared: same codes, categories and medians")


def _repeatable(add: Any, name: str, metavar: str, what: str) -> None:
    add(name, action="append", default=[], metavar=metavar, help=f"{what} (repeatable)")


def run(args: Namespace, console: Console) -> Outcome:
    out = check_output(args.out, ".parquet", inputs=[args.log, args.like])
    assert out is not None
    roles = dict(args.column) | ({} if args.reward is None else {"reward": args.reward})
    options = ("missing", "ends", "bandit", "drop", "keep", "na", "text", "dates", "like")
    try:
        made = prepare(args.log, **{name: getattr(args, name) for name in options}, **roles)
        log = made.transitions if "reward" in made.columns else f"{len(made)} rows without a reward"
    except MessyLog as mess:
        for problem in mess.problems:
            console.error(problem)
        return Outcome("", {"error": mess.problems[0], "exit_code": 2, "problems": mess.problems}, code=2)
    made.save(out)
    data = {"log": str(out), "rows": len(made), "notes": made.notes, "action_names": made.action_names}
    return Outcome(f"{made}\n\n{log}\nlog: {out}", data)


PREPARE = Command("prepare", *words(__doc__), arguments, run)
