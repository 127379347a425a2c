"""Every command, in the order of `sparsetd --help`: a new one is one file and one line here."""

from __future__ import annotations

from sparsetd.cli.command import Command, Deferred

SUMMARIES = (
    ("demo", "try the library on problems with known answers"),
    ("example", "write an example log to try the other commands on"),
    ("prepare", "turn a raw table with text, dates and gaps into a log"),
    ("shard", "split a log of any size into files of whole, sorted episodes"),
    ("inspect", "say what a log was understood to be, what is missing, what looks wrong"),
    ("evaluate", "estimate the value of a target policy from a log, with an interval and reasons"),
    ("compare", "compare several policies on one log: values, all differences, which may be best"),
    ("improve", "learn a better policy on one part of a log and test it once on the other"),
    ("select", "which features carry the value: the path of penalties and the choice"),
    ("fit", "learn a value function from a log and save it to a file"),
    ("predict", "values of the states of a log from a model file, or actions from a policy file"),
    ("sweep", "compare methods over grids of settings and seeds, with sensitivity curves"),
)
COMMANDS: tuple[Command | Deferred, ...] = tuple(Deferred(name, summary) for name, summary in SUMMARIES)
