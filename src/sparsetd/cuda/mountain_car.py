"""Mountain car on the GPU: samples, features, policy iteration and tests for thousands of readings at once.

A run is one reading with one seed; runs that share samples and features are neighbours, equally many to a data set.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sparsetd.cuda.inputs import Inputs
from sparsetd.cuda.job import Job
from sparsetd.cuda.launch import cupy, fresh_state, stream
from sparsetd.problems import mountain_car as car

GRIDS = (2, 4, 8, 16, 32)


def bumps(xp: Any, states: Any, width: float, unit: bool, grids: Sequence[int] = GRIDS) -> Any:
    """The rows of `RBFGrid(grids, width=width)` on the box of the car, of unit length if asked for, in float32."""
    u = (states - xp.asarray(car.LOW)) / xp.asarray(car.HIGH - car.LOW)
    blocks = []
    for g in grids:
        one = xp.exp(-0.5 * ((u[..., None] - xp.linspace(0, 1, g)) * ((g - 1) / width)) ** 2)
        blocks.append((one[..., 0, :, None] * one[..., 1, None, :]).reshape(*u.shape[:-1], -1))
    phi = xp.concatenate([*blocks, xp.ones((*u.shape[:-1], 1))], axis=-1)
    phi = phi / xp.linalg.norm(phi, axis=-1, keepdims=True) if unit else phi
    return phi.astype(xp.float32)


@dataclass
class Samples:
    """Data sets of n transitions: φ(s), φ(s') and the columns, on the host or on the device."""

    phi: Any
    phi_next: Any
    action: Any
    reward: Any
    terminated: Any


def samples(
    xp: Any,
    logs: Sequence[Any],
    widths: Sequence[float],
    units: Sequence[bool],
    goal_rewards: Sequence[bool],
    grids: Sequence[int] = GRIDS,
) -> Samples:
    """One data set for each log and its reading of width, length of rows and reward."""
    kinds = list(zip(logs, widths, units, strict=True))
    phi = xp.stack([bumps(xp, xp.asarray(log.observation), w, u, grids) for log, w, u in kinds])
    phi_next = xp.stack([bumps(xp, xp.asarray(log.next_observation), w, u, grids) for log, w, u in kinds])
    ends = np.stack([log.terminated for log in logs])
    reward = np.where(np.array(goal_rewards)[:, None], ends.astype(float), -1.0)
    action = np.stack([np.asarray(log.action).ravel() for log in logs]).astype(np.int32)
    return Samples(phi, phi_next, xp.asarray(action), xp.asarray(reward), xp.asarray(ends))


def policy_iteration(
    jobs: Sequence[Job],
    job: Any,
    data: Samples,
    gamma: Any,
    *,
    n_iter: int,
    warm: bool,
) -> list[Any]:
    """θ (runs, actions, d) after every evaluation; `job` (an index) and `gamma` have one entry for each run."""
    xp = cupy()
    sets, n, d = data.phi.shape
    runs, each, A = len(job), len(job) // sets, car.N_ACTIONS
    discount = xp.repeat(~data.terminated, each, axis=0) * xp.asarray(gamma)[:, None]  # (runs, n)
    policy, origin, found = xp.full((runs, n, A), 1.0 / A), None, []
    index, job = xp.arange(runs), xp.asarray(job)
    for _ in range(n_iter):
        fixed = (xp.ones((1, n)), xp.zeros((1, n)), job, index // each, xp.zeros_like(index), index)
        rows = Inputs(data.phi, data.phi_next, data.reward, policy * discount[..., None], *fixed, data.action, origin)
        theta, _ = stream(list(jobs), rows, [n * jobs[0].passes], np.float32)
        found.append(xp.nan_to_num(theta[:, 0]).reshape(runs, A, d))
        policy, origin = greedy(xp, data.phi_next, found[-1]), theta[:, 0] if warm else None
    return found


def greedy(xp: Any, phi: Any, theta: Any) -> Any:
    """π(a|s) of every row of the runs' data sets, ties shared equally: (runs, n, actions)."""
    sets, n, d = phi.shape
    runs, A = theta.shape[:2]
    q = xp.matmul(phi, theta.reshape(sets, -1, d).transpose(0, 2, 1)).reshape(sets, n, runs // sets, A)
    best = (q == q.max(axis=-1, keepdims=True)).transpose(0, 2, 1, 3).reshape(runs, n, A)
    return best / best.sum(axis=-1, keepdims=True)


def steps_to_goal(
    xp: Any, theta: Any, width: Any, unit: Any, max_steps: int = 500, grids: Sequence[int] = GRIDS
) -> Any:
    """Steps from the bottom of the valley under the greedy policy, max_steps + 1 where it is not left."""
    runs = len(theta)
    state, steps = xp.tile(xp.asarray(car.BOTTOM), (runs, 1)), xp.full(runs, max_steps + 1)
    kinds = [(w, u, xp.asarray(np.flatnonzero((width == w) & (unit == u)))) for w in set(width) for u in set(unit)]
    kinds = [kind for kind in kinds if len(kind[2])]
    for t in range(1, max_steps + 1):
        action = xp.zeros(runs, dtype=xp.int64)
        for w, u, which in kinds:
            q = xp.einsum("bd,bad->ba", bumps(xp, state[which], w, u, grids), theta[which])
            action[which] = q.argmax(axis=1)
        state, _, goal = car.step(state, action)
        steps = xp.where(goal & (steps > max_steps), t, steps)
    return steps


def online(
    jobs: Sequence[Job],
    job: Any,
    start: Any,
    goal_reward: Any,
    width: Any,
    unit: Any,
    gamma: Any,
    uniforms: Any,
    *,
    epsilon: float = 0.1,
    n_steps: int = 200,
    grids: Sequence[int] = GRIDS,
) -> Any:
    """ε-greedy control, every transition used once: θ (runs, actions, d) at the end.

    `start` holds the first states of all episodes (runs, episodes, 2) and `uniforms` the random numbers of all steps,
    (runs, episodes · n_steps, 2).
    """
    cp, A = cupy(), car.N_ACTIONS
    runs, episodes = start.shape[:2]
    first, draws, gamma = cp.asarray(start), cp.asarray(uniforms), cp.asarray(gamma)
    kinds = [(w, u, cp.asarray(np.flatnonzero((width == w) & (unit == u)))) for w in set(width) for u in set(unit)]

    def features(states: Any) -> Any:
        phi = cp.empty((runs, sum(g * g for g in grids) + 1), cp.float32)
        for w, u, which in kinds:
            phi[which] = bumps(cp, states[which], w, u, grids)
        return phi

    d, index = sum(g * g for g in grids) + 1, cp.arange(runs)
    memory, theta = fresh_state(jobs, runs, d, A), cp.zeros((runs, A, d), cp.float32)
    columns = (cp.ones((1, 1)), cp.zeros((1, 1)), cp.asarray(job), index, cp.zeros_like(index), index)
    goal_reward = cp.asarray(goal_reward)
    for episode in range(episodes):
        state = first[:, episode]
        phi = features(state)
        for t in range(n_steps):
            u, v = draws[:, episode * n_steps + t].T
            best = cp.einsum("bd,bad->ba", phi, theta).argmax(axis=1)
            action = cp.where(u < epsilon, (A * v).astype(cp.int64), best)
            following, _, goal = car.step(state, action)
            phi_next = features(following)
            q = cp.einsum("bd,bad->ba", phi_next, theta)
            share = (q == q.max(axis=1, keepdims=True)).astype(float)
            ahead = share / share.sum(axis=1, keepdims=True) * (gamma * ~goal)[:, None]
            reward = cp.where(goal_reward, goal * 1.0, -1.0)
            rows = Inputs(phi[:, None], phi_next[:, None], reward[:, None], ahead[:, None], *columns, action[:, None])
            theta = stream(list(jobs), rows, [1], np.float32, state=memory)[0].reshape(runs, A, d)
            # A car at the goal starts again at once, so that every run has the same number of rows.
            state = cp.where(goal[:, None], first[:, (episode + 1) % episodes], following)
            phi = features(state) if bool(goal.any()) else phi_next
    return theta
