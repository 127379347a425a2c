"""`sparsetd prepare`: from a raw table to a log."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from sparsetd.cli.command import Command, Outcome
from sparsetd.cli.console import Console
from sparsetd.cli.log_options import LOG_HELP, add_columns, check_output
from sparsetd.logs import MessyLog, prepare

SUMMARY = "turn a raw table with text, dates and gaps into a log"
DETAILS = """
One row of the table is one decision. Treatments and categories may be text and keep their
names, yes and no become flags, dates put the rows of an episode in order, and gaps are filled
with the median and marked. Columns that have no role are observed. If something cannot be
understood, all problems of the file are listed at once and nothing is written.

examples:
  sparsetd prepare stays.csv --out log.parquet
  sparsetd prepare stays.csv --out log.parquet --column episode=mrn --column action=drug --drop notes
  sparsetd prepare clicks.csv --out log.parquet --bandit --column reward=clicked
"""


def arguments(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add("log", metavar="LOG", help=LOG_HELP)
    add_columns(parser)
    add("--out", required=True, metavar="FILE", help="the log to write (.parquet)")
    add(
        "--missing",
        choices=("fill", "refuse"),
        default="fill",
        help="fill gaps and mark them, or list them as problems",
    )
    add(
        "--ends",
        choices=("last-row", "cut"),
        help="if no column says how episodes end: they end with their last row, or recording stopped there",
    )
    add("--bandit", action="store_true", help="every row is a decision of its own")
    add("--drop", action="append", default=[], metavar="NAME", help="leave this column out (repeatable)")


def run(args: Namespace, console: Console) -> Outcome:
    out = check_output(args.out, ".parquet", inputs=[args.log])
    assert out is not None
    try:
        made = prepare(
            args.log, missing=args.missing, ends=args.ends, bandit=args.bandit, drop=args.drop, **dict(args.column)
        )
        log = made.transitions
    except MessyLog as mess:
        for problem in mess.problems:
            console.error(problem)
        return Outcome("", {"error": mess.problems[0], "exit_code": 2, "problems": mess.problems}, code=2)
    made.save(out)
    data = {"log": str(out), "rows": len(log), "notes": made.notes, "action_names": made.action_names}
    return Outcome(f"{made}\n\n{log}\nlog: {out}", data)


PREPARE = Command("prepare", SUMMARY, DETAILS, arguments, run)
