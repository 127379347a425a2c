"""Which cells there are. BUILD may be looked at while `evaluate` is being built; REPORT is run once, at the end.

REPORT has families of its own, and the shared ones at other parameters, other instances and other seeds.
"""

from __future__ import annotations

from functools import lru_cache, partial

from benchmarks.trust.case import Cell
from benchmarks.trust.families import clinic, corridor, decoys, hidden, speeds

ENTROPY = {"build": 11_001, "report": 11_002}
OVERLAP, SHAPE, HIDDEN, MARKS = "little overlap", "wrong shape", "unobserved state", "ends marked wrong"


@lru_cache
def cells_of(which: str) -> dict[str, Cell]:
    """The cells of a set by name."""
    cells = {"build": _build, "report": _report}[which]()
    out = {cell.name: cell for cell in cells}
    if len(out) != len(cells):
        raise ValueError("two cells share a name")
    return out


def _build() -> list[Cell]:
    return [*_clinic(), *_speeds(), *_decoys(), *_hidden(), *_corridor()]


def _report() -> list[Cell]:
    return []


def _clinic() -> list[Cell]:
    out = []
    for columns in (13, 83, 583):
        for target in ("optimal", "mixed"):
            name = f"clinic/{columns} columns, {target}, 500"
            out.append(Cell(name, partial(clinic.draw, columns=columns, target=target)))
    for columns in (83, 583):
        draw = partial(clinic.draw, columns=columns, episodes=300, instance=1)
        out.append(Cell(f"clinic/{columns} columns, optimal, long stays, 300", draw))
    for columns in (13, 83):
        draw = partial(clinic.draw, columns=columns, target="worst")
        out.append(Cell(f"clinic/{columns} columns, worst, 500", draw, OVERLAP, overlap=False))
        draw = partial(clinic.draw, columns=columns, target="optimal", episodes=2000)
        out.append(Cell(f"clinic/{columns} columns, optimal, 2000", draw))
    return out


def _speeds() -> list[Cell]:
    return [
        Cell("speeds/28 columns, 200", partial(speeds.draw, episodes=200)),
        Cell("speeds/28 columns, 1000", partial(speeds.draw, episodes=1000)),
        Cell("speeds/108 columns, 500", partial(speeds.draw, noise=100)),
        Cell("speeds/very slow, 500", partial(speeds.draw, speeds=(0.999, 0.3), each=3, goes_on=0.98)),
    ]


def _decoys() -> list[Cell]:
    goals = {(60, 2000): (0.92, 0.90, 0.60), (400, 2000): (0.80, 0.78, 0.60)}
    out = []
    for columns, rows in ((60, 500), (60, 2000), (400, 2000), (400, 5000)):
        for correlation, goal in zip((0.0, 0.5, 0.9), goals.get((columns, rows), (None,) * 3), strict=True):
            draw = partial(decoys.draw, columns=columns, rows=rows, correlation=correlation)
            out.append(Cell(f"decoys/{columns} columns, correlation {correlation}, {rows} rows", draw, f1_goal=goal))
    return out


def _hidden() -> list[Cell]:
    return [
        Cell("hidden/nothing hidden, 1000", partial(hidden.draw, hidden=0)),
        Cell("hidden/two of five, 300", partial(hidden.draw, episodes=300), HIDDEN),
        Cell("hidden/two of five, 2000", partial(hidden.draw, episodes=2000), HIDDEN),
        Cell("hidden/curved, 1000", partial(hidden.draw, hidden=0, curved=1.0), SHAPE),
        Cell("hidden/curved, 5000", partial(hidden.draw, hidden=0, curved=1.0, episodes=5000), SHAPE),
        Cell("hidden/curved, squares given, 1000", partial(hidden.draw, hidden=0, curved=1.0, squares=True)),
    ]


def _corridor() -> list[Cell]:
    far = partial(corridor.draw, forth=0.45, asked=0.75)
    return [
        Cell("corridor/near, 400", partial(corridor.draw, forth=0.6, asked=0.7)),
        Cell("corridor/far, 400", far, OVERLAP, overlap=False),
        Cell("corridor/far, 2000", partial(far, episodes=2000), OVERLAP, overlap=False),
        Cell("corridor/far, six bumps, 400", partial(far, bumps=6), OVERLAP, overlap=False),
        Cell("corridor/near, six bumps, 1000", partial(corridor.draw, forth=0.6, asked=0.7, bumps=6, episodes=1000)),
    ]
