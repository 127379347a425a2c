"""An operator without arguments is the method as its paper prints it: equal steps, no traces, β = 1 for TDRC."""

from __future__ import annotations

import numpy as np
import pytest
from reference import systems

from sparsetd.operators import OPERATORS
from sparsetd.system import Batch, mean_system


@pytest.mark.parametrize("name", OPERATORS)
def test_the_default_is_the_printed_method(name: str) -> None:
    rng = np.random.default_rng(0)
    phi, phi_next = rng.normal(size=(2, 20, 3))
    reward, discount, ratio = rng.normal(size=20), rng.uniform(0.5, 1.0, 20), rng.uniform(0.0, 2.0, 20)
    batch = Batch(phi, phi_next, reward, discount, ratio, np.arange(20) % 5 == 0, np.ones(20))
    printed = systems.mean(systems.stream(name, phi, phi_next, reward, discount, ratio, batch.start))
    table = OPERATORS[name]()
    assert table.name == name
    for ours, theirs in zip(mean_system(table, batch), printed, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-12)
