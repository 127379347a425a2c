"""The REPORT set: run once, at the end. Nothing is chosen by looking at it.

The continuous systems, `machine`, `inventory` and `few` are only here; the other families have other parameters and
instances than in BUILD.
"""

from __future__ import annotations

from functools import partial

from benchmarks.trust.case import Cell, Draw, Trouble
from benchmarks.trust.families import (
    clinic,
    corridor,
    decoys,
    few,
    hidden,
    inventory,
    machine,
    scales,
    speeds,
    systems_report,
)
from benchmarks.trust.families.system import cells_of as systems


def cells() -> list[Cell]:
    names = ("epidemic", "glucose", "tanks", "ward", "sessions", "terraces")
    own = [*systems(systems_report, names, (400,)), *_machine(), *_inventory(), *_few()]
    shared = [*_clinic(), *_speeds(), *_decoys(), *_hidden(), *_corridor(), *_cuts(), *_scales(), *_unlogged()]
    return [*own, *shared]


def _machine() -> list[Cell]:
    return [
        Cell("machine/optimal, 300", partial(machine.draw, episodes=300)),
        Cell("machine/optimal, 2000", partial(machine.draw, episodes=2000)),
        Cell("machine/nearly optimal, from half random, 500", partial(machine.draw, random=0.5, asked=0.02)),
        Cell("machine/nearly optimal, 200 noise columns, 500", partial(machine.draw, asked=0.02, noise=200)),
        Cell("machine/straight line and square, 5000", _line(5000), Trouble.SHAPE),
        Cell("machine/worst, 500", partial(machine.draw, better=False), Trouble.OVERLAP, overlap=False),
    ]


def _line(episodes: int) -> Draw:
    return partial(machine.draw, random=0.6, exact=False, episodes=episodes)


def _inventory() -> list[Cell]:
    hinges = partial(inventory.draw, exact=False, logged_level=11, asked_level=8)
    near = partial(inventory.draw, asked_level=9, episodes=1000)
    far = partial(inventory.draw, asked_level=18, random=0.1)
    return [
        Cell("inventory/near, 400", partial(near, episodes=400)),
        Cell("inventory/near, 2000", partial(near, episodes=2000)),
        Cell("inventory/near, 100 noise columns, 1000", partial(near, noise=100)),
        Cell("inventory/hinges, 5000", partial(hinges, episodes=5000), Trouble.SHAPE),
        Cell("inventory/far, 400", far, Trouble.OVERLAP, overlap=False),
        Cell("inventory/far, hinges, 400", partial(far, exact=False), Trouble.OVERLAP, overlap=False),
    ]


def _few() -> list[Cell]:
    rare = partial(few.draw, seldom=0.03, target=0.8)
    return [
        Cell("few/30 episodes", partial(few.draw, seldom=0.5, target=0.6, episodes=30, columns=3, length=10)),
        Cell("few/60 episodes", partial(few.draw, seldom=0.5, target=0.6, episodes=60, columns=6, length=10)),
        Cell("few/rare action, 200", rare, Trouble.EPISODES, overlap=False),
        Cell("few/rare action, 1000", partial(rare, episodes=1000), Trouble.EPISODES, overlap=False),
        Cell("few/rare action, long, 300", partial(rare, length=15, episodes=300), Trouble.EPISODES, overlap=False),
    ]


def _clinic() -> list[Cell]:
    second = partial(clinic.draw, instance=2)
    out = []
    for columns, target, episodes in (
        (13, "nearly", 200),
        (13, "mixed", 1000),
        (83, "optimal", 1000),
        (83, "logged", 300),
        (283, "nearly", 400),
        (583, "optimal", 1000),
    ):
        draw = partial(second, columns=columns, target=target, episodes=episodes)
        out.append(Cell(f"clinic/{columns} columns, {target}, {episodes}", draw))
    for columns in (13, 83):
        draw = partial(second, columns=columns, target="untreated", episodes=700)
        out.append(Cell(f"clinic/{columns} columns, untreated, 700", draw, Trouble.OVERLAP, overlap=False))
    long = partial(clinic.draw, instance=3, columns=283, episodes=250)
    hidden_one = partial(second, columns=8, target="less", episodes=5000)
    return [
        *out,
        Cell("clinic/283 columns, optimal, long stays, 250", long),
        Cell("clinic/infection not observed, 5000", hidden_one, Trouble.HIDDEN),
    ]


