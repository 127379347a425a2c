"""`sparsetd benchmark`: the measurements of the repository's `benchmarks/`, from a clone."""

from __future__ import annotations

import subprocess
import sys
from argparse import REMAINDER, ArgumentParser, Namespace
from pathlib import Path

from sparsetd.cli.command import Command, Outcome, WrongInput
from sparsetd.cli.console import Console

SUMMARY = "measure speed, quality, evaluation or robustness, with the goals beside the figures"
BENCHMARKS = {
    "speed": ["-m", "benchmarks"],
    "quality": ["benchmarks/quality.py"],
    "steps": ["benchmarks/automatic_steps.py"],
    "evaluation": ["benchmarks/evaluation.py"],
    "trust": ["-m", "benchmarks.trust"],
    "decisions": ["-m", "benchmarks.decisions"],
    "crash": ["benchmarks/crash.py"],
    "corruption": ["benchmarks/corruption.py"],
    "demo": ["benchmarks/demo_seeds.py"],
}
DETAILS = """
benchmarks:
  speed        ratios against NumPy and other libraries, in one run
  quality      certified gaps, agreement with CVXPY, feature selection, coverage of intervals
  steps        automatic steps against the best of a grid
  evaluation   the value of a policy on ICU-Sepsis against the exact answer
  trust        whether intervals cover and cautions fire on problems of other kinds, with exact answers
  decisions    whether comparisons, recommendations and bounds hold, with exact answers
  crash        kill a checkpointed fit at random moments, and resume
  corruption   cut and flip the bytes of model files
  demo         the demo's settings on other seeds

The scripts live in the repository, not in the installed package: this needs a clone that was installed
with 'pip install -e .'. What follows the name is passed on.

examples:
  sparsetd benchmark speed --quick
  sparsetd benchmark quality certificate oracle
"""


def arguments(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add("name", choices=BENCHMARKS, metavar="NAME", help=f"one of {', '.join(BENCHMARKS)}")
    add("options", nargs=REMAINDER, help="options of that benchmark, such as --help")


def run(args: Namespace, console: Console) -> Outcome:
    root = _clone()
    console.progress(f"running benchmarks/ in {root}")
    done = subprocess.run([sys.executable, *BENCHMARKS[args.name], *args.options], cwd=root, check=False)
    return Outcome("", {"benchmark": args.name, "returncode": done.returncode}, code=1 if done.returncode else 0)


def _clone() -> Path:
    """The root of the clone that this package runs from; what lies in the current folder is somebody else's code."""
    root = Path(__file__).resolve().parents[3]
    if (root / "benchmarks" / "__main__.py").is_file():
        return root
    raise WrongInput("benchmarks/ is not part of the installed package: install a clone with 'pip install -e .'")


BENCHMARK = Command("benchmark", SUMMARY, DETAILS, arguments, run)
