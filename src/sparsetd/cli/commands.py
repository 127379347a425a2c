"""Every command, in the order of `sparsetd --help`: a new one is one file and one line here."""

from __future__ import annotations

from sparsetd.cli.command import Command, Deferred

COMMANDS: tuple[Command | Deferred, ...] = (
    Deferred("demo", "try the library on problems with known answers", "sparsetd.cli.demo:DEMO"),
    Deferred("example", "write an example log to try the other commands on", "sparsetd.cli.example:EXAMPLE"),
    Deferred("prepare", "turn a raw table with text, dates and gaps into a log", "sparsetd.cli.prepare:PREPARE"),
    Deferred("shard", "split a log of any size into files of whole, sorted episodes", "sparsetd.cli.shard:SHARD"),
    Deferred(
        "inspect",
        "say what a log was understood to be, what is missing, what looks wrong",
        "sparsetd.cli.inspect:INSPECT",
    ),
    Deferred(
        "evaluate",
        "estimate the value of a target policy from a log, with an interval and reasons",
        "sparsetd.cli.evaluate:EVALUATE",
    ),
    Deferred(
        "compare",
        "compare several policies on one log: values, all differences, which may be best",
        "sparsetd.cli.compare:COMPARE",
    ),
    Deferred(
        "improve",
        "learn a better policy on one part of a log and test it once on the other",
        "sparsetd.cli.improve:IMPROVE",
    ),
    Deferred(
        "select",
        "which features carry the value: the path of penalties and the choice",
        "sparsetd.cli.select:SELECT",
    ),
    Deferred("fit", "learn a value function from a log and save it to a file", "sparsetd.cli.fit:FIT"),
    Deferred("predict", "values of the states of a log, from a model file", "sparsetd.cli.predict:PREDICT"),
    Deferred(
        "sweep",
        "compare methods over grids of settings and seeds, with sensitivity curves",
        "sparsetd.cli.sweep:SWEEP",
    ),
    Deferred(
        "reproduce",
        "rerun the paper's experiments and give a verdict on every claim",
        "sparsetd.cli.reproduce:REPRODUCE",
    ),
    Deferred(
        "benchmark",
        "measure speed, quality, evaluation or robustness, with the goals beside the figures",
        "sparsetd.cli.benchmark:BENCHMARK",
    ),
)
