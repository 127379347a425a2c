"""`python -m fuzz.campaign [--runs N] [TARGET …]`: many mutated inputs for every reader, in one process, no atheris.

Run it in `tests`. The runs are divided equally among the targets. An input fails if it is neither read nor refused in
one sentence, takes more than ten seconds, warns, or lets the process grow by more than 100 MB. It is written to
`crash-TARGET-…`, and the campaign goes on. An input that ends the process itself is left where the first line says.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import signal
import sys
import tempfile
import time
import traceback
import warnings
from importlib import import_module
from pathlib import Path
from typing import Any

from fuzz.mutations import mutated
from fuzz.test_fuzz import NAMES

ROOM = 100 * 2**20  # bytes that a target may add to the process beyond what its seeds take
SECONDS = 10
TOLD = 3  # failures of a target that are printed
LAST = Path(tempfile.gettempdir(), f"fuzz-last-input-{os.getpid()}")


def peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def hung(*_: Any) -> None:
    raise AssertionError(f"this took more than {SECONDS} seconds")


def failures(name: str, runs: int, seed: int) -> int:
    """Run a target; the number of inputs that failed."""
    target, rng, failed = import_module(f"fuzz.{name}"), random.Random(f"{name} {seed}"), 0
    for one in target.SEEDS:
        target.one_input(one)
    begun, before = time.process_time(), peak()
    with LAST.open("wb", buffering=0) as kept:
        for run in range(runs):
            data = mutated(target.SEEDS, target.TOKENS, rng)
            kept.seek(0)
            kept.write(len(data).to_bytes(4, "little") + data)
            signal.alarm(SECONDS)
            try:
                target.one_input(data)
                assert peak() - before < ROOM, f"the process grew by {(peak() - before) / 2**20:.0f} MiB"
            except Exception:  # whatever it is, it is a finding
                failed, before = failed + 1, peak()
                Path(f"crash-{name}-{seed}-{run}").write_bytes(data)
                if failed <= TOLD:
                    traceback.print_exc()
            finally:
                signal.alarm(0)
    LAST.unlink()
    seconds, grown = time.process_time() - begun, (peak() - before) / 2**20
    rate = f"{runs / max(seconds, 1e-9):,.0f} a second, {seconds:,.0f} CPU s, {grown:.0f} MiB more"
    print(f"{name}: {runs:,} inputs, {failed} failed, {rate}", flush=True)
    return failed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("targets", nargs="*", default=NAMES, metavar="TARGET", help=", ".join(NAMES))
    parser.add_argument("--runs", type=int, default=1_000_000, help="inputs in all")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    warnings.simplefilter("error")
    signal.signal(signal.SIGALRM, hung)
    print(f"an input that ends the process is in {LAST}, after 4 bytes with its length", flush=True)
    each = -(-args.runs // len(args.targets))
    return int(sum(failures(name, each, args.seed) for name in args.targets) > 0)


if __name__ == "__main__":
    sys.exit(main())
