"""A made-up experiment that is fast, random and judged by a rule."""

from __future__ import annotations

from dataclasses import dataclass

from reproduction.document import Grid
from reproduction.experiment import Experiment, Figure, Summary, Unit
from reproduction.settings import Settings, assumed, paper
from reproduction.verdict import THEORY, TRIVIAL, TUNING, judge


@dataclass(frozen=True)
class ToySettings(Settings):
    n_seeds: int = assumed(4, "few")
    mean: float = paper(1.0, "Table 9")
    methods: tuple[str, ...] = assumed(("a", "b"), "two")


def units(settings):
    return [Unit(m, seed, {"method": m}) for m in settings.methods for seed in range(settings.n_seeds)]


def run(settings, unit):
    rng = settings.rng(unit.seed)
    return [{"method": unit.params["method"], "t": t, "value": settings.mean + 0.1 * rng.normal()} for t in range(3)]


def summarize(_settings, rows):
    mean = rows["value"].mean()
    claims = [
        judge(THEORY, "mean is one", "1.0", f"{mean:.2f}", "|mean − 1| < 0.5", literal=abs(mean - 1) < 0.5),
        judge(TUNING, "mean is large", "9 | 9", f"{mean:.2f}", "mean > 9", literal=False, because="it is <one>"),
        judge(TRIVIAL, "one is one", "1", "1", "always", literal=True),
    ]
    return Summary(
        "It is one. It is not large.",
        claims,
        [Grid("Means", ("method", "mean"), [("a", f"{mean:.2f}")], "a note")],
        ["A remark."],
    )


def plot(_settings, rows):
    return [Figure("means", "Means", "See the line.", lambda axes: axes[0].plot(rows["t"], rows["value"]))]


TOY = Experiment("toy", "Toy", "Nothing.", ToySettings(), ToySettings(n_seeds=2), units, run, summarize, plot)
