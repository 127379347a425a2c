"""Which cells there are. BUILD may be looked at while `evaluate` is being built; REPORT is run once, at the end.

REPORT has families of its own, and the shared ones at other parameters, other instances and other seeds.
"""

from __future__ import annotations

from functools import lru_cache

from benchmarks.trust import build, icu, report
from benchmarks.trust.case import Cell

SETS = {"build": build.cells, "report": report.cells, "icu": icu.cells}
ENTROPY = {"build": 11_001, "report": 11_071, "icu": None}  # None: log k has the seed k, as in benchmarks/evaluation.py


@lru_cache
def cells_of(which: str) -> dict[str, Cell]:
    """The cells of a set by name."""
    cells = SETS[which]()
    out = {cell.name: cell for cell in cells}
    if len(out) != len(cells):
        raise ValueError(f"two cells of the set {which} share a name")
    return out
