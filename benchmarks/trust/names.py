"""How far two sets of features agree."""

from __future__ import annotations


def f1(found: set[str], truth: set[str]) -> float:
    return 2 * len(found & truth) / (len(found) + len(truth))


def jaccard(a: set[str], b: set[str]) -> float:
    return len(a & b) / len(a | b) if a | b else 1.0


def originals(names: list[str]) -> set[str]:
    """Of two columns that say the same either may be kept: copies count as what they copy."""
    return {name.removeprefix("copy_of_") for name in names}
