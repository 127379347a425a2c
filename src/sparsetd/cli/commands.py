"""Every command, in the order of `sparsetd --help`: a new one is one file and one line here."""

from __future__ import annotations

from sparsetd.cli.command import Command, Deferred

COMMANDS: tuple[Command | Deferred, ...] = (
    Deferred("demo", "try the library on problems with known answers", "sparsetd.cli.demo:DEMO"),
    Deferred(
        "reproduce",
        "rerun the paper's experiments and give a verdict on every claim",
        "sparsetd.cli.reproduce:REPRODUCE",
    ),
)
