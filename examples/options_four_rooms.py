"""
Options: values of plans that take several steps
================================================

An option is a plan with an end, such as "walk to the eastern door". One execution from s to s' that took k steps is one
row: the discounted reward on the way, and the discount γᵏ. The per-row ``discount`` of every estimator carries such a
semi-Markov process as it is, so nothing else changes. Here the options of the four rooms lead to the doors, and the
values that are learnt from executions meet the exact ones.
"""

# %%
# Four rooms, four doors. A step fails one time in ten and goes anywhere; reaching the southern door pays 1 and ends the
# episode.
import matplotlib.pyplot as plt
import numpy as np

from sparsetd import LSTD, TDC

MAP = [
    "xxxxxxxxxxxxx",
    "x.....x.....x",
    "x.....x.....x",
    "x...........x",
    "x.....x.....x",
    "x.....x.....x",
    "xx.xxxx.....x",
    "x.....xxx.xxx",
    "x.....x.....x",
    "x.....x.....x",
    "x...........x",
    "x.....x.....x",
    "xxxxxxxxxxxxx",
]
GAMMA, SLIP = 0.95, 0.1
CELLS = [(r, c) for r, line in enumerate(MAP) for c, sign in enumerate(line) if sign == "."]
INDEX = {cell: i for i, cell in enumerate(CELLS)}
DOORS = [INDEX[cell] for cell in ((3, 6), (6, 2), (7, 9), (10, 6))]
GOAL, MOVES = DOORS[3], ((-1, 0), (1, 0), (0, -1), (0, 1))


def neighbours(i):
    r, c = CELLS[i]
    return [INDEX.get((r + dr, c + dc), i) for dr, dc in MOVES]


# %%
# A room is what can be reached without passing a door; its options lead to each of its doors by the shortest way.
def room_of(start):
    room, edge = {start}, [start]
    while edge:
        fresh = {j for j in neighbours(edge.pop()) if j not in room and j not in DOORS}
        room |= fresh
        edge += fresh
    return frozenset(room)


ROOMS = list(dict.fromkeys(room_of(i) for i in range(len(CELLS)) if i not in DOORS))


def option(room, door):
    """(cells where it can begin, transition matrix while it runs), ending at its door or at the goal."""
    inside = room | {d for d in DOORS if room & set(neighbours(d))}
    distance, edge = {door: 0}, [door]
    for i in edge:
        edge += [
            j
            for j in neighbours(i)
            if j in inside and distance.setdefault(j, distance[i] + 1) > distance[i] and j not in edge
        ]
    P = np.zeros((len(CELLS), len(CELLS)))
    for i in inside - {door, GOAL}:
        step = min((j for j in neighbours(i) if j in inside), key=lambda j: distance[j])
        P[i, step] += 1 - SLIP
        for j in neighbours(i):
            P[i, j if j in inside else i] += SLIP / 4
    return inside - {door, GOAL}, P


OPTIONS = [option(room, door) for room in ROOMS for door in DOORS if room & set(neighbours(door))]

# %%
# Exactly: with P the chain of a running option and e the cells where it ends, the discounted chance of ending in s' is
# (I − γP_inside)⁻¹ γP e, and the reward is 1/γ times that of the goal. The policy picks among those that can begin.
n = len(CELLS)
reward, future, count = np.zeros(n), np.zeros((n, n)), np.zeros(n)
for begin, P in OPTIONS:
    running = np.isin(np.arange(n), list(begin))
    inside = P * np.outer(running, running)
    ends = np.linalg.solve(np.eye(n) - GAMMA * inside, GAMMA * (P - inside))
    rows = sorted(begin)
    reward[rows] += ends[rows, GOAL] / GAMMA
    future[rows] += ends[rows]
    count[rows] += 1
alive = np.arange(n) != GOAL
future[:, GOAL] = 0.0
value = np.zeros(n)
value[alive] = np.linalg.solve(
    np.eye(n - 1) - future[np.ix_(alive, alive)] / count[alive, None], (reward / np.maximum(count, 1))[alive]
)

# %%
# From executions: each one is a row. Episodes begin anywhere.
rng = np.random.default_rng(0)
executions = []
for _ in range(3000):
    s, first = rng.choice(np.flatnonzero(alive)), True
    while s != GOAL:
        begin, P = OPTIONS[rng.choice([k for k, (where, _) in enumerate(OPTIONS) if s in where])]
        here, steps = s, 0
        while here in begin:
            here, steps = rng.choice(n, p=P[here]), steps + 1
        gain, discount = (GAMMA ** (steps - 1), 0.0) if here == GOAL else (0.0, GAMMA**steps)
        executions.append((s, gain, here, discount, first))
        s, first = here, False
print(f"exact values from {value[alive].min():.2f} to {value.max():.2f}")
s, gain, following, discount, start = (np.array(column) for column in zip(*executions, strict=True))
phi = np.eye(n)
for model in (LSTD(), TDC()):
    model.fit(phi[s], gain, phi[following], discount=discount, start=start)
    error = np.abs(model.coef_ - value)[alive].mean()
    print(f"{type(model).__name__:4s} from {len(s):,} executions: mean error {error:.3f}")
    if isinstance(model, LSTD):
        learnt = model.coef_

# %%
# Values rise towards the southern door; what was learnt and what is exact look alike.
figure, axes = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
for axis, title, numbers in ((axes[0], "exact", value), (axes[1], "LSTD", learnt)):
    picture = np.full((len(MAP), len(MAP[0])), np.nan)
    for i, (r, c) in enumerate(CELLS):
        picture[r, c] = numbers[i] if i != GOAL else np.nan
    shown = axis.imshow(picture, vmin=0, vmax=value.max())
    axis.set(title=title, xticks=[], yticks=[])
figure.colorbar(shown, ax=axes, label="value of picking options at random")
plt.show()
