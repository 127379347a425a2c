"""Labels of a chart: apart from one another, inside, and near their lines."""

from __future__ import annotations

import numpy as np
import pytest

from sparsetd.report.charts import spread


@pytest.mark.parametrize(
    ("wanted", "places"),
    [
        ([10.0, 50.0, 90.0], [10.0, 50.0, 90.0]),
        ([50.0, 50.0, 50.0], [38.0, 50.0, 62.0]),
        ([10.0, 50.0, 52.0], [10.0, 45.0, 57.0]),
        ([99.0, 100.0], [88.0, 100.0]),
        ([0.0, 0.0], [0.0, 12.0]),
    ],
)
def test_labels_are_moved_apart_as_little_as_can_be(wanted: list[float], places: list[float]) -> None:
    assert spread(wanted, 12.0, 0.0, 100.0) == pytest.approx(places)


def test_more_labels_than_there_is_room_for_keep_their_order() -> None:
    assert np.diff(spread([5.0] * 20, 12.0, 0.0, 100.0)) == pytest.approx(12.0)
