"""`sparsetd reproduce`: run the paper's experiments and judge its claims."""

from __future__ import annotations

import dataclasses
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from pathlib import Path

from sparsetd.cli.command import Command, Outcome
from sparsetd.cli.console import Console
from sparsetd.cli.options import at_least
from sparsetd.experiments import EXPERIMENTS
from sparsetd.experiments.experiment import Experiment, Settings
from sparsetd.experiments.runner import Outcome as Finished
from sparsetd.experiments.runner import execute
from sparsetd.progress import counter
from sparsetd.report.reproduction import write_report

SUMMARY = "rerun the paper's experiments and give a verdict on every claim"
DETAILS = """\
Rows go to DIR/<experiment>/rows as each unit of work finishes, figures to DIR/<experiment>/figures, and the verdicts,
with the paper's numbers beside ours, to DIR/report.html and DIR/report.md. An interrupted run continues with --resume.

examples:
  sparsetd reproduce star --quick
  sparsetd reproduce all --quick --jobs 2
  sparsetd reproduce mountain-car --seeds 20 --jobs 8 --out full --resume"""


def _arguments(parser: ArgumentParser) -> None:
    parser.add_argument("experiment", choices=[*EXPERIMENTS, "all"], help="which figure or table of the paper")
    parser.add_argument("--quick", action="store_true", help="small settings: minutes instead of hours")
    parser.add_argument("--seeds", type=at_least(1), metavar="N", help="independent runs of each method")
    parser.add_argument(
        "--jobs", type=at_least(-1), default=1, metavar="N", help="parallel processes (-1: one per core)"
    )
    parser.add_argument("--out", type=_folder, default=Path("reproduction"), metavar="DIR", help="where results go")
    parser.add_argument("--resume", action="store_true", help="skip the units that are already finished")


def _folder(text: str) -> Path:
    if not text.strip():
        raise ArgumentTypeError("is empty; name a folder")
    return Path(text)


def _run(args: Namespace, console: Console) -> Outcome:
    names = list(EXPERIMENTS) if args.experiment == "all" else [args.experiment]
    finished = []
    for name in names:
        experiment = EXPERIMENTS[name]
        console.progress(f"running {name}")
        settings, progress = settings_of(experiment, args.quick, args.seeds), counter(name)
        finished.append(execute(experiment, settings, args.out, jobs=args.jobs, resume=args.resume, progress=progress))
    console.progress("drawing figures and writing the report")
    files = write_report(finished, args.out, _command(args))
    text = "\n".join([*_lines(finished), "", *(f"{kind}: {file}" for kind, file in files.items())])
    return Outcome(text, _data(finished, files))


def settings_of(experiment: Experiment, quick: bool, seeds: int | None) -> Settings:
    settings = experiment.quick if quick else experiment.full
    return settings if seeds is None else dataclasses.replace(settings, n_seeds=seeds)


def _command(args: Namespace) -> str:
    words = ["sparsetd reproduce", args.experiment]
    words += ["--quick"] * args.quick + [f"--seeds {args.seeds}"] * (args.seeds is not None)
    return " ".join(words)


def _lines(finished: list[Finished]) -> list[str]:
    return [f"{f.experiment.name}: {c.label}: {c.sentence}" for f in finished for c in f.summary.claims]


def _data(finished: list[Finished], files: dict[str, Path]) -> dict[str, object]:
    claims = [{"experiment": f.experiment.name, **dataclasses.asdict(c)} for f in finished for c in f.summary.claims]
    return {"claims": claims, "files": {kind: str(file) for kind, file in files.items()}}


REPRODUCE = Command("reproduce", SUMMARY, DETAILS, _arguments, _run)
