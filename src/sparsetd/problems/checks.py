"""What a table of an MDP must satisfy, and the defaults of what was left out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sparsetd.system import Array

if TYPE_CHECKING:
    from sparsetd.problems.finite import FiniteMDP


def check_mdp(mdp: FiniteMDP) -> dict[str, Array | float]:
    """The fields of an MDP as float64 arrays with defaults filled in; a ValueError names the first offender."""
    P = finite("P", mdp.P)
    if P.ndim != 3 or P.shape[1] != P.shape[2]:
        raise ValueError(f"P has shape {P.shape}: pass (n_actions, n_states, n_states), or use FiniteMDP.chain")
    n_actions, n_states, _ = P.shape
    gamma = float(mdp.gamma)
    if not 0.0 <= gamma <= 1.0:
        raise ValueError(f"gamma={gamma} is outside [0, 1]")
    terminal = np.zeros(n_states, dtype=bool) if mdp.terminal is None else np.asarray(mdp.terminal, dtype=bool)
    R, features = finite("R", mdp.R), finite("features", mdp.features)
    lengths("R", R, P.shape)
    lengths("terminal", terminal, (n_states,))
    if features.ndim != 2 or len(features) != n_states:
        raise ValueError(f"features has shape {features.shape}: pass one row for each of the {n_states} states")
    uniform = np.full((n_states, n_actions), 1.0 / n_actions)
    target = policy("target", uniform if mdp.target is None else mdp.target, (n_states, n_actions))
    behavior = policy("behavior", target if mdp.behavior is None else mdp.behavior, (n_states, n_actions))
    check_coverage(target, behavior, terminal)
    for action, table in enumerate(P):
        distributions(f"P[{action}]", table[~terminal], np.flatnonzero(~terminal))
    start = finite("start", mdp.start)
    lengths("start", start, (n_states,))
    distributions("start", np.where(terminal, 0.0, start)[None], np.array([0]))
    checked: dict[str, Array | float] = {
        "P": P, "R": R, "features": features, "gamma": gamma, "start": start,
        "target": target, "behavior": behavior, "terminal": terminal,
    }  # fmt: skip
    if mdp.weights is not None:
        checked["weights"] = finite("weights", mdp.weights)
        distributions("weights", np.where(terminal, 0.0, checked["weights"])[None], np.array([0]))
    return checked


def finite(name: str, values: Array) -> Array:
    array = np.asarray(values, dtype=np.float64)
    bad = np.argwhere(~np.isfinite(array))
    if len(bad):
        raise ValueError(f"{name} holds NaN or infinity, first at index {tuple(bad[0].tolist())}: pass finite numbers")
    return array


def lengths(name: str, values: Array, shape: tuple[int, ...]) -> None:
    if values.shape != shape:
        raise ValueError(f"{name} has shape {values.shape}: pass shape {shape}")


def policy(name: str, values: Array, shape: tuple[int, int]) -> Array:
    array = finite(name, values)
    lengths(name, array, shape)
    distributions(name, array, np.arange(len(array)))
    return array


def distributions(name: str, rows: Array, numbers: Array) -> None:
    """Each row is non-negative and sums to one."""
    bad = np.flatnonzero((rows < 0).any(axis=1) | (np.abs(rows.sum(axis=1) - 1.0) > 1e-8))
    if len(bad):
        row = numbers[bad[0]]
        raise ValueError(f"{name} is not a distribution in row {row}: pass non-negative numbers whose sum is 1")


def check_coverage(target: Array, behavior: Array, terminal: Array) -> None:
    """μ(a|s) > 0 wherever π(a|s) > 0: otherwise no ratio corrects for the difference."""
    bad = np.argwhere((target > 0) & (behavior == 0) & ~terminal[:, None])
    if len(bad):
        s, a = bad[0]
        raise ValueError(
            f"behavior never takes action {a} in state {s} but target does: give it a positive probability"
        )
