"""The automatic basis of a log: how far it is used for each policy, which columns matter in it, and how.

How far it is used follows from `selection.shrinkage` and the sums of the first reading. **Which columns matter** is
then a question about columns, not about functions: all functions that a column has a part in are left out, the rest is
fitted again from the same sums, and the held-out error rises, or does not. As a share of what the whole basis explains,

    importance of j = (loss without j − loss) / (loss of a constant − loss)

with the standard error of its mean over the folds. **How** a column matters is its shape: the value against the column,
averaged over what the others are. Its band comes from leaving out groups of episodes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.stats import t as student

from sparsetd.evaluation.estimate import Estimate, Value
from sparsetd.selection.moments import Moments
from sparsetd.selection.shrinkage import LAMBDAS, Groups, losses, ridged, shrunk, widening
from sparsetd.system import Array

if TYPE_CHECKING:
    from sparsetd.evaluation.first_reading import Basis
    from sparsetd.evaluation.reading import Opened
    from sparsetd.features.basis import Basis as RankBasis

MAX_COLUMNS = 30  # columns that are left out in turn: those whose part of the value varies most
MAX_POINTS = 25  # points at which a shape is drawn
FALSE = 0.3  # expected number of unimportant columns that count as important by chance
NEVER = 100.0  # ridge in place of an infinite one, if another policy uses the functions
PLAUSIBLE = 1 / 40  # a ridge might have been chosen instead if this share of the resampled logs chooses it
MATTERS = 2.0  # a column matters if its importance is at least this many standard errors above 0


@dataclass(frozen=True)
class Column:
    """A column of the log: how much it matters and how.

    `importance` is the share of what the value function explains on held-out episodes that is lost without the column,
    with its `standard_error`; `shape` has the value against the column, less its mean, with the ends of its band.
    `weight` is the change of the value per standard deviation, with its interval: half of that between the column's
    16th and 84th percentile where it is curved. `linear` says that the column enters as it came, and `matters` that
    its importance is beyond chance, for as many columns as there are.
    """

    name: str
    importance: float
    standard_error: float
    matters: bool
    linear: bool
    weight: float
    interval: tuple[float, float]
    shape: dict[str, list[float]]
    number: int


@dataclass(frozen=True, eq=False)
class Built:
    """The ridge λ of every policy, the losses it was chosen by, and the sums by group of the first policy.

    `scale` is the unit of every function; `ridges` hold the ridge of every column for every policy, or None where the
    raw columns alone are used. `moves` say how far off the value of every policy may be since λ was chosen.
    """

    lams: tuple[float, ...]
    n_raw: int
    groups: Groups
    penalised: Array
    scale: Array
    ridges: tuple[Array | None, ...]
    moves: tuple[float, ...]

    @classmethod
    def of(cls, every: list[Moments], n_raw: int, each: int, scale: Array) -> Built:
        """Choose λ for every policy from its sums by group; `each` consecutive groups make one fold."""
        fold = np.arange(len(every[0].n_rows)) // each
        found = [Groups(m.A, m.b, m.C.sum(axis=0), m.n_rows, fold) for m in every]
        penalised = np.arange(found[0].b.shape[1]) >= n_raw
        penalised[-1] = False  # the constant
        chosen = [shrunk(groups, penalised) for groups in found]
        lams = tuple(lam for lam, _ in chosen)
        ridges = tuple(None if np.isinf(min(lams)) else _ridge(lam, penalised) for lam in lams)
        moves = tuple(_move(*known, penalised) for known in zip(every, found, chosen, strict=True))
        return cls(lams, n_raw, found[0], penalised, scale, ridges, moves)

    @property
    def is_raw(self) -> bool:
        """Whether no policy uses the functions."""
        return bool(np.isinf(min(self.lams)))

    @property
    def flexible(self) -> Array:
        """The least ridge of all policies, for the model of the logged behaviour."""
        return _ridge(min(self.lams), self.penalised)

    def widened(self, k: int, value: Value) -> Value:
        """The value of the k-th policy, with influences that also cover the choice of λ."""
        error = Estimate.of_influence("", *value).standard_error
        return value[0], value[1] * widening(self.moves[k], error)


def _ridge(lam: float, penalised: Array) -> Array:
    return np.asarray(np.where(penalised, min(lam, NEVER), 0.0))


def _move(moments: Moments, groups: Groups, chosen: tuple[float, Array], penalised: Array) -> float:
    """The largest |v_λ − v| over the λ that may as well have been chosen."""
    lam, shares = chosen
    every, start = np.arange(len(penalised)), moments.start.sum(axis=0) / moments.n_episodes.sum()
    others = [other for other, share in zip(LAMBDAS, shares, strict=True) if share >= PLAUSIBLE]
    values = [float(start @ ridged(*groups.without(), penalised, every, other)) for other in (lam, *others)]
    return max(abs(value - values[0]) for value in values)


def columns_of(log: Opened, basis: Basis, level: float) -> tuple[Column, ...]:
    """The columns of the log by importance for the first policy; empty if the basis was not built here."""
    built, made = basis.built, log.built
    if built is None or made is None:
        return ()
    lam, groups, penalised = built.lams[0], built.groups, built.penalised
    every = np.arange(len(penalised))
    A, b, n = groups.without()
    theta = ridged(A, b, n, penalised, every, lam)
    parts = [np.append(made.owners_[:, j], False) for j in range(built.n_raw)]
    spread = [theta[own] @ (groups.C[np.ix_(own, own)] / n) @ theta[own] for own in parts]
    shown = np.argsort(-np.array(spread), kind="stable")[:MAX_COLUMNS]
    without = [(every[~parts[j]], lam) for j in shown]
    found = losses(groups, penalised, [(every, lam), (every[-1:], lam), *without])[..., 0]
    rise, explained = found[2:] - found[0], float((found[1] - found[0]).mean())
    size = explained if explained > 0 else float(found[1].mean()) or 1.0
    mean, error = rise.mean(axis=1) / abs(size), rise.std(axis=1, ddof=1) / np.sqrt(rise.shape[1]) / abs(size)
    bound = max(MATTERS, float(student.isf(FALSE / max(built.n_raw, 2), rise.shape[1] - 1)))
    curves = _Curves.of(built, theta, np.append(built.scale, 1.0), level)
    columns = [
        Column(
            str(log.names[j]), float(mean[i]), float(error[i]), bool(mean[i] > bound * error[i]), bool(np.isinf(lam)),
            *curves.weight(made, j), curves.shape(made, j), int(j),
        )
        for i, j in enumerate(shown)
    ]  # fmt: skip
    return tuple(sorted(columns, key=lambda column: (-round(column.importance, 6), column.number)))


@dataclass(frozen=True, eq=False)
class _Curves:
    """Functions of one column from θ per unit of every function, with errors from fits without each group."""

    theta: Array
    others: Array
    level: float

    @classmethod
    def of(cls, built: Built, theta: Array, scale: Array, level: float) -> _Curves:
        groups, every = built.groups, np.arange(len(theta))
        A, b, n = groups.without()
        fits = [
            ridged(A - own, b - earned, n - rows, built.penalised, every, built.lams[0])
            for own, earned, rows in zip(groups.A, groups.b, groups.n_rows, strict=True)
        ]
        return cls(theta / scale, np.stack(fits) / scale, level)

    def shape(self, made: RankBasis, j: int) -> dict[str, list[float]]:
        """The value against column j, less its mean over the points shown, with the ends of its band."""
        at = made.values_[j]
        if len(at) > MAX_POINTS:
            at = np.unique(at[np.linspace(4, len(at) - 5, MAX_POINTS).astype(int)])
        rows = made.profile(j, at)
        curve, wide = self._with_error(rows - rows.mean(axis=0))
        found = {"at": at, "value": curve, "low": curve - wide, "high": curve + wide}
        return {name: [float(v) for v in y] for name, y in found.items()}

    def weight(self, made: RankBasis, j: int) -> tuple[float, tuple[float, float]]:
        """The change of the value per standard deviation of column j, with its interval."""
        values, share = made.values_[j], float(made.centre_[j])
        two, size = values[[0, -1]], np.sqrt(max(share * (1 - share), 0.0))
        if len(values) > 2:
            two, size = np.interp([-1.0, 1.0], made.scores_[j], values), 0.5
        low, high = made.profile(j, two)
        change, wide = (float(v[0]) for v in self._with_error(size * (high - low)[None]))
        return change, (change - wide, change + wide)

    def _with_error(self, rows: Array) -> tuple[Array, Array]:
        """θᵀψ of every row and half of its interval, by leaving out groups of episodes."""
        wider = np.column_stack([rows, np.zeros(len(rows))])
        curve, others = wider @ self.theta, wider @ self.others.T
        n = others.shape[1]
        error = np.sqrt((n - 1) / n * ((others - others.mean(axis=1, keepdims=True)) ** 2).sum(axis=1))
        return curve, student.ppf(0.5 + self.level / 2, n - 1) * error
