"""`python -m reproduction`: run the paper's experiments and judge its claims."""

from __future__ import annotations

import argparse
import dataclasses
import difflib
import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from reproduction import EXPERIMENTS, LARGER
from reproduction.experiment import Experiment, Settings
from reproduction.report import write_report
from reproduction.runner import Outcome, execute

PROGRAM = "python -m reproduction"
DESCRIPTION = """\
Rerun the paper's experiments and give a verdict on every claim.

Rows go to DIR/<experiment>/rows as each unit of work finishes, figures to DIR/<experiment>/figures, and the verdicts,
with the paper's numbers beside ours, to DIR/report.html and DIR/report.md. An interrupted run continues with --resume.

examples:
  python -m reproduction star --quick
  python -m reproduction all --quick --n-jobs 2
  python -m reproduction mountain-car --seeds 20 --n-jobs 8 --out full --resume
  python -m reproduction mountain-car --atlas --backend cuda      every reading of the printed settings, on a GPU
  python -m reproduction triple-link --search --backend cuda      the search behind Table 2
  python -m reproduction mountain-car --actor-critic              the off-policy actor-critic that the paper cites"""
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
    add("experiment", choices=[*EXPERIMENTS, "all"], help="which figure or table of the paper")
    add("--quick", action="store_true", help="small settings: minutes instead of hours")
    add("--seeds", type=_count, metavar="N", help="number of independent runs of each method")
    add("--random-state", type=int, metavar="N", help="root of all seeds; the reported runs use 20121203")
    add("--n-jobs", type=_jobs, default=1, metavar="N", help="parallel processes (-1: one per core)")
    add("--out", type=_folder, default=Path("reproduction-results"), metavar="DIR", help="where results go")
    add("--atlas", action="store_true", help="mountain-car: every reading of what the paper leaves open")
    add("--search", action="store_true", help="triple-link: the search for the learners' parameters")
    add("--actor-critic", action="store_true", help="mountain-car: the off-policy actor-critic and its rivals")
    where = "where the atlas or the search is run (cuda: a GPU, through CuPy)"
    add("--backend", choices=("cores", "cuda"), default="cores", help=where)
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
    tell = (lambda _: None) if args.quiet else (lambda sentence: print(sentence, file=sys.stderr, flush=True))
    finished = []
    for experiment in chosen(args):
        tell(f"running {experiment.name}")
        settings = settings_of(experiment, args)
        finished.append(execute(experiment, settings, args.out, n_jobs=args.n_jobs, resume=args.resume, tell=tell))
    tell("drawing figures and writing the report")
    files = write_report(finished, args.out, _command(args))
    text = "\n".join([*_lines(finished), "", *(f"{kind}: {file}" for kind, file in files.items())])
    return text, _data(finished, files)


def chosen(args: argparse.Namespace) -> list[Experiment]:
    """The experiments that were asked for; some flags stand for larger relatives of theirs."""
    asked = [name for name in LARGER if getattr(args, _flag(name).replace("-", "_"))]
    for name in asked:
        if not name.startswith(f"{args.experiment}-"):
            flag, owner = _flag(name), name.removesuffix(f"-{_flag(name)}")
            where = f"run '{PROGRAM} {owner} --{flag}'"
            raise WrongInput(f"--{flag} belongs to {owner}, not to {args.experiment}: {where}")
    if args.backend != "cores" and not (args.atlas or args.search):
        raise WrongInput("--backend belongs to mountain-car --atlas and triple-link --search: add one of them")
    if asked:
        return [LARGER[name] for name in asked]
    return list(EXPERIMENTS.values()) if args.experiment == "all" else [EXPERIMENTS[args.experiment]]


def _flag(name: str) -> str:
    return name.removeprefix("mountain-car-").removeprefix("triple-link-")


def settings_of(experiment: Experiment, args: argparse.Namespace) -> Settings:
    """The full or the quick settings, with what the options change."""
    changes: dict[str, Any] = {"n_seeds": args.seeds, "entropy": args.random_state}
    changes["backend"] = args.backend if args.backend != "cores" else None
    settings = experiment.quick if args.quick else experiment.full
    return dataclasses.replace(settings, **{name: value for name, value in changes.items() if value is not None})


def _command(args: argparse.Namespace) -> str:
    words = [PROGRAM, args.experiment]
    words += [f"--{flag}" for flag in map(_flag, LARGER) if getattr(args, flag.replace("-", "_"))]
    words += [f"--backend {args.backend}"] * (args.backend != "cores") + ["--quick"] * args.quick
    words += [f"--seeds {args.seeds}"] * (args.seeds is not None)
    words += [f"--random-state {args.random_state}"] * (args.random_state is not None)
    return " ".join(words)


def _lines(finished: list[Outcome]) -> list[str]:
    return [f"{f.experiment.name}: {c.label}: {c.sentence}" for f in finished for c in f.summary.claims]


def _data(finished: list[Outcome], files: dict[str, Path]) -> dict[str, Any]:
    claims = [{"experiment": f.experiment.name, **dataclasses.asdict(c)} for f in finished for c in f.summary.claims]
    return {"claims": claims, "files": {kind: str(file) for kind, file in files.items()}}


if __name__ == "__main__":
    sys.exit(main())
