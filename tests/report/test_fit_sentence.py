"""The sentence on how a fit ended: true for whatever was fitted, at any scale of the rewards."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from sparsetd.evaluation.pictures import sentence


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ({"n_iter_": 1600}, "SimpleNamespace: converged after 1,600 transitions."),
        (
            {"n_iter_": 1, "history_": {"relative_gap": [1.0, 2e-16]}, "dual_gap_": 0.014},
            "SimpleNamespace: converged after 1 iteration. "
            "More computing time would not change the answer: "
            "the objective is at most 2e-16 of its size above its minimum.",
        ),
        (
            {"n_iter_": 2, "history_": {"relative_gap": [0.5]}, "status_": "not_converged"},
            "SimpleNamespace: not converged after 2 iterations. "
            "The fit is not finished: the objective is at most 0.5 of its size above its minimum.",
        ),
    ],
)
def test_how_the_fit_ended(model: dict, words: str) -> None:
    assert sentence(SimpleNamespace(**{"status_": "converged", **model})) == words
