"""The report of a reproduction: one verdict on every claim, the paper's numbers beside ours, every setting's source."""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import date
from importlib.metadata import version
from pathlib import Path
from typing import Any

from reproduction.document import Block, Details, Grid, Heading, Paragraph, Picture, Tally, as_html, as_markdown, level
from reproduction.runner import Finished
from reproduction.verdict import KINDS, TRIVIAL, Claim
from sparsetd.plots import save_figure
from sparsetd.storage.atomic import replace_file

TITLE = "Regularized Off-Policy TD-Learning: a reproduction"
VERDICTS = (
    'A claim is "reproduced" when the rule beside it holds for our rows with the printed settings, "reproduced under '
    'this reading" when it holds only after a choice that the paper does not state, "reproduced in" a named part when '
    'only that part holds, and "not reproduced" otherwise. Every claim has one verdict, computed from the rows.'
)
PROVENANCE = (
    "paper: printed in the paper. cited: printed in a work that the paper cites. assumed: stated nowhere, chosen by us."
)
PACKAGES = ("numpy", "scipy", "scikit-learn", "numba")


def write_report(outcomes: Sequence[Finished], out: Path, command: str) -> dict[str, Path]:
    """Draw the figures and write `out`/report.html and `out`/report.md."""
    title = TITLE if len(outcomes) > 1 else outcomes[0].experiment.title
    blocks = [Heading(title, 1), *_front(outcomes, command)]
    for outcome in outcomes:
        blocks += [Heading(outcome.experiment.title)] * (len(outcomes) > 1) + _chapter(outcome)
    files = {"html": out / "report.html", "markdown": out / "report.md"}
    replace_file(files["html"], as_html(title, blocks, out).encode())
    replace_file(files["markdown"], as_markdown(blocks, out).encode())
    return files


def _front(outcomes: Sequence[Finished], command: str) -> Iterator[Block]:
    """The count of verdicts, all claims by kind, and what made them."""
    claims = [(outcome.experiment.title, claim) for outcome in outcomes for claim in outcome.summary.claims]
    if claims:
        yield _tally([claim for _, claim in claims])
        yield Paragraph(VERDICTS)
        yield Grid("All verdicts", ("kind", "experiment", "claim", "verdict"), _by_kind(claims))
    packages = ", ".join(f"{p} {version(p)}" for p in PACKAGES)
    python = f"Python {platform.python_version()} on {platform.system()} {platform.machine()}"
    made = ", ".join(sorted({v for outcome in outcomes for v in outcome.versions}))
    yield Paragraph(
        f"Made by `{command}`, the rows with sparsetd {made}. The page was drawn on {date.today().isoformat()} with "
        f"{packages}, {python}."
    )


def _by_kind(claims: Sequence[tuple[str, Claim]]) -> list[tuple[str, ...]]:
    rows = [(kind, title, claim) for kind in KINDS for title, claim in claims if claim.kind == kind]
    first = {kind: next(k for k, row in enumerate(rows) if row[0] == kind) for kind in {row[0] for row in rows}}
    return [
        (f"{kind}: {KINDS[kind]}" if first[kind] == k else "", title, claim.label, claim.sentence)
        for k, (kind, title, claim) in enumerate(rows)
    ]


def _tally(claims: Sequence[Claim]) -> Tally:
    found = Counter(level(claim.sentence) for claim in claims if claim.kind != TRIVIAL)
    words = {"good": "reproduced", "warn": "reproduced under a reading or in part", "bad": "not reproduced"}
    return Tally([(text, found[css]) for css, text in words.items()])


def _chapter(outcome: Finished) -> list[Block]:
    """What was found, one picture, and the rest folded away."""
    summary, (first, *others) = outcome.summary, _figures(outcome)
    claims = [(c.label, c.paper, c.ours, c.sentence, c.rule) for c in summary.claims]
    judged = [Grid("", ("claim", "paper", "ours", "verdict", "rule"), claims)] if claims else []
    return [
        Paragraph(summary.conclusion),
        first,
        *([Details("How each claim was judged: the paper's numbers, ours, and the rule", judged)] if judged else []),
        Details("The experiment, remarks, figures and tables", [*_about(outcome), *others, *summary.tables]),
        Details(f"Settings: {_seeds(outcome)}", [_settings(outcome)]),
    ]


def _about(outcome: Finished) -> list[Block]:
    return [Paragraph(text) for text in (outcome.experiment.about, *outcome.summary.remarks)]


def _figures(outcome: Finished) -> list[Block]:
    folder = outcome.folder / "figures"
    folder.mkdir(parents=True, exist_ok=True)
    files = [(save_figure(f.draw, folder / f"{f.stem}.png", f.panels), f) for f in outcome.figures]
    return [Picture(file, figure.title, figure.caption) for file, figure in files]


def _seeds(outcome: Finished) -> str:
    settings, made = outcome.settings, " and ".join(outcome.versions)
    return f"{settings.n_seeds} runs of each method, root seed {settings.entropy}, rows made with sparsetd {made}"


def _settings(outcome: Finished) -> Grid:
    rows = [(name, _text(value), source, note) for name, value, source, note in outcome.settings.table()]
    seconds = outcome.rows["unit_seconds"].groupby([outcome.rows["unit"], outcome.rows["seed"]]).first().sum()
    note = f"{PROVENANCE} The units took {seconds:.0f} s in all."
    return Grid("", ("setting", "value", "source", "note"), rows, note)


def _text(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)
