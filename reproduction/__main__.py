"""`python -m reproduction`: run the paper's experiments and judge its claims."""

from __future__ import annotations

import argparse
import dataclasses
import difflib
import json
import re
import sys
from collections.abc import Sequence
from functools import partial
from io import StringIO
from pathlib import Path
from typing import Any, NoReturn

from reproduction import EXPERIMENTS, LARGER
from reproduction.experiment import Experiment
from reproduction.report import write_report
from reproduction.runner import Finished, execute
from reproduction.settings import Settings

PROGRAM = "python -m reproduction"
DESCRIPTION = """\
Rerun the paper's experiments and give a verdict on every claim.

Rows go to DIR/<experiment>/rows as each unit of work finishes, figures to DIR/<experiment>/figures, and the verdicts,
with the paper's numbers beside ours, to DIR/report.html and DIR/report.md. An interrupted run continues with --resume.

examples:
  python -m reproduction star --quick
  python -m reproduction all --quick --n-jobs 2
  python -m reproduction mountain-car --seeds 20 --n-jobs 8 --out full --resume
  python -m reproduction mountain-car-atlas --backend cuda     every reading of the printed settings, on a GPU
  python -m reproduction triple-link-search --backend cuda     the search behind Table 2
  python -m reproduction mountain-car-actor-critic             the off-policy actor-critic that the paper cites"""
RENAMED = {"--jobs": "--n-jobs", "--seed": "--random-state"}


class WrongInput(Exception):
    """The options contradict one another; the message is one sentence."""


class Parser(argparse.ArgumentParser):
    """An `ArgumentParser` whose errors are one sentence and name the nearest known word."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"reproduction: error: {message}{_nearest(message)} (see '{PROGRAM} --help')\n")


def _nearest(message: str) -> str:
    renamed = [f"; {old} is now {new}" for old, new in RENAMED.items() if re.search(rf"{old}\b", message)]
    found = re.search(r"invalid choice: '([^']*)' \(choose from (.*)\)", message)
    close = difflib.get_close_matches(found[1], re.findall(r"[\w-]+", found[2]), n=1) if found else []
    return "".join(renamed[:1] or [f"; did you mean '{word}'?" for word in close])


def _parser() -> Parser:
    layout = argparse.RawDescriptionHelpFormatter
    parser = Parser(prog=PROGRAM, description=DESCRIPTION, formatter_class=layout, allow_abbrev=False)
    add = parser.add_argument
    add("experiment", choices=[*EXPERIMENTS, "all", *LARGER], help="which figure or table of the paper")
    add("--quick", action="store_true", help="small settings: minutes instead of hours")
    add("--seeds", type=_count, metavar="N", help="number of independent runs of each method")
    add("--random-state", type=int, metavar="N", help="root of all seeds; the reported runs use 20121203")
    add("--n-jobs", type=_jobs, default=1, metavar="N", help="parallel processes (-1: one per core)")
    add("--out", type=_folder, default=Path("reproduction-results"), metavar="DIR", help="where results go")
    add("--backend", choices=("cores", "cuda"), help="where the atlas or the search is run (cuda: through CuPy)")
    add("--resume", action="store_true", help="skip the units that are already finished")
    add("--json", action="store_true", help="print one JSON object instead of text")
    add("--quiet", action="store_true", help="print no progress")
    return parser


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be an integer of at least 1, not '{text}'")
    return int(text)


def _jobs(text: str) -> int:
    return -1 if text == "-1" else _count(text)


def _folder(text: str) -> Path:
    if not text.strip():
        raise argparse.ArgumentTypeError("is empty; name a folder")
    return Path(text)


def main(words: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code: 0 success, 1 a file could not be written, 2 wrong input."""
    try:
        args = _parser().parse_args(words)
        text, data = run(args)
        print(json.dumps(data, indent=2) if args.json else text)
        return 0
    except SystemExit as stop:  # argparse ends --help with 0 and an error with 2
        return int(stop.code or 0)
    except KeyboardInterrupt:
        return _fail("interrupted; --resume continues", 130)
    except OSError as problem:
        return _fail(str(problem), 1)
    except (WrongInput, ImportError) as problem:
        return _fail(str(problem), 2)


def _fail(sentence: str, code: int) -> int:
    print(f"reproduction: error: {sentence}", file=sys.stderr)
    return code


def run(args: argparse.Namespace) -> tuple[str, dict[str, Any]]:
    """The verdicts and the files, as text and as data."""
    finished, tell = [], partial(print, file=StringIO() if args.quiet else sys.stderr, flush=True)
    for experiment, settings in [(e, settings_of(e, args)) for e in chosen(args.experiment)]:
        tell(f"running {experiment.name}")
        finished.append(execute(experiment, settings, args.out, n_jobs=args.n_jobs, resume=args.resume, tell=tell))
    tell("drawing figures and writing the report")
    files = write_report(finished, args.out, _command(args))
    text = "\n".join([*_lines(finished), "", *(f"{kind}: {file}" for kind, file in files.items())])
    return text, _data(finished, files)


def chosen(name: str) -> list[Experiment]:
    """The experiments of a name; those that take hours are never part of `all`."""
    return list(EXPERIMENTS.values()) if name == "all" else [(EXPERIMENTS | LARGER)[name]]


def settings_of(experiment: Experiment, args: argparse.Namespace) -> Settings:
    """The full or the quick settings, with what the options change."""
    settings = experiment.quick if args.quick else experiment.full
    changes = {"n_seeds": args.seeds, "entropy": args.random_state, "backend": args.backend}
    asked: dict[str, Any] = {name: value for name, value in changes.items() if value is not None}
    if "backend" in asked and not hasattr(settings, "backend"):
        able = ", ".join(name for name, larger in LARGER.items() if hasattr(larger.full, "backend"))
        raise WrongInput(f"--backend belongs to {able}; {experiment.name} runs on cores: leave it out")
    return dataclasses.replace(settings, **asked)


def _command(args: argparse.Namespace) -> str:
    words = [PROGRAM, args.experiment, *(["--quick"] if args.quick else [])]
    for option in ("seeds", "random_state", "backend"):
        if getattr(args, option) is not None:
            words.append(f"--{option.replace('_', '-')} {getattr(args, option)}")
    return " ".join(words)


def _lines(finished: list[Finished]) -> list[str]:
    return [f"{f.experiment.name}: {c.label}: {c.sentence}" for f in finished for c in f.summary.claims]


def _data(finished: list[Finished], files: dict[str, Path]) -> dict[str, Any]:
    claims = [{"experiment": f.experiment.name, **dataclasses.asdict(c)} for f in finished for c in f.summary.claims]
    return {"claims": claims, "files": {kind: str(file) for kind, file in files.items()}}


if __name__ == "__main__":
    sys.exit(main())
