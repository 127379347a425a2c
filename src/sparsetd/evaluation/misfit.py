"""Can these features represent the value? Three tests that need no truth, only the log.

At the true value function ρ_t δ_t has mean 0 given everything before it, so it is uncorrelated with

    shape     products of features: what a linear function leaves out
    memory    features of earlier rows: what a state that was not recorded leaves behind

With z such a column, s_i = Σ_{t∈i} ρδz, and the part of it that comes from estimating θ taken off,

    t_z = Σ_i s̃_i / √Σ_i s̃_i²        s̃_i = s_i − (Σρ z(φ − γφ')ᵀ) A⁻¹ Σ_{t∈i} ρδφ

is nearly Student's, and the largest |t| of m columns is held against Bonferroni's bound. Products that stand out are
added to the features: `change` says what that does to the value, and memory is tested beside them.

The third test is the log's own: the same features fitted to the logged behaviour must give the mean return that was
observed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import solve_banded
from scipy.stats import t as student

from sparsetd.evaluation.cautions import Caution
from sparsetd.evaluation.estimate import Estimate
from sparsetd.evaluation.linear import LinearValue
from sparsetd.evaluation.moments import Moments, Part
from sparsetd.system import Array

TOP = 8  # features that enter products and memory
MAX_ADDED = 8  # products that are added where the test fires
SURE = 0.005  # p-value from which the features count as insufficient
CERTAIN = 0.01  # p-value from which the log counts as one of an unobserved state
MATTERS = 0.5  # change of the value, in standard errors of it, from which that counts
FADING = 0.8  # of the running mean of earlier rows
ROUNDING = 1e-12  # TD error, as a share of the terms it is made of, at or below which it is none
REDUNDANT = 1e-8  # share of a column's squares that the features leave unexplained, at or below which it is none


@dataclass(frozen=True)
class Misfit:
    """p-values (Bonferroni) of shape and memory, the products that stood out, and what adding them does to the
    value.
    """

    shape: float = 1.0
    memory: float = 1.0
    columns: tuple[str, ...] = ()
    remembered: tuple[str, ...] = ()
    change: Estimate | None = None

    def cautions(self, own: Estimate) -> list[Caution]:
        out = []
        if self.shape < SURE and self.change is not None:
            moved = self.change.value / own.standard_error if own.standard_error > 0 else np.inf
            bad = abs(moved) > MATTERS and abs(self.change.value) > 2 * self.change.standard_error
            out.append(
                Caution(
                    "misspecified",
                    "red" if bad else "amber",
                    f"A linear function of these features cannot represent the value (p = {self.shape:.1g}; what is "
                    f"missing goes with {', '.join(self.columns[:3])}). Adding it moves the value by "
                    f"{self.change.value:+.3g}, {abs(moved):.1f} standard errors. Add products of features, or finer "
                    "ones, and evaluate again.",
                )
            )
        if self.memory < CERTAIN:
            out.append(
                Caution(
                    "unobserved_state",
                    "red",
                    f"What happened before still tells something about the future (p = {self.memory:.1g}; "
                    f"{', '.join(self.remembered[:3])}): the log does not record everything that matters, and the "
                    "value may be off by more than its interval. Add what is missing, or features of the steps before.",
                )
            )
        return out


def misfit(model: LinearValue, part: Part, moments: Moments, names: Array, order: Array, influence: Array) -> Misfit:
    """Test products and the memory of the columns that matter most (`order`, the heaviest first)."""
    top = order[:TOP]
    if not len(top) or model.n_episodes < 3:
        return Misfit()
    labels, Z, Z_next = _products(part, names, top)
    shape = _p_values(model, part, moments.total().C[0], Z)
    first = np.argsort(shape, kind="stable")[:MAX_ADDED]
    added = first[shape[first] < 10 * SURE] if shape.min() < SURE else first[:0]
    change = None
    if len(added):
        batch = part.batch
        phi, phi_next = (np.hstack(pair) for pair in ((batch.phi, Z[:, added]), (batch.phi_next, Z_next[:, added])))
        wider = Part(replace(batch, phi=phi, phi_next=phi_next), part.episodes)
        sums = Moments.of(wider)
        other = LinearValue.solve(sums)
        change = Estimate.of_influence("change", other.value - model.value, other.influence(wider) - influence)
        model, part, moments = other, wider, sums
    said, past = _memory(part, names, top)
    memory = _p_values(model, part, moments.total().C[0], past)
    remembered = tuple(said[j] for j in np.argsort(memory, kind="stable")[:3])
    return Misfit(float(shape.min()), float(memory.min()), tuple(labels[j] for j in added), remembered, change)


def behavior_misfit(modelled: Estimate, observed: Estimate, difference: Estimate) -> list[Caution]:
    """The modelled value of the logged behaviour against its observed mean return."""
    z = difference.value / difference.standard_error if difference.standard_error > 0 else 0.0
    away = abs(difference.value) / modelled.standard_error if modelled.standard_error > 0 else 0.0
    rounding = 1e-9 * (abs(modelled.value) + abs(observed.value))
    if abs(z) < 3.0 or away < MATTERS or abs(difference.value) <= rounding:
        return []
    return [
        Caution(
            "behavior_misfit",
            "red",
            f"The model puts the logged behaviour at {modelled.value:.4g}, but its episodes earned "
            f"{observed.value:.4g} ({abs(z):.1f} standard errors apart): these features do not describe this log, so "
            "the value of the target and the difference are not to be trusted either.",
        )
    ]


def _products(part: Part, names: Array, top: Array) -> tuple[list[str], Array, Array]:
    """Products of the columns, for s and for s'."""
    left, right = np.triu_indices(len(top))
    labels = [f"{names[top[a]]} × {names[top[b]]}" for a, b in zip(left, right, strict=True)]
    here, there = (rows[:, top[left]] * rows[:, top[right]] for rows in (part.batch.phi, part.batch.phi_next))
    return labels, here, there


