"""The BUILD set: cells that may be looked at while `evaluate` is being built."""

from __future__ import annotations

from functools import partial

from benchmarks.trust.case import Cell, Draw, Trouble
from benchmarks.trust.families import clinic, corridor, decoys, hidden, scales, speeds, systems_build
from benchmarks.trust.families.system import cells_of as systems


def cells() -> list[Cell]:
    continuous = systems(systems_build, ("drug", "queue", "pendulum", "programme", "waves"), (300, 1000))
    shared = [*_clinic(), *_speeds(), *_decoys(), *_hidden(), *_corridor(), *_cuts(), *_scales(), *_unlogged()]
    return [*continuous, *shared]


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
        out.append(Cell(f"clinic/{columns} columns, worst, 500", draw, Trouble.OVERLAP, overlap=False))
        draw = partial(clinic.draw, columns=columns, target="optimal", episodes=2000)
        out.append(Cell(f"clinic/{columns} columns, optimal, 2000", draw))
    for episodes in (500, 3000):
        draw = partial(clinic.draw, columns=6, target="less", episodes=episodes)
        out.append(Cell(f"clinic/infection not observed, {episodes}", draw, Trouble.HIDDEN))
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
    slow = partial(decoys.draw, correlation=0.5, speed=0.95, reward_noise=0.3)
    return [*out, Cell("decoys/60 columns, slow, 2000 rows", slow)]


def _hidden() -> list[Cell]:
    return [
        Cell("hidden/nothing hidden, 1000", partial(hidden.draw, hidden=0)),
        Cell("hidden/two of five, 300", partial(hidden.draw, episodes=300), Trouble.HIDDEN),
        Cell("hidden/two of five, 2000", partial(hidden.draw, episodes=2000), Trouble.HIDDEN),
        Cell("hidden/curved, 1000", partial(hidden.draw, hidden=0, curved=1.0), Trouble.SHAPE),
        Cell("hidden/curved, 5000", partial(hidden.draw, hidden=0, curved=1.0, episodes=5000), Trouble.SHAPE),
        Cell("hidden/curved, squares given, 1000", partial(hidden.draw, hidden=0, curved=1.0, squares=True)),
    ]


def _corridor() -> list[Cell]:
    far = partial(corridor.draw, forth=0.45, asked=0.75)
    return [
        Cell("corridor/near, 400", partial(corridor.draw, forth=0.6, asked=0.7)),
        Cell("corridor/far, 400", far, Trouble.OVERLAP, overlap=False),
        Cell("corridor/far, 2000", partial(far, episodes=2000), Trouble.OVERLAP, overlap=False),
        Cell("corridor/far, six bumps, 400", partial(far, bumps=6), Trouble.OVERLAP, overlap=False),
        Cell("corridor/near, six bumps, 400", partial(corridor.draw, forth=0.6, asked=0.7, bumps=6)),
    ]


def _cuts() -> list[Cell]:
    clinic_cut = partial(clinic.draw, columns=13, cut=20)
    slow = partial(speeds.draw, goes_on=0.97, cut=25)
    return [
        Cell("cuts/clinic, 13 columns, marked right, 500", clinic_cut),
        Cell("cuts/clinic, 83 columns, marked right, 500", partial(clinic_cut, columns=83)),
        Cell("cuts/clinic, 13 columns, all marked wrong, 500", partial(clinic_cut, wrong=1.0), Trouble.MARKS),
        Cell("cuts/clinic, 13 columns, half marked wrong, 500", partial(clinic_cut, wrong=0.5), Trouble.MARKS),
        Cell("cuts/slow and fast, marked right, 500", slow),
        Cell("cuts/slow and fast, all marked wrong, 500", partial(slow, wrong=1.0), Trouble.MARKS),
        Cell("cuts/slow and fast, half marked wrong, 500", partial(slow, wrong=0.5), Trouble.MARKS),
    ]


def _scales() -> list[Cell]:
    bases = {"slow and fast": speeds.draw, "clinic": partial(clinic.draw, columns=13)}
    return [
        Cell(f"scales/{name}, {kind}, 500", partial(scales.draw, base=base, kind=kind))
        for name, base in bases.items()
        for kind in ("units", "means", "twice", "all")
    ]


def _unlogged() -> list[Cell]:
    strong = partial(speeds.draw, noise=4, lean=1.0, logged=False)
    return [
        Cell("unlogged/logistic, 300", partial(strong, episodes=300)),
        Cell("unlogged/logistic, 2000", partial(strong, episodes=2000)),
        Cell("unlogged/clinic, 13 columns, 1000", _clinic_unlogged(13), Trouble.BEHAVIOR),
        Cell("unlogged/clinic, 83 columns, 1000", _clinic_unlogged(83), Trouble.BEHAVIOR),
        Cell("unlogged/confounded, 1000", partial(hidden.draw, logged=False), Trouble.HIDDEN),
    ]


def _clinic_unlogged(columns: int) -> Draw:
    return partial(clinic.draw, columns=columns, episodes=1000, logged=False)
