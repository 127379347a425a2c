"""Fewer cases with the same pairs: most faults need two settings to meet, hardly any needs three."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import combinations
from typing import Any


def covering(cases: list[Any], settings: Callable[[Any], Mapping[str, Any]]) -> list[Any]:
    """Choose cases until every pair of settings that some case has is in a chosen one; greedily, in a fixed order."""
    pairs = [frozenset(combinations(sorted((k, repr(v)) for k, v in settings(case).items()), 2)) for case in cases]
    missing, chosen = set().union(*pairs), []
    while missing:
        best = max(range(len(cases)), key=lambda i: len(pairs[i] & missing))
        chosen.append(best)
        missing -= pairs[best]
    return [cases[i] for i in sorted(chosen)]


def of_few_kernels(cases: list[Any], kernel: Callable[[Any], Mapping[str, Any]]) -> list[Any]:
    """All cases whose kernel is in a covering set of kernels: a kernel takes seconds to compile, a case does not."""
    kernels = {repr(kernel(case)): kernel(case) for case in cases}
    chosen = covering(list(kernels.values()), lambda settings: settings)
    return [case for case in cases if kernel(case) in chosen]