def _memory(part: Part, names: Array, top: Array) -> tuple[list[str], Array]:
    """The columns in the row before, and their fading mean over all rows before; 0 where an episode begins."""
    before = np.vstack([np.zeros((1, len(top))), part.batch.phi[:-1, top]])
    before[part.episodes.first] = 0.0
    old = np.full(len(before), FADING)
    old[part.episodes.first] = 0.0
    bands = np.ones((2, len(before)))
    bands[1, :-1], bands[1, -1] = -old[1:], 0.0
    mean = solve_banded((1, 0), bands, (1 - FADING) * before)
    labels = [f"{names[j]} one step before" for j in top] + [f"{names[j]} in the steps before" for j in top]
    return labels, np.hstack([before, mean])


def _p_values(model: LinearValue, part: Part, C: Array, Z: Array) -> Array:
    """Bonferroni's p-value of every column; 1 for one that the features explain."""
    t = _statistics(model, part, C, Z)
    return np.minimum(2.0 * student.sf(np.abs(t), model.n_episodes - 1) * max(int((t != 0).sum()), 1), 1.0)


def _statistics(model: LinearValue, part: Part, C: Array, Z: Array) -> Array:
    """t_z of every column; 0 for one that the features explain."""
    score = part.batch.ratio * _errors(model, part)
    first, own = part.episodes.first, np.empty((len(part.episodes), len(model.theta)))
    own[:, :-1] = np.add.reduceat(part.batch.phi * score[:, None], first)
    own[:, -1] = part.episodes.total(score)
    Q, R, squares = np.zeros((Z.shape[1], len(model.theta))), np.zeros((Z.shape[1], len(model.theta))), 0.0
    for some in part.blocks():
        phi, change = part.rows(some)
        weighted = part.batch.ratio[some, None] * Z[some]
        Q += weighted.T @ change
        R += Z[some].T @ phi
        squares = squares + np.einsum("ij,ij->j", Z[some], Z[some])
    each = np.add.reduceat(Z * score[:, None], first) - own @ model.inverse.T @ Q.T
    explained = np.einsum("ij,ji->i", R, np.linalg.lstsq(C, R.T, rcond=1e-12)[0])
    novel = squares - explained > REDUNDANT * squares
    spread = np.sqrt(np.einsum("ij,ij->j", each, each))
    return np.where(novel & (spread > 0), each.sum(axis=0) / np.where(spread > 0, spread, 1.0), 0.0)


def _errors(model: LinearValue, part: Part) -> Array:
    """The TD errors, 0 where they are rounding: where nothing is random, that would be the same in every episode."""
    batch, error = part.batch, model.errors(part)
    size = np.abs(batch.reward) + np.abs(model.predict(batch.phi)) + np.abs(model.predict(batch.phi_next))
    return np.where(np.abs(error) > ROUNDING * (size + size.mean()), error, 0.0)
