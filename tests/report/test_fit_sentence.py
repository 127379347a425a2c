"""The sentence on what the value was computed from and how the features were chosen, whatever chose them."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from sparsetd.evaluation.choice import Choice
from sparsetd.evaluation.choice import fit_sentence as sentence


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ({"status_": "finished"}, "which took all rows."),
        (
            {"status_": "converged", "history_": {"relative_gap": [1.0, 2e-16]}},
            "which converged. "
            "More computing time would not change the answer: "
            "the objective is at most 2e-16 of its size above its minimum.",
        ),
        (
            {"status_": "not_converged", "history_": {"relative_gap": [0.5]}},
            "which did not converge. "
            "The fit is not finished: the objective is at most 0.5 of its size above its minimum.",
        ),
    ],
)
def test_how_the_choice_ended(model: dict, words: str) -> None:
    found = sentence(Choice(np.arange(2), SimpleNamespace(**model)), 7, 7)
    assert (
        found
        == f"The value is computed from all 7 features. Those that are kept were chosen by SimpleNamespace, {words}"
    )


def test_how_many_features_the_value_rests_on() -> None:
    chosen = Choice(np.arange(2))
    ending = "Those that are kept were chosen by elimination."
    assert sentence(chosen, 1047, 1047) == f"The value is computed from all 1,047 features. {ending}"
    assert sentence(chosen, 12047, 1200) == f"The value is computed from 1,200 of 12,047 features. {ending}"
