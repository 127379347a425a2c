"""Split a log of any size into files of whole, sorted episodes.

Sorts logs that do not fit in memory, in any order, by episode and step into Parquet files of
whole episodes, with a manifest (columns, counts, checksums). The folder can then be given to
evaluate, select, fit and inspect in place of a log, and they need memory for a few of its files
only. An interrupted run continues when you start it again with the same arguments.

examples:
  sparsetd shard log.csv --out log-shards
  sparsetd shard 2024/*.parquet 2025/*.parquet --out log-shards --shards 200
  sparsetd evaluate log-shards --target target_prob --n-jobs 4
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from sparsetd.cli.command import Command, Console, Outcome, words
from sparsetd.cli.options import LOG_HELP, add_columns, add_sizes, at_least
from sparsetd.logs.sharding import MOST_SHARDS, shard


def arguments(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add("logs", metavar="RAW", nargs="+", help=LOG_HELP)
    add_columns(parser)
    add_sizes(parser)
    add("--out", required=True, metavar="DIR", help="folder for the shards")
    add("--shards", type=at_least(1, MOST_SHARDS), metavar="N", help="how many (default: one for every 64 MiB)")


def run(args: Namespace, console: Console) -> Outcome:
    del console
    manifest = shard(args.logs, args.out, n_shards=args.shards, **dict(args.column))
    counts = {"rows": manifest["rows"], "episodes": manifest["episodes"], "shards": len(manifest["shards"])}
    text = f"{counts['rows']:,} rows of {counts['episodes']:,} episodes in {counts['shards']:,} shards: {args.out}"
    return Outcome(text, {"out": args.out, **counts})


SHARD = Command("shard", *words(__doc__), arguments, run)
