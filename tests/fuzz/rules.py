"""Policies in words: random texts are parsed and asked, or refused in one sentence."""

from __future__ import annotations

import numpy as np

from sparsetd import policy
from sparsetd.logs.rules import Rule

NAMES = ("Lactate", "Age group", "sex: m, not f", "sex: missing", "ward: icu", "ward: er", "septic")
ROWS = np.array([[1.5, 2, 0, 1, 0, 0, 1], [3.0, 0, 1, 0, 1, 0, 0], [0.0, 1, 0, 0, 0, 1, 1]])
ACTIONS = ("none", "drug B", "C")
WORDS = """
drug B|C|none|if|and|or|not|in|with|else|otherwise|;|,|(|)|{1..4}|{|}|<|>|=|!=|<=|+|-|*|/|`|'|is|missing|Lactate
`Age group`|sex|ward|septic|m|icu|0.5|2|80|%|1e9|1e400|..|.5|always|"|é|٣|x_1|__class__|{0:n}|as was done|if Lactate > 2
; else C|C if septic|with 0.5|\0
""".replace("\n", "|").split("|")
TOKENS = [word.encode() for word in WORDS]
SEEDS = [
    b"drug B with 0.8 if (Lactate + 1) > {1..4} and sex = m; C if ward in (icu, er); else none",
    b"C with 30 %, none with 0.5 if not `Age group` in (1, 2) or sex is missing, otherwise as was done",
    b"always drug B",
]


def outcome(text: str) -> str:
    """Whether a text was parsed (then its probabilities add up to 1) or refused; anything else is a crash."""
    try:
        rules = policy(text)
        for rule in [rules] if isinstance(rules, Rule) else list(rules)[:3]:
            table, rest = rule.shares(ROWS, NAMES, ACTIONS)
            np.testing.assert_allclose(table.sum(axis=1) + rest, 1)
        return "parsed"
    except ValueError as error:
        said = str(error)
    assert said
    assert "\n" not in said
    return "refused"


def one_input(data: bytes) -> None:
    outcome(data.decode(errors="replace"))
