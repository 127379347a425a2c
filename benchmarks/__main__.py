"""The measurements of this repository: `python -m benchmarks NAME …` from its root.

    speed        ratios against NumPy and other libraries, in one run
    quality      certified gaps, agreement with CVXPY, feature selection, coverage of intervals
    steps        automatic steps against the best of a grid
    evaluation   the value of a policy on ICU-Sepsis against the exact answer
    trust        whether intervals cover and cautions fire on problems of other kinds, with exact answers
    decisions    whether comparisons, recommendations and bounds hold, with exact answers
    crash        kill a checkpointed fit at random moments, and resume
    corruption   cut and flip the bytes of model files
    demo         the demo's settings on other seeds
    cores        how well a sweep uses two cores
    door         CPU seconds and memory of logs on their way from files to whole episodes
    shards       sums over the shards of a log against one file
    many-rows    a log of up to 100 million rows from unsorted files to its evaluation, on a cluster that loses workers
    gpu          agreement and speed of the GPU backend, on a real device

What follows the name is passed on: `python -m benchmarks speed --quick`, `python -m benchmarks trust --help`.
"""

from __future__ import annotations

import runpy
import sys

MODULES = {"steps": "automatic_steps", "demo": "demo_seeds", "many-rows": "many_rows"}
NAMES = tuple(line.split()[0] for line in (__doc__ or "").splitlines() if line.startswith("    "))


def main(words: list[str]) -> int:
    """Run one benchmark as if its own file had been called."""
    if not words or words[0] in ("-h", "--help"):
        print(__doc__)
        return 0
    name, *options = words
    if name not in NAMES:
        print(f"benchmarks: error: there is no benchmark '{name}': choose one of {', '.join(NAMES)}", file=sys.stderr)
        return 2
    sys.argv = [f"python -m benchmarks {name}", *options]
    try:
        runpy.run_module(f"benchmarks.{MODULES.get(name, name)}", run_name="__main__", alter_sys=True)
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