def _speeds() -> list[Cell]:
    return [
        Cell("speeds/48 columns, 300", partial(speeds.draw, speeds=(0.97, 0.7, 0.2), each=4, noise=36, episodes=300)),
        Cell("speeds/very slow, 200", partial(speeds.draw, speeds=(0.995, 0.1), each=4, goes_on=0.97, episodes=200)),
        Cell("speeds/strong shift, 1000", partial(speeds.draw, target=0.9, lean=0.6, episodes=1000)),
        Cell("speeds/258 columns, 1500", partial(speeds.draw, noise=250, episodes=1500)),
    ]


def _decoys() -> list[Cell]:
    goals = {(60, 2000): (0.92, 0.90, 0.60), (400, 2000): (0.80, 0.78, 0.60)}
    out = []
    for (columns, rows), row in goals.items():
        for correlation, goal in zip((0.0, 0.5, 0.9), row, strict=True):
            draw = partial(decoys.draw, columns=columns, rows=rows, correlation=correlation)
            out.append(Cell(f"decoys/{columns} columns, correlation {correlation}, {rows} rows", draw, f1_goal=goal))
    draw = partial(decoys.draw, columns=120, rows=1000, correlation=0.7, relevant=4, decoys=8, speed=0.6)
    return [*out, Cell("decoys/120 columns, correlation 0.7, 1000 rows", draw)]


def _hidden() -> list[Cell]:
    squares = partial(hidden.draw, hidden=0, curved=2.0, squares=True, episodes=2000, target=0.6)
    return [
        Cell("hidden/one of five, 1000", partial(hidden.draw, hidden=1, strength=1.5), Trouble.HIDDEN),
        Cell("hidden/three of five, 4000", partial(hidden.draw, hidden=3, episodes=4000), Trouble.HIDDEN),
        Cell("hidden/curved, 3000", partial(hidden.draw, hidden=0, curved=2.0, episodes=3000), Trouble.SHAPE),
        Cell("hidden/curved, squares given, 2000", squares),
    ]


def _corridor() -> list[Cell]:
    far = partial(corridor.draw, places=14, forth=0.4, asked=0.8)
    return [
        Cell("corridor/near, 1000", partial(corridor.draw, places=14, forth=0.55, asked=0.65, episodes=1000)),
        Cell("corridor/far, 300", partial(far, episodes=300), Trouble.OVERLAP, overlap=False),
        Cell("corridor/far, 5000", partial(far, episodes=5000), Trouble.OVERLAP, overlap=False),
        Cell("corridor/far, four bumps, 500", partial(far, bumps=4, episodes=500), Trouble.OVERLAP, overlap=False),
    ]


def _cuts() -> list[Cell]:
    slow = partial(speeds.draw, goes_on=0.96, cut=20, episodes=800, noise=10)
    clinic_cut = partial(clinic.draw, columns=83, cut=12, instance=2, target="nearly", episodes=800)
    return [
        Cell("cuts/clinic, 83 columns, marked right, 800", clinic_cut),
        Cell("cuts/clinic, 83 columns, 70 % marked wrong, 800", partial(clinic_cut, wrong=0.7), Trouble.MARKS),
        Cell("cuts/slow and fast, marked right, 800", slow),
        Cell("cuts/slow and fast, 70 % marked wrong, 800", partial(slow, wrong=0.7), Trouble.MARKS),
    ]


def _scales() -> list[Cell]:
    bases = {
        "inventory": partial(inventory.draw, asked_level=9),
        "near-deterministic": partial(machine.draw, asked=0.02),
        "decoys": partial(decoys.draw, correlation=0.5),
    }
    return [Cell(f"scales/{name}, all", partial(scales.draw, base=base, kind="all")) for name, base in bases.items()]


def _unlogged() -> list[Cell]:
    logistic = partial(speeds.draw, noise=10, lean=1.2, episodes=800, logged=False, target=0.6)
    confounded = partial(hidden.draw, hidden=1, strength=1.2, episodes=2000, logged=False)
    shop = partial(inventory.draw, asked_level=9, known=False)
    return [
        Cell("unlogged/logistic, 800", logistic),
        Cell("unlogged/inventory, 400", shop),
        Cell("unlogged/inventory, hinges, 1000", partial(shop, exact=False, episodes=1000), Trouble.BEHAVIOR),
        Cell("unlogged/confounded, 2000", confounded, Trouble.HIDDEN),
    ]
