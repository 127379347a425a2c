"""Mountain car on the GPU: samples, features, policy iteration and tests for thousands of readings at once.

A run is one reading with one seed; runs that share samples and features are neighbours, equally many to a data set.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from reproduction import mountain_car_world as car
from sparsetd.sweeps.cuda.job import Inputs, Job, shape_of
from sparsetd.sweeps.cuda.launch import cupy, stream

GRIDS = (2, 4, 8, 16, 32)
A = car.N_ACTIONS


def bumps(xp: Any, states: Any, width: Any, unit: Any, grids: Sequence[int] = GRIDS) -> Any:
    """The rows of `RBFGrid(grids, width=width)` on the box of the car, of unit length if asked for, in float32.

    `width` and `unit` are for all states, or one for each. A width of 0 stands for exp(−0.9‖s − c‖²), without scaling.
    """
    size, wide = xp.asarray(car.HIGH - car.LOW), xp.asarray(width, dtype=float)[..., None]
    u, blocks = (states - xp.asarray(car.LOW)) / size, []
    for g in grids:
        per = xp.where(wide > 0, (g - 1) / xp.maximum(wide, 1e-9), 1.8**0.5 * size)
        one = xp.exp(-0.5 * ((u[..., None] - xp.linspace(0, 1, g)) * per[..., None]) ** 2)
        blocks.append((one[..., 0, :, None] * one[..., 1, None, :]).reshape(*u.shape[:-1], -1))
    phi = xp.concatenate([*blocks, xp.ones((*u.shape[:-1], 1))], axis=-1)
    if np.any(unit):
        phi /= xp.where(xp.asarray(unit)[..., None], xp.linalg.norm(phi, axis=-1, keepdims=True), 1.0)
    return phi.astype(xp.float32)


def rewards(xp: Any, kind: Any, goal: Any) -> Any:
    """−1 for every step ("step"), the same but 0 at the goal ("group"), or 1 at the goal alone ("goal")."""
    kind = np.asarray(kind)
    at_goal, elsewhere = (
        np.select([kind == "step", kind == "group"], [-1.0, 0.0], 1.0),
        np.where(kind == "goal", 0.0, -1.0),
    )
    return xp.where(goal, xp.asarray(at_goal), xp.asarray(elsewhere))


@dataclass
class Samples:
    """Data sets of n transitions: φ(s), φ(s') and the columns, on the host or on the device."""

    phi: Any
    phi_next: Any
    action: Any
    reward: Any
    terminated: Any


def samples(xp: Any, logs: Sequence[Any], widths: Any, units: Any, kinds: Any, grids: Sequence[int] = GRIDS) -> Samples:
    """One data set for each log and its reading of width, length of rows and reward."""
    readings = list(zip(logs, widths, units, strict=True))
    phi = xp.stack([bumps(xp, xp.asarray(log.observation), w, u, grids) for log, w, u in readings])
    phi_next = xp.stack([bumps(xp, xp.asarray(log.next_observation), w, u, grids) for log, w, u in readings])
    ends = xp.asarray(np.stack([log.terminated for log in logs]))
    action = np.stack([np.asarray(log.action).ravel() for log in logs]).astype(np.int32)
    return Samples(phi, phi_next, xp.asarray(action), rewards(xp, np.asarray(kinds)[:, None], ends), ends)


def play(xp: Any, likely: Callable[[Any], Any], state: Any, again: Any, uniforms: Any) -> list[Any]:
    """(states, successors, actions, goals), time first, of cars that start at `again`[t] after the goal."""
    rows = []
    for t in range(len(uniforms)):
        action = (uniforms[t][..., None] > likely(state).cumsum(axis=-1)[..., :-1]).sum(axis=-1)
        following, _, goal = car.step(state, action)
        rows.append((state, following, action, goal))
        state = xp.where(goal[..., None], again[t], following)
    return [xp.stack(column) for column in zip(*rows, strict=True)]


def fresh(xp: Any, theta: Any, columns: Any, draws: Any, epsilon: float, grids: Sequence[int] = GRIDS) -> Samples:
    """A data set for each run, collected by the run's ε-greedy policy.

    `columns` are the width, the unit length and the kind of reward of every run. `draws` are first states, later ones
    and random numbers, of the shapes (runs, episodes, 2), (steps, runs, episodes, 2) and (steps, runs, episodes).
    """
    (width, unit, kind), (first, again, uniforms) = columns, map(xp.asarray, draws)
    (steps, runs, episodes), d, rows = uniforms.shape, sum(g * g for g in grids) + 1, list[Any]()

    def likely(state: Any) -> Any:
        rows.append(bumps(xp, state, width[:, None], unit[:, None], grids))
        if theta is None:
            return xp.full((runs, episodes, A), 1.0 / A)
        return (1.0 - epsilon) * _shared(xp.matmul(rows[-1], theta.transpose(0, 2, 1))) + epsilon / A

    _, successors, action, goal = play(xp, likely, first, again, uniforms)
    rows.append(bumps(xp, successors[-1], width[:, None], unit[:, None], grids))
    phi = xp.stack(rows, axis=2)  # what follows a goal is another start, and its discount is 0
    rows.clear()
    ends, action = (v.transpose(1, 2, 0).reshape(runs, -1) for v in (goal, action))
    here, there = (phi[:, :, part].reshape(runs, episodes * steps, d) for part in (slice(0, steps), slice(1, None)))
    return Samples(here, there, action.astype(xp.int32), rewards(xp, np.asarray(kind)[:, None], ends), ends)


def _shared(q: Any) -> Any:
    """Greedy probabilities, ties shared equally."""
    best = q == q.max(axis=-1, keepdims=True)
    return best / best.sum(axis=-1, keepdims=True)


def policy_iteration(
    jobs: Sequence[Job], job: Any, data: Samples | Callable[[int, Any], Samples], gamma: Any, *, n_iter: int, warm: bool
) -> list[Any]:
    """θ (runs, actions, d) after every evaluation; `job` (an index) and `gamma` have one entry for each run.

    `data` are the samples of all iterations, or a function that collects those of one with the last θ (None at first).
    """
    xp, found, origin = cupy(), list[Any](), None
    job, index = xp.asarray(job), xp.arange(len(job))
    for k in range(n_iter):
        rows = data(k, found[-1] if found else None) if callable(data) else data
        sets, n, d = rows.phi.shape
        runs, each = len(job), len(job) // sets
        policy = greedy(xp, rows.phi_next, found[-1]) if found else xp.full((runs, n, A), 1.0 / A)
        discount = xp.repeat(~rows.terminated, each, axis=0) * xp.asarray(gamma)[:, None]
        fixed = (xp.ones((1, n)), xp.zeros((1, n)), job, index // each, xp.zeros_like(index), index)
        ahead = policy * discount[..., None]
        inputs = Inputs(rows.phi, rows.phi_next, rows.reward, ahead, *fixed, rows.action, origin)
        theta, _ = stream(list(jobs), inputs, [n * jobs[0].passes], np.float32)
        found.append(xp.nan_to_num(theta[:, 0]).reshape(runs, A, d))
        origin = theta[:, 0] if warm else None
    return found


def greedy(xp: Any, phi: Any, theta: Any) -> Any:
    """π(a|s) of every row of the runs' data sets, ties shared equally: (runs, n, actions)."""
    sets, n, d = phi.shape
    runs = theta.shape[0]
    q = xp.matmul(phi, theta.reshape(sets, -1, d).transpose(0, 2, 1)).reshape(sets, n, runs // sets, A)
    return _shared(q.transpose(0, 2, 1, 3).reshape(runs, n, A))


def lstd_iteration(xp: Any, data: Samples, gamma: float, rho: float, *, n_iter: int) -> list[Any]:
    """θ (actions, d) of least-squares policy iteration on one data set, until a policy repeats.

    With Φ the stacked rows and D = Φ − γΦ̄, θ = Φᵀz solves (ΦᵀD/n + ρI)θ = Φᵀr/n for (DΦᵀ + nρI)z = r: a system of n
    equations, whose products of rows are the same for every policy.
    """
    phi, ahead, a = data.phi[0].astype(float), data.phi_next[0].astype(float), data.action[0]
    n, own = len(phi), a[:, None] == xp.arange(A)
    here, there = (phi @ phi.T) * (a[:, None] == a) + n * rho * xp.eye(n), ahead @ phi.T
    discount, policy, found = gamma * ~data.terminated[0], xp.full((n, A), 1.0 / A), list[Any]()
    while len(found) < n_iter:
        z = xp.linalg.solve(here - there * (discount[:, None] * policy)[:, a], data.reward[0])
        found.append((own * z[:, None]).T @ phi)
        last, policy = policy, _shared(ahead @ found[-1].T)
        if bool((policy == last).all()):
            break
    return found


def steps_to_goal(
    xp: Any, theta: Any, width: Any, unit: Any, max_steps: int = 500, grids: Sequence[int] = GRIDS
) -> Any:
    """Steps from the bottom of the valley under the greedy policy, max_steps + 1 where it is not left."""
    runs = len(theta)
    state, steps = xp.tile(xp.asarray(car.BOTTOM), (runs, 1)), xp.full(runs, max_steps + 1)
    for t in range(1, max_steps + 1):
        action = xp.einsum("bd,bad->ba", bumps(xp, state, width, unit, grids), theta).argmax(axis=1)
        state, _, goal = car.step(state, action)
        steps = xp.where(goal & (steps > max_steps), t, steps)
    return steps


def fresh_state(jobs: Sequence[Job], runs: int, n_features: int) -> tuple[Any, Any]:
    """Vectors and scalars of `runs` runs of the kernel before their first row, on the device."""
    cp, shape = cupy(), shape_of(list(jobs), n_features, A, np.float32, origin=False)
    vectors = 2 * jobs[0].table.n_blocks + 3
    scalars = cp.zeros((runs, 13))
    scalars[:, 8:10] = 1.0  # projections that wait
    return cp.zeros((runs, vectors, A, shape.width), cp.float32), scalars


def online(
    jobs: Sequence[Job], job: Any, start: Any, columns: Any, uniforms: Any, *, epsilon: float = 0.1,
    n_steps: int = 200, grids: Sequence[int] = GRIDS,
) -> Any:  # fmt: skip
    """ε-greedy control, every transition used once: θ (runs, actions, d) at the end.

    `start` holds the first states of all episodes (runs, episodes, 2) and `uniforms` the random numbers of all steps,
    (runs, episodes · n_steps, 2); `columns` are the kind of reward, the width, the unit length and γ of every run.
    """
    cp, (runs, episodes), (kind, width, unit, gamma) = cupy(), start.shape[:2], columns
    first, draws, gamma = cp.asarray(start), cp.asarray(uniforms), cp.asarray(gamma)
    d, index = sum(g * g for g in grids) + 1, cp.arange(runs)
    memory, theta = fresh_state(jobs, runs, d), cp.zeros((runs, A, d), cp.float32)
    fixed = (cp.ones((1, 1)), cp.zeros((1, 1)), cp.asarray(job), index, cp.zeros_like(index), index)
    for episode in range(episodes):
        state = first[:, episode]
        phi = bumps(cp, state, width, unit, grids)
        for t in range(n_steps):
            u, v = draws[:, episode * n_steps + t].T
            best = cp.einsum("bd,bad->ba", phi, theta).argmax(axis=1)
            action = cp.where(u < epsilon, (A * v).astype(cp.int64), best)
            following, _, goal = car.step(state, action)
            phi_next = bumps(cp, following, width, unit, grids)
            share = _shared(cp.einsum("bd,bad->ba", phi_next, theta))
            ahead, reward = share * (gamma * ~goal)[:, None], rewards(cp, kind, goal)
            rows = Inputs(phi[:, None], phi_next[:, None], reward[:, None], ahead[:, None], *fixed, action[:, None])
            theta = stream(list(jobs), rows, [1], np.float32, state=memory)[0].reshape(runs, A, d)
            # A car at the goal starts again at once, so that every run has the same number of rows.
            state = cp.where(goal[:, None], first[:, (episode + 1) % episodes], following)
            phi = bumps(cp, state, width, unit, grids) if bool(goal.any()) else phi_next
    return theta
