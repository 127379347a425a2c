"""The demo's picture: the few relevant features must not hide in a corner of it."""

from __future__ import annotations

import pytest

from sparsetd.cli import demo

figure = pytest.importorskip("matplotlib.figure")


def test_the_relevant_features_take_a_third_of_the_axis() -> None:
    axes = figure.Figure().subplots(1, demo.PANELS)
    demo.plot(*demo.try_methods(samples=100, seed=0, passes=1), axes)
    ends = [axes[1].transLimits.transform(axes[1].transScale.transform((x, 0.0)))[0] for x in (1, 5, 100)]
    assert ends[1] - ends[0] > (ends[2] - ends[0]) / 3
    assert [tick.get_text() for tick in axes[1].get_xticklabels()] == ["1", "5", "100"]
