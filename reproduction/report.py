"""The report of a reproduction: the paper's numbers beside ours, a verdict on every claim, every setting's source."""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from reproduction.document import Block, Grid, Heading, Paragraph, Picture, Tally, html_page, level, markdown_page
from reproduction.runner import Outcome
from sparsetd.plots.save import save_figure
from sparsetd.storage.atomic import replace_file

TITLE = "Regularized Off-Policy TD-Learning: a reproduction"
VERDICTS = (
    'A claim is "reproduced" when the rule beside it holds for our rows with the printed settings, "reproduced under '
    'this reading" when it holds only after a choice that the paper does not state, and "not reproduced" otherwise. '
    "The verdicts are computed from the rows; nobody typed them in."
)
PROVENANCE = (
    "paper: printed in the paper. cited: printed in a work that the paper cites. assumed: stated nowhere, chosen by us."
)
PACKAGES = ("sparsetd", "numpy", "scipy", "scikit-learn", "numba")


def write_report(outcomes: Sequence[Outcome], out: Path, command: str) -> dict[str, Path]:
    """Draw the figures (PNG and SVG) and write `out`/report.html and `out`/report.md."""
    blocks = [*_front(outcomes, command)]
    for outcome in outcomes:
        blocks += _chapter(outcome)
    files = {"html": out / "report.html", "markdown": out / "report.md"}
    replace_file(files["html"], html_page(TITLE, blocks, out).encode())
    replace_file(files["markdown"], markdown_page(blocks, out).encode())
    return files


def _front(outcomes: Sequence[Outcome], command: str) -> Iterator[Block]:
    yield Heading(TITLE, 1)
    yield _tally([c.sentence for o in outcomes for c in o.summary.claims])
    yield Paragraph(VERDICTS)
    rows = [
        (o.experiment.title if k == 0 else "", c.label, c.sentence)
        for o in outcomes
        for k, c in enumerate(o.summary.claims)
    ]
    yield Grid("All verdicts", ("experiment", "claim", "verdict"), rows)
    yield Paragraph(f"Made by `{command}` with {', '.join(f'{p} {version(p)}' for p in PACKAGES)}, {_python()}.")


def _tally(sentences: Sequence[str]) -> Tally:
    found = Counter(level(sentence) for sentence in sentences)
    words = {"good": "reproduced", "warn": "reproduced under a reading", "bad": "not reproduced"}
    return Tally([(text, found[css]) for css, text in words.items()])


def _python() -> str:
    return f"Python {platform.python_version()} on {platform.system()} {platform.machine()}"


def _chapter(outcome: Outcome) -> list[Block]:
    experiment, summary = outcome.experiment, outcome.summary
    claims = [(c.label, c.paper, c.ours, c.sentence, c.rule) for c in summary.claims]
    tables = [Grid(t.title, t.header, t.rows, t.note, folded=True) for t in summary.tables]
    return [
        Heading(experiment.title),
        Paragraph(experiment.about),
        Grid("Claims", ("claim", "paper", "ours", "verdict", "rule"), claims),
        *_figures(outcome),
        *(Paragraph(remark) for remark in summary.remarks),
        *tables,
        _settings(outcome),
    ]


def _figures(outcome: Outcome) -> list[Block]:
    folder = outcome.folder / "figures"
    folder.mkdir(parents=True, exist_ok=True)
    pictures: list[Block] = []
    for figure in outcome.figures:
        save_figure(figure.draw, folder / f"{figure.stem}.svg", figure.panels)
        png = save_figure(figure.draw, folder / f"{figure.stem}.png", figure.panels)
        pictures.append(Picture(png, figure.title, figure.caption))
    return pictures


def _settings(outcome: Outcome) -> Grid:
    rows = [(name, _text(value), source, note) for name, value, source, note in outcome.settings.table()]
    title = f"Settings of {outcome.experiment.title}"
    seconds = f"{outcome.rows['unit_seconds'].groupby([outcome.rows['unit'], outcome.rows['seed']]).first().sum():.0f}"
    return Grid(
        title,
        ("setting", "value", "source", "note"),
        rows,
        f"{PROVENANCE} The units took {seconds} s in all.",
        folded=True,
    )


def _text(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)
