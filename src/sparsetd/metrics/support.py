"""Were the right features selected?"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sparsetd.system import Array


class SupportScores(NamedTuple):
    precision: float
    recall: float
    f1: float


def support_scores(selected: Array, relevant: Array) -> SupportScores:
    """precision = hits/|selected|, recall = hits/|relevant|, F1 = 2 hits/(|selected| + |relevant|).

    Both arguments are masks or coefficients (non-zero means selected: no threshold is applied). 0/0 counts as 1:
    nothing was to be found, and nothing wrong was.
    """
    chosen, true = np.asarray(selected) != 0, np.asarray(relevant) != 0
    if chosen.shape != true.shape:
        raise ValueError(f"selected has shape {chosen.shape} but relevant has {true.shape}: pass one entry per feature")
    hits, n_chosen, n_true = int((chosen & true).sum()), int(chosen.sum()), int(true.sum())
    return SupportScores(_share(hits, n_chosen), _share(hits, n_true), _share(2 * hits, n_chosen + n_true))


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 1.0
