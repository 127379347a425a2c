"""`python -m reproduction`: run the paper's experiments and judge its claims."""

from __future__ import annotations

import dataclasses
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from pathlib import Path

from reproduction import EXPERIMENTS, LARGER
from reproduction.experiment import Experiment
from reproduction.report import write_report
from reproduction.runner import Outcome as Finished
from reproduction.runner import execute
from reproduction.settings import Settings
from sparsetd.cli.command import Command, Outcome, WrongInput
from sparsetd.cli.console import Console
from sparsetd.cli.options import at_least

SUMMARY = "rerun the paper's experiments and give a verdict on every claim"
DETAILS = """\
Rows go to DIR/<experiment>/rows as each unit of work finishes, figures to DIR/<experiment>/figures, and the verdicts,
with the paper's numbers beside ours, to DIR/report.html and DIR/report.md. An interrupted run continues with --resume.

examples:
  python -m reproduction star --quick
  python -m reproduction all --quick --jobs 2
  python -m reproduction mountain-car --seeds 20 --jobs 8 --out full --resume
  python -m reproduction mountain-car --atlas --backend cuda      every reading of the printed settings, on a GPU
  python -m reproduction triple-link --search --backend cuda      the search behind Table 2
  python -m reproduction mountain-car --actor-critic              the off-policy actor-critic that the paper cites"""


def _arguments(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add("experiment", choices=[*EXPERIMENTS, "all"], help="which figure or table of the paper")
    add("--quick", action="store_true", help="small settings: minutes instead of hours")
    add("--seeds", type=at_least(1), metavar="N", help="independent runs of each method")
    add("--jobs", type=at_least(-1), default=1, metavar="N", help="parallel processes (-1: one per core)")
    add("--out", type=_folder, default=Path("reproduction"), metavar="DIR", help="where results go")
    add("--atlas", action="store_true", help="mountain-car: every reading of what the paper leaves open")
    add("--search", action="store_true", help="triple-link: the search for the learners' parameters")
    add("--actor-critic", action="store_true", help="mountain-car: the off-policy actor-critic and its rivals")
    add(
        "--backend",
        choices=("cores", "cuda"),
        default="cores",
        help="where the atlas or the search is run (cuda: a GPU, through CuPy)",
    )
    add("--resume", action="store_true", help="skip the units that are already finished")


def _folder(text: str) -> Path:
    if not text.strip():
        raise ArgumentTypeError("is empty; name a folder")
    return Path(text)


def _run(args: Namespace, console: Console) -> Outcome:
    finished = []
    for experiment in _chosen(args):
        console.progress(f"running {experiment.name}")
        settings = settings_of(experiment, args.quick, args.seeds)
        if args.backend != "cores":
            settings = dataclasses.replace(settings, backend=args.backend)  # type: ignore[call-arg]
        finished.append(execute(experiment, settings, args.out, jobs=args.jobs, resume=args.resume))
    console.progress("drawing figures and writing the report")
    files = write_report(finished, args.out, _command(args))
    text = "\n".join([*_lines(finished), "", *(f"{kind}: {file}" for kind, file in files.items())])
    return Outcome(text, _data(finished, files))


def _chosen(args: Namespace) -> list[Experiment]:
    """The experiments that were asked for; some flags stand for larger relatives of theirs."""
    asked = [name for name in LARGER if getattr(args, _flag(name).replace("-", "_"))]
    for name in asked:
        if not name.startswith(f"{args.experiment}-"):
            flag, owner = _flag(name), name.removesuffix(f"-{_flag(name)}")
            raise WrongInput(
                f"--{flag} belongs to {owner}, not to {args.experiment}: run 'python -m reproduction {owner} --{flag}'"
            )
    if args.backend != "cores" and not (args.atlas or args.search):
        raise WrongInput("--backend belongs to mountain-car --atlas and triple-link --search: add one of them")
    if asked:
        return [LARGER[name] for name in asked]
    return list(EXPERIMENTS.values()) if args.experiment == "all" else [EXPERIMENTS[args.experiment]]


def _flag(name: str) -> str:
    return name.removeprefix("mountain-car-").removeprefix("triple-link-")


def settings_of(experiment: Experiment, quick: bool, seeds: int | None) -> Settings:
    settings = experiment.quick if quick else experiment.full
    return settings if seeds is None else dataclasses.replace(settings, n_seeds=seeds)


def _command(args: Namespace) -> str:
    words = ["python -m reproduction", args.experiment]
    words += [f"--{flag}" for flag in map(_flag, LARGER) if getattr(args, flag.replace("-", "_"))]
    words += [f"--backend {args.backend}"] * (args.backend != "cores")
    words += ["--quick"] * args.quick + [f"--seeds {args.seeds}"] * (args.seeds is not None)
    return " ".join(words)


def _lines(finished: list[Finished]) -> list[str]:
    return [f"{f.experiment.name}: {c.label}: {c.sentence}" for f in finished for c in f.summary.claims]


def _data(finished: list[Finished], files: dict[str, Path]) -> dict[str, object]:
    claims = [{"experiment": f.experiment.name, **dataclasses.asdict(c)} for f in finished for c in f.summary.claims]
    return {"claims": claims, "files": {kind: str(file) for kind, file in files.items()}}


REPRODUCE = Command("reproduce", SUMMARY, DETAILS, _arguments, _run)
