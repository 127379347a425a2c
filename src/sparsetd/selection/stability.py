"""Which features would be selected again? (Meinshausen & Bühlmann 2010; complementary halves, Shah & Samworth 2013.)

Half of the episodes are drawn again and again; on each half the path is followed until q features have entered. The
selection probability of a feature is the share of halves that selected it, and with threshold τ > ½

    expected number of irrelevant features with probability ≥ τ   ≤   q² / ((2τ − 1) d).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sparsetd import plots
from sparsetd._tools.frames import Framed, frame
from sparsetd._tools.lazy_names import renamed
from sparsetd._tools.progress import track
from sparsetd._tools.workers import delayed, in_processes
from sparsetd.estimators.sparse_td import SparseTD
from sparsetd.selection.episodes import clusters, halves
from sparsetd.selection.path import model_and_rows
from sparsetd.system import Array, Batch


@dataclass(frozen=True, eq=False)
class StabilitySelection(Framed):
    """Hold how often every feature was selected, the threshold, and the bound on false selections.

    See also `stability_selection`: computes it.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsetd.selection import StabilitySelection
    >>> found = StabilitySelection(np.array([0.9, 0.2]), np.array(['lactate', 'age']), 0.75, 1.0)
    >>> found
    StabilitySelection(1 of 2 features are stable at 0.75; most often chosen: lactate 90%, age 20%)
    >>> found.support
    array([ True, False])
    """

    probabilities: Array
    names: Array
    threshold: float
    false_selections: float

    @property
    def support(self) -> Array:
        return np.asarray(self.probabilities >= self.threshold)

    def __repr__(self) -> str:
        found = ", ".join(f"{name} {share:.0%}" for name, share in self.table()[:8])
        stable = f"{int(self.support.sum())} of {len(self.names)} features are stable at {self.threshold:g}"
        return f"StabilitySelection({stable}; most often chosen: {found or 'none'})"

    def plot(self, ax: Any = None) -> Any:
        """Selection frequencies of the twenty features chosen most often; returns the axes."""
        return plots.frequencies(self.table()[:20], self.threshold, ax)

    def to_frame(self) -> Any:
        """Feature and selection frequency, most stable first, as a pandas (or polars) frame."""
        names, shares = zip(*self.table(), strict=True) if self.table() else ((), ())
        return frame({"feature": list(names), "frequency": list(shares)})

    def table(self) -> list[tuple[str, float]]:
        """Names and probabilities, most stable first; features that were never selected are left out."""
        order = np.argsort(-self.probabilities, kind="stable")
        return [(str(self.names[j]), float(self.probabilities[j])) for j in order if self.probabilities[j] > 0]


@renamed
def stability_selection(
    X: Any,
    y: Any,
    X_next: Any = None,
    *,
    threshold: float = 0.75,
    max_false: float = 1.0,
    n_resamples: int = 50,
    random_state: int | None = None,
    n_jobs: int | None = None,
    **parameters: Any,
) -> StabilitySelection:
    """Return how often `SparseTD` selects each feature on random halves of the episodes: which ones to rely on.

    Parameters
    ----------
    X, y, X_next
        The rows, as in `SparseTD.fit`.
    threshold : float
        Selection probability τ, above ½, from which a feature counts as stable.
    max_false : float
        Bound on the expected number of irrelevant features among the stable ones; it determines q.
    n_resamples : int
        Pairs of complementary halves: 2·n_resamples fits.
    random_state, n_jobs
        Seed and joblib workers. The result does not depend on n_jobs.
    **parameters
        `ratio`, `discount`, `start` and `interest` of the rows, and parameters of `SparseTD` except rho_theta and
        refit.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsetd.selection import stability_selection
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(400, 10))
    >>> y = 2.0 * X[:, 3] - X[:, 5] + 0.1 * rng.normal(size=400)
    >>> found = stability_selection(X, y, gamma=0.0, n_resamples=5, random_state=0)
    >>> [name for name, share in found.table() if share == 1.0]
    ['x3', 'x5']
    """
    model, rows = model_and_rows(X, y, X_next, parameters)
    batch, _ = model.triple()[2].even(rows)
    weights = drawn_halves(clusters(batch.start), n_resamples, np.random.default_rng(random_state))
    names = getattr(model, "feature_names_in_", np.array([f"x{j}" for j in range(model.n_features_in_)]))
    return of_halves(model, [(batch, weight) for weight in weights], threshold, max_false, n_jobs, names)


def of_halves(
    model: SparseTD,
    rows: Sequence[tuple[Batch, Array | None]],
    threshold: float,
    max_false: float,
    n_jobs: int | None,
    names: Array,
) -> StabilitySelection:
    """The selection from the rows of every half, given alone or as all rows with the weights of the half."""
    if not 0.5 < threshold <= 1.0:
        raise ValueError(f"threshold={threshold} must be above 0.5 and at most 1")
    d = model.n_features_in_
    q = max(int(np.sqrt(max_false * (2 * threshold - 1) * d)), 1)
    fits = (delayed(first_features)(model, batch, weight, q) for batch, weight in rows)
    chosen = in_processes(fits, n_jobs)
    probabilities = np.mean(list(track(chosen, "halves", len(rows))), axis=0)[:d]
    return StabilitySelection(probabilities, names, threshold, q**2 / ((2 * threshold - 1) * d))


def first_features(model: SparseTD, batch: Batch, weight: Array | None, q: int) -> Array:
    """A mask of the features in the last support of the path that has at most q penalised ones."""
    table, penalty, solver = model.triple()
    family = solver.family(batch, table, penalty, model._factor(batch.n_features), weight)
    return np.asarray(family.last_support(q, 50, 1e-2))


def drawn_halves(cluster: Array, n: int, rng: np.random.Generator) -> list[Array]:
    """Row weights (0 or 1) of n random halves of the clusters, each followed by its complement."""
    size = int(cluster.max()) + 1
    if size < 2:
        raise ValueError("stability selection draws halves of the log, but it has 1 row; pass more rows")
    return [side[cluster].astype(np.float64) for half in halves(size, n, rng) for side in (half, ~half)]
