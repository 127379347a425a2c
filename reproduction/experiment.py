"""The parts of an experiment: settings that know where they come from, units of work, claims with verdicts by rule.

A file of this package describes one figure or table of the paper and ends in one :class:`Experiment`. Everything
that is common (parallel runs, resuming, the report) lives elsewhere and reads only this description.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from reproduction.document import Grid
from reproduction.settings import Settings
from reproduction.verdict import Claim

Row = dict[str, Any]


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
class Figure:
    """A picture: `draw` fills `panels` axes that it is given. The caption says what to see."""

    stem: str
    title: str
    caption: str
    draw: Callable[[Any], None]
    panels: int = 1


@dataclass(frozen=True)
class Summary:
    """What the rows say: a conclusion of two sentences, claims with verdicts, tables, and remarks in sentences."""

    conclusion: str
    claims: list[Claim] = field(default_factory=list)
    tables: list[Grid] = field(default_factory=list)
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


def curve(rows: Any, across: str, column: str, how: str = "median", **where: Any) -> tuple[Any, Any]:
    """(values of `across`, median or another summary of `column` over the runs) of the rows with these values."""
    for name, value in where.items():
        rows = rows[rows[name] == value]
    summary = rows.groupby(across)[column].agg(how)
    return summary.index.to_numpy(), summary.to_numpy()
