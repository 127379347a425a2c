"""How far two sets of features agree."""

from __future__ import annotations


def f1(found: set[str], truth: set[str]) -> float:
    return 2 * len(found & truth) / (len(found) + len(truth))


def jaccard(a: set[str], b: set[str]) -> float:
    return len(a & b) / len(a | b) if a | b else 1.0


def originals(names: list[str]) -> set[str]:
    """The names with each copy under the name of its original: either of the two columns may be kept."""
    return {name.removeprefix("copy_of_") for name in names}
