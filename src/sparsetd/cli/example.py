"""Write an example log to try the other commands on.

icu-sepsis: intensive-care patients treated by clinicians (needs: pip install icu-sepsis). 47
clinical features, the clinicians' probabilities and those of a target policy; the true value of
the target is printed, so that you can compare.

examples:
  sparsetd example icu-sepsis --out icu.parquet
  sparsetd evaluate icu.parquet --target target_prob --report icu.html
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Any

import numpy as np

from sparsetd.cli.command import Command, Console, Outcome, words
from sparsetd.cli.options import add_random_state, at_least, check_output
from sparsetd.logs import Transitions
from sparsetd.storage.atomic import replace_file

TARGETS = ("greedy", "half", "expert", "optimal")


def arguments(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add("name", choices=["icu-sepsis"], help="which example")
    add("--out", required=True, metavar="FILE", help=".parquet, .csv or .npz")
    add("--episodes", type=at_least(1, 10**6), default=2000, metavar="N", help="patients (default: %(default)s)")
    add("--target", choices=TARGETS, default="greedy", help="target policy (default: %(default)s)")
    add("--noise", type=at_least(0, 10**5), default=0, metavar="N", help="columns of noise to add")
    add_random_state(parser, "the patients")


def run(args: Namespace, console: Console) -> Outcome:
    from sparsetd.problems.icu_sepsis import ICUSepsis

    target = check_output(args.out, ".parquet", ".csv", ".npz")
    problem = ICUSepsis.load(gamma=0.99)
    policy = problem.policy(args.target)
    console.progress(f"treating {args.episodes:,} patients")
    log = problem.log(args.episodes, policy, np.random.default_rng(args.random_state), n_noise=args.noise)
    write_log(log, target or Path(args.out))
    truth = problem.exact_value(policy)
    text = (
        f"{len(log):,} transitions of {log.n_episodes:,} patients; true value of the target {truth:.4f} at gamma 0.99"
    )
    data = {"log": args.out, "n_rows": len(log), "n_episodes": log.n_episodes, "true_value": truth, "gamma": 0.99}
    return Outcome(f"{text}\nlog: {args.out}", data)


def write_log(log: Transitions, path: Path) -> None:
    """The columns of the documented schema, as Parquet, CSV or NumPy archive."""
    import io

    columns = _columns(log)
    buffer = io.BytesIO()
    if path.suffix.lower() == ".npz":
        np.savez(buffer, allow_pickle=False, **columns)
    elif path.suffix.lower() == ".parquet":
        import pyarrow
        import pyarrow.parquet

        pyarrow.parquet.write_table(pyarrow.table(columns), buffer)
    else:
        rows = zip(*(column.tolist() for column in columns.values()), strict=True)
        lines = [",".join(columns), *(",".join(map(repr, row)) for row in rows)]
        buffer.write(("\n".join(lines) + "\n").encode())
    replace_file(path, buffer.getvalue())


def _columns(log: Transitions) -> dict[str, Any]:
    names = log.names or tuple(str(i) for i in range(log.observation.shape[1]))
    columns: dict[str, Any] = {"episode": log.episode}
    columns |= {f"obs_{name}": log.observation[:, j] for j, name in enumerate(names)}
    given = {"action": log.action, "reward": log.reward, "terminated": log.terminated, "truncated": log.truncated}
    columns |= {
        name: column.astype(int) if column.dtype == bool else column
        for name, column in given.items()
        if column is not None
    }
    columns |= {f"next_obs_{name}": log.next_observation[:, j] for j, name in enumerate(names)}
    probabilities = {"behavior_prob": log.behavior_prob, "target_prob": log.target_prob, "ratio": log.ratio}
    return columns | {name: column for name, column in probabilities.items() if column is not None}


EXAMPLE = Command("example", *words(__doc__), arguments, run)
