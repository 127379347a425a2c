"""The features that matter, the features that the value is computed from, and how firmly the first were chosen.

Which features matter and which the value needs are different questions. A feature that is left out of a *report* costs
the reader little; left out of the *value* it may cost everything. So the value is computed from all features if there
are enough rows. If not, double selection chooses the features that matter for θ (Aθ = b), and those that matter for the
dual u (Aᵀu = c), which says through which features the start states are reached. A feature that only one of the two
selections misses does no harm to first order.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from sparsetd._tools.progress import track
from sparsetd.evaluation.reading import Ask, Part, Parts, Several, answer
from sparsetd.selection.elimination import MeanSystem, drawn_path, select, solved
from sparsetd.selection.episodes import halves
from sparsetd.selection.moments import Moments
from sparsetd.selection.path import SparsePath
from sparsetd.selection.sparse_td_select import SparseTDSelect, dual_support
from sparsetd.system import Array, Batch

Omegas = tuple[Array, Array]  # Ω of the scores row by row, and of their sums over clusters
ROWS_EACH = 10  # rows that every feature of the value needs
FORMED = 1_500  # most features whose products are all summed: the matrix takes 18 MB for each group
MAX_RIVALS = 200  # columns that compete in the resampled halves
MAX_LINES, MAX_POINTS = 60, 400  # the most that a picture shows
ENDED = {
    "converged": "converged",
    "finished": "took all rows",
    "not_converged": "did not converge",
    "diverged": "diverged",
}


@dataclass(frozen=True, eq=False)
class Choice:
    """Columns of φ that matter, the fitted estimator (None: chosen on the sums), and its penalty if it has one.

    `draw` makes the path for a picture, only when it is asked for: it takes a tenth of the time of an answer.
    """

    support: Array
    model: Any = None
    draw: Callable[[], SparsePath | None] | None = None
    penalty: float = np.nan

    @cached_property
    def path(self) -> SparsePath | None:
        return None if self.draw is None else self.draw()


def affordable(n_rows: int) -> int:
    """The number of dense features up to which the value can be computed from all of them."""
    return min(n_rows // ROWS_EACH, FORMED)


def value_columns(batch: Batch, support: Array) -> Array:
    """The columns that the value is computed from."""
    if not batch.is_sparse and batch.n_features <= affordable(len(batch)):
        return np.arange(batch.n_features)
    first = np.flatnonzero(batch.start)
    # The dual may add half as many columns as the rows afford; the rest of the room is the support's.
    return np.union1d(support, dual_support(batch, batch.phi[first].mean(axis=0), len(batch) // (2 * ROWS_EACH)))


def choose_on(
    rows: Part | Parts,
    moments: Moments,
    posed: Callable[[Ask], Ask] = lambda ask: ask.under(0),
    first: Omegas | None = None,
) -> Choice:
    """Elimination on the sums of all features of a log.

    `posed` restricts an ask to the policy and the columns of the sums. `first` is Ω of the reward regression on all
    columns, if it is known already.
    """
    system = mean_system(moments)

    def asked(of_reward: bool, theta: Array, columns: Array, n_by_row: int) -> Omegas:
        if first is not None and of_reward and n_by_row == len(system.b):  # only the first ask is about all
            return first
        ask = Ask(scores, (theta, columns, n_by_row, system.n_rows, of_reward))
        by_row, clustered = answer(rows, scores=posed(ask)).scores.values
        return by_row, clustered

    kept = select(system, partial(asked, False), partial(asked, True))
    support = kept[kept < len(system.b) - 1]  # the constant is the last column and no feature
    return Choice(support, None, partial(drawn_path, system, support))


def choose(batch: Batch, estimator: Any) -> Choice:
    """Fit a copy of `estimator` and read off its support."""
    columns = {"ratio": batch.ratio, "discount": batch.discount, "start": batch.start}
    with warnings.catch_warnings():
        # An empty support is an answer here (the value is then a constant), not a mistake.
        for empty in ("set every coefficient to zero", "selected no feature"):
            warnings.filterwarnings("ignore", f"(?s).*{empty}", ConvergenceWarning)
        model = clone(estimator).fit(batch.phi, batch.reward, batch.phi_next, **columns)
    support = np.flatnonzero(model.support_)
    if not isinstance(model, SparseTDSelect):
        return Choice(support, model)
    # A picture of the path needs little beyond the chosen penalty, and weak penalties cost the most time.
    rhos = model.rhos_[model.rhos_ >= model.rho_theta_ / 3.0]
    return Choice(support, model, partial(model.path, rhos), model.rho_theta_)


def mean_system(moments: Moments, n_candidates: int | None = None) -> MeanSystem:
    """The sums divided by the number of rows. The constant is the last column and is never eliminated."""
    total = moments.total()
    n, p = int(total.n_rows[0]), total.b.shape[1]
    free = np.arange(p) == p - 1
    counts = (n, int(total.n_clusters[0]), p - 1 if n_candidates is None else n_candidates)
    return MeanSystem(total.A[0] / n, total.b[0] / n, total.C[0] / n, free, *counts)


def scores(part: Part, theta: Array, columns: Array, n_by_row: int, n_rows: int, of_reward: bool) -> Several:
    """Ω = Σ s sᵀ/N for s = ρδφ or s = φ(ρr − φᵀθ): row by row on the first columns, and summed over clusters on all."""
    every = len(columns) == part.states.shape[1] and np.array_equal(columns, np.arange(len(columns)))
    states, changes = (rows if every else rows[:, columns] for rows in (part.states, part.changes))
    earned = part.batch.ratio * part.batch.reward
    error = earned - (states @ theta if of_reward else part.batch.ratio * (changes @ theta))
    s = states * error[:, None]
    few, summed = s[:, :n_by_row], part.episodes.rows_by_cluster(s)
    return Several([few.T @ few / n_rows, summed.T @ summed / n_rows])


def full_scores(moments: Moments, kinds: Sequence[str] = ("reward", "td")) -> dict[str, Ask]:
    """Asks for Ω of all columns at the fit to all of them: for the reward regression and for the TD system."""
    system = mean_system(moments)
    every, left = np.arange(len(system.b)), {"reward": system.C, "td": system.A}
    given = (every, len(every), system.n_rows)
    return {kind: Ask(scores, (solved(left[kind], system.b), *given, kind == "reward")) for kind in kinds}


def frequencies(
    groups: Moments, omegas: Mapping[str, Omegas], n_candidates: int, n_resamples: int, random_state: int
) -> Array:
    """The share of random halves of the log in which each column is kept.

    A half is made of groups of clusters, whose sums are known. It selects as `choose_on` does, but with Ω of the whole
    log, so that no row is read again.
    """
    kept = np.zeros(groups.b.shape[1])
    drawn = halves(len(groups.n_rows), n_resamples, np.random.default_rng(random_state))

    def known(kind: str, _: Array, columns: Array, n_by_row: int) -> Omegas:
        by_row, clustered = omegas[kind]
        first = columns[:n_by_row]
        return by_row[np.ix_(first, first)], clustered[np.ix_(columns, columns)]

    for half in track(drawn, "halves", n_resamples):
        system = mean_system(groups.total(half), n_candidates)
        kept[select(system, partial(known, "td"), partial(known, "reward"))] += 1.0
    return kept[:-1] / n_resamples


def rivals(n_rows: int, n_features: int, dense: bool, choice: Choice) -> Array:
    """The columns that compete in the halves: all of them if they are few, else those that enter the path early."""
    if n_features <= MAX_RIVALS and dense:
        return np.arange(n_features)
    if choice.path is None:
        return choice.support
    size = np.abs(choice.path.coefs).max(axis=1)
    near = np.argsort(-size, kind="stable")[: min(MAX_RIVALS, n_rows // ROWS_EACH, int((size > 0).sum()))]
    return np.union1d(near, choice.support)


def path_picture(choice: Choice, names: Array) -> dict[str, Any] | None:
    """Weights along the penalties, for the features that matter most; None without a path."""
    if choice.path is None or len(choice.path.rhos) < 2:
        return None
    coefs = choice.path.coefs
    size = np.abs(coefs).max(axis=1)
    shown = np.argsort(-size, kind="stable")[: min(MAX_LINES, int((size > 0).sum()))]
    lines = {str(names[j]): coefs[j].tolist() for j in shown}
    chosen = choice.path.rhos[-1] if np.isnan(choice.penalty) else choice.penalty
    penalty, entered = choice.path.rhos.tolist(), choice.path.n_active.tolist()
    return {"penalty": penalty, "n_features": entered, "weights": lines, "chosen": float(chosen)}


def convergence_picture(model: Any) -> dict[str, Any] | None:
    """The certified gap of the last iterate against the iteration; None unless the solver kept it."""
    gap = getattr(model, "history_", {}).get("relative_gap")
    if not gap:
        return None
    keep = np.unique(np.linspace(0, len(gap) - 1, min(len(gap), MAX_POINTS)).astype(int))
    return {"iteration": keep.tolist(), "gap": [float(gap[i]) for i in keep]}


def fit_sentence(choice: Choice, n_candidates: int, n_used: int) -> str:
    """A sentence about the features behind the value, and about how those that matter were chosen."""
    used = f"all {n_used:,}" if n_used == n_candidates else f"{n_used:,} of {n_candidates:,}"
    words = f"The value is computed from {used} features."
    if choice.model is None:
        return f"{words} Those that are kept were chosen by elimination."
    model, gap = choice.model, getattr(choice.model, "history_", {}).get("relative_gap")
    words += (
        f" Those that are kept were chosen by {type(model).__name__}, which {ENDED.get(model.status_, model.status_)}."
    )
    if gap:
        done = "More computing time would not change the answer" if gap[-1] < 1e-4 else "The fit is not finished"
        words += f" {done}: the objective is at most {gap[-1]:.1g} of its size above its minimum."
    return words
