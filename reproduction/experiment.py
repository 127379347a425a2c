"""What an experiment is: settings that know where they come from, units of work, claims with verdicts by rule.

A file of this package describes one figure or table of the paper and ends in one :class:`Experiment`. Everything
that is common (parallel runs, resuming, the report) lives elsewhere and reads only this description.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np

Row = dict[str, Any]
Provenance = Literal["paper", "cited", "assumed"]

# What a claim is about. A trivial one would be true of any method, so it is not counted.
THEORY, ALGORITHM, TUNING, TRIVIAL = "theory", "algorithm", "depends on tuning", "trivially true"
KINDS = {
    THEORY: "what is proved, or follows from the equations",
    ALGORITHM: "what the methods do, whatever their parameters within reason",
    TUNING: "which method wins on one problem, with parameters that are mostly not printed",
    TRIVIAL: "true of any method; not counted",
}
REPRODUCED = "reproduced"
UNDER_READING = "reproduced under this reading"
IN_PART = "reproduced in part"
NOT_REPRODUCED = "not reproduced"


def paper(value: Any, note: str = "") -> Any:
    """A setting printed in the paper."""
    return _setting(value, "paper", note)


def cited(value: Any, note: str) -> Any:
    """A setting taken from a work that the paper cites; `note` says which."""
    return _setting(value, "cited", note)


def assumed(value: Any, note: str) -> Any:
    """A setting that no source fixes; `note` says why this value."""
    return _setting(value, "assumed", note)


def _setting(value: Any, source: Provenance, note: str) -> Any:
    return field(default=value, metadata={"provenance": source, "note": note})


@dataclass(frozen=True)
class Settings:
    """Base of every experiment's settings; values are numbers, strings or tuples of them.

    `carried` names those that decide which units there are, and not what a unit finds.
    """

    carried: ClassVar[tuple[str, ...]] = ("n_seeds",)

    n_seeds: int = assumed(20, "number of independent runs")
    entropy: int = assumed(20121203, "root of the reported seeds; tuning uses another root")

    def table(self) -> list[tuple[str, Any, str, str]]:
        """(name, value, provenance, note) of every setting."""
        rows = dataclasses.fields(self)
        return [(f.name, getattr(self, f.name), f.metadata["provenance"], f.metadata["note"]) for f in rows]

    def rng(self, seed: int, stream: int = 0) -> np.random.Generator:
        """Generator of run `seed`. All methods of a run share it, so that they see the same data."""
        return np.random.default_rng(np.random.SeedSequence(self.entropy, spawn_key=(seed, stream)))


@dataclass(frozen=True)
class Unit:
    """One independent piece of work: a run of one method (or a few that share data) with one seed."""

    name: str
    seed: int
    params: dict[str, Any] = field(default_factory=dict)

    @property
    def label(self) -> str:
        return f"{self.name}-{self.seed:03d}"


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper, its number, ours, and the verdict that `rule` gives; `kind` is one of `KINDS`.

    `reading` names what had to be chosen where the paper is silent, or why the claim did not come out.
    """

    kind: str
    label: str
    paper: str
    ours: str
    verdict: str
    rule: str
    reading: str = ""

    @property
    def sentence(self) -> str:
        """The verdict with its reason."""
        if self.kind == TRIVIAL:
            return TRIVIAL
        if not self.reading:
            return self.verdict
        join = {NOT_REPRODUCED: "not reproduced, because", IN_PART: "reproduced"}
        return f"{join.get(self.verdict, f'{self.verdict}:')} {self.reading}"


@dataclass(frozen=True)
class Figure:
    """A picture: `draw` fills `panels` axes that it is given. The caption says what to see."""

    stem: str
    title: str
    caption: str
    draw: Callable[[Any], None]
    panels: int = 1


@dataclass(frozen=True)
class Table:
    """A table of results; `rows` hold what is printed."""

    title: str
    header: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    note: str = ""


@dataclass(frozen=True)
class Summary:
    """What the rows say: a conclusion of two sentences, claims with verdicts, tables, and remarks in sentences."""

    conclusion: str
    claims: list[Claim] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Experiment:
    """One figure or table of the paper.

    `units(settings)` lists the work, `run(settings, unit)` returns tidy rows, `summarize(settings, rows)` judges the
    paper's claims from them, and `plot(settings, rows)` describes the figures. `rows` is a pandas frame of all finished
    units.
    """

    name: str
    title: str
    about: str
    full: Settings
    quick: Settings
    units: Callable[[Any], Iterable[Unit]]
    run: Callable[[Any, Unit], list[Row]]
    summarize: Callable[[Any, Any], Summary]
    plot: Callable[[Any, Any], list[Figure]]


def judge(
    kind: str,
    label: str,
    printed: str,
    ours: str,
    rule: str,
    *,
    literal: bool,
    reading: bool = False,
    part: str = "",
    because: str = "",
    otherwise: str = "",
) -> Claim:
    """The claim with its verdict: it holds with the printed settings, only under a stated reading, in part, or not.

    `because` states the reading; `part`, where it is not empty, says which part holds ("in the median, …"); `otherwise`
    says why nothing does (where it is left out, `because` does).
    """
    if literal:
        return Claim(kind, label, printed, ours, REPRODUCED, rule)
    if reading:
        return Claim(kind, label, printed, ours, UNDER_READING, rule, because)
    if part:
        return Claim(kind, label, printed, ours, IN_PART, rule, part)
    return Claim(kind, label, printed, ours, NOT_REPRODUCED, rule, otherwise or because)


def curve(rows: Any, across: str, column: str, how: str = "median", **where: Any) -> tuple[Any, Any]:
    """(values of `across`, median or another summary of `column` over the runs) of the rows where all of it holds."""
    for name, value in where.items():
        rows = rows[rows[name] == value]
    summary = rows.groupby(across)[column].agg(how)
    return summary.index.to_numpy(), summary.to_numpy()
