"""An evaluation that was stopped goes on with the policy as it is now, not as it was."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sparsetd import evaluate
from sparsetd.logs import engines
from sparsetd.logs.sharding import shard

SHARE = 0.9


def helper() -> float:
    return SHARE


def policy(s: Any) -> Any:
    """Its own code never changes; a global of its module does."""
    return np.column_stack([np.full(len(s), 1 - helper()), np.full(len(s), helper())])


@pytest.fixture
def parts(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    n, of = 400, np.repeat(np.arange(100), 4)
    s, action = rng.normal(size=(n, 2)), rng.integers(0, 2, n)
    last = np.append(of[1:] != of[:-1], True)
    log = {"episode": of, "obs_a": s[:, 0], "obs_b": s[:, 1], "action": action, "behavior_prob": np.full(n, 0.5)}
    shard([{**log, "reward": action + 0.1 * s[:, 0], "terminated": last}], tmp_path / "parts", n_shards=4)
    return tmp_path / "parts"


def test_a_policy_that_was_edited_between_two_runs_is_another_policy(
    parts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def value(**more: Any) -> float:
        return float(evaluate(parts, policy, gamma=0.9, n_resamples=0, **more).value)

    kept, real, calls = tmp_path / "kept", engines.worked, []

    def stopped(*args: Any) -> Any:
        calls.append(1)
        if len(calls) == 7:
            raise KeyboardInterrupt
        return real(*args)

    monkeypatch.setattr(engines, "worked", stopped)
    with pytest.raises(KeyboardInterrupt):
        value(checkpoint=str(kept))
    monkeypatch.setattr(engines, "worked", real)
    assert len(list(kept.iterdir())) == 6
    old = value()
    monkeypatch.setitem(globals(), "SHARE", 0.2)
    new = value()
    assert abs(new - old) > 1
    assert value(checkpoint=str(kept)) == new
    assert not kept.exists()
