"""The words that raw tables use in several languages, for gaps, yes and no, months and roles, from `words.toml`."""

from __future__ import annotations

import tomllib
from importlib.resources import files
from typing import Any

from sparsetd.logs.schema import folded

WORDS: dict[str, Any] = tomllib.loads(files("sparsetd.logs").joinpath("words.toml").read_text("utf-8"))
GAPS = set(WORDS["gaps"])
GAPS_AMONG_NUMBERS = GAPS | set(WORDS["gaps_among_numbers"])
PAIRS = [{folded(yes): 1.0, folded(no): 0.0} for yes, no in WORDS["yes_no"]]
FLAGS = {word: value for pair in reversed(PAIRS) for word, value in pair.items()}
TOTALS = set(map(folded, WORDS["totals"]))
MONTHS = {name: number for number, names in enumerate(WORDS["months"], start=1) for name in names}
WEEKDAYS: list[str] = WORDS["weekdays"]
ROLE_NAMES: dict[str, list[str]] = WORDS["roles"]
ENCODINGS: dict[str, list[str]] = {name: WORDS["letters"][letters] for name, letters in WORDS["encodings"].items()}
