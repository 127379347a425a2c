"""Every command, in the order of `sparsetd --help`: a new one is one file and one line here."""

from __future__ import annotations

from sparsetd.cli.command import Command
from sparsetd.cli.demo import DEMO

COMMANDS: tuple[Command, ...] = (DEMO,)
