"""`inspect` finds what was planted, and nothing in a clean log."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from sparsetd.logs import Transitions, inspect, prepare, read
from sparsetd.logs.suspicions import suspected


def simulate(*, limit: int = 25, seed: int = 0, n_episodes: int = 120) -> dict[str, Any]:
    """A noisy walk that leaves (−3, 3) for good or is cut off at `limit`; two actions; probabilities logged."""
    rng = np.random.default_rng(seed)
    rows = []
    for episode in range(n_episodes):
        x = rng.normal(size=2) * 0.5
        for step in range(limit):
            mu = 0.5 + 0.3 * np.tanh(x[0])
            a = int(rng.random() < mu)
            successor = x + rng.normal(size=2) * 0.6 + 0.3 * (2 * a - 1)
            terminated = bool(np.abs(successor[0]) > 3)
            p, q = (mu, 0.6) if a else (1 - mu, 0.4)
            reward = float(x[0] - 2 * x[1] + a + 0.1 * rng.normal())
            rows.append((episode, step, *x, *successor, a, reward, terminated, step == limit - 1, p, q))
            x = successor
            if terminated:
                break
    names = (
        "episode step obs_x obs_y next_obs_x next_obs_y action reward terminated truncated behavior_prob target_prob"
    )
    return {k: np.array(v) for k, v in zip(names.split(), zip(*rows, strict=True), strict=True)}


def suspicious(log: dict[str, Any], **roles: Any) -> str:
    report = inspect(log, **roles)
    assert report.error is None
    return " ".join(report.suspicious)


def test_a_clean_log_raises_no_suspicion() -> None:
    for seed in range(5):
        report = inspect(simulate(seed=seed))
        assert report.ok, report.suspicious
        assert report.missing == ()
    assert report.n_episodes == 120
    assert "Nothing." in str(report)


def shift_rewards(log: dict[str, Any], by: int) -> dict[str, Any]:
    shifted = np.roll(log["reward"], by)
    if by == 1:
        shifted[log["step"] == 0] = 0.0
    return {**log, "reward": shifted}


def unended(log: dict[str, Any]) -> dict[str, Any]:
    return {name: 0 * log["step"] for name in ("terminated", "truncated")}


def earning_by_action(log: dict[str, Any]) -> dict[str, Any]:
    """Rewards of which neither the state nor the action alone says anything: x for one action, −x for the other."""
    return {**log, "reward": log["obs_x"] * (2 * log["action"] - 1)}


def small_and_large(log: dict[str, Any]) -> dict[str, Any]:
    units = {"x": 1e-3, "y": 1e4}
    return {f"{kind}_{name}": unit * log[f"{kind}_x"] for name, unit in units.items() for kind in ("obs", "next_obs")}


PLANTED: list[tuple[Callable[[dict[str, Any]], dict[str, Any]], str]] = [
    (lambda c: {**c, "terminated": c["terminated"] | c["truncated"], "truncated": 0 * c["step"]}, "exactly 25 rows"),
    (lambda c: shift_rewards(c, 1), "the first reward of all 120 episodes is 0"),
    (lambda c: shift_rewards(c, 1), "look shifted by one row"),
    (lambda c: shift_rewards(c, -1), "look shifted by one row"),
    (lambda c: {**c, "target_prob": np.minimum(1, 2 * c["target_prob"])}, "average 1.82 where they should average 1"),
    (lambda c: {**c, "behavior_prob": 0 * c["reward"] + 1}, "`behavior_prob` is 1 in every row although 2"),
    (lambda c: {**c, "behavior_prob": c["behavior_prob"] ** 4}, "1/`behavior_prob` averages"),
    (lambda c: {**c, "target_prob": 0.0 * c["reward"]}, "every ratio target/behaviour is 0"),
    (
        lambda c: {**c, "target_prob": (np.arange(len(c["step"])) % 40 == 0) * 0.5},
        "a few rows carry nearly all the weight",
    ),
    (lambda c: {**c, "obs_z": 0 * c["reward"], "next_obs_z": 0 * c["reward"]}, "never change (the first is z)"),
    (lambda c: {**c, **small_and_large(c)}, "differ in scale by a factor of 1e+07"),
    (lambda c: {**c, "reward": 0 * c["reward"]}, "the reward is 0 in every row"),
    (lambda c: {**c, "behavior_prob": 0 * c["reward"] + 1}, "never logged, or some probabilities are not those of"),
    (lambda c: {**c, "action": 1.0 * c["action"]}, "whole numbers written as decimals (1.0), which count as"),
    (lambda c: {**c, "episode": 0 * c["step"], "step": np.arange(len(c["step"])), **unended(c)}, "are one episode"),
    (lambda c: shift_rewards(earning_by_action(c), -1), "look shifted by one row"),
    (lambda c: {**c, "next_obs_x": np.roll(c["next_obs_x"], 1)}, "is not the observation of the next row"),
]


@pytest.mark.parametrize(("plant", "message"), PLANTED, ids=range(len(PLANTED)))
def test_what_was_planted_is_found(plant: Callable[[dict[str, Any]], dict[str, Any]], message: str) -> None:
    assert message in suspicious(plant(simulate()))


def test_one_right_mark_does_not_hide_the_wrong_ones() -> None:
    log = simulate()
    cut = np.flatnonzero(log["truncated"])[1:]
    log["terminated"][cut], log["truncated"][cut] = True, False
    assert "exactly 25 rows" in suspicious(log)
    log = simulate()
    assert "exactly 25 rows" not in suspicious(log)


def test_an_auto_reset_is_found() -> None:
    log = simulate(limit=10)
    last = np.flatnonzero(log["truncated"] & ~log["terminated"])
    last = last[last + 1 < len(log["step"])]
    for name in ("obs_x", "obs_y"):
        log[f"next_{name}"][last] = log[name][last + 1]
    assert "first observation of the next episode" in suspicious(log)


def test_skipped_steps_are_found() -> None:
    log = simulate()
    keep = np.ones(len(log["step"]), bool)
    keep[np.flatnonzero((log["step"] > 2) & (log["step"] < 8))[::30]] = False
    rows = {k: v[keep] for k, v in log.items() if not k.startswith("next_")}
    assert "do not follow the step before them by 1" in suspicious(rows)


def test_duplicated_rows_are_found() -> None:
    log = simulate()
    inside = np.flatnonzero(~log["terminated"] & ~log["truncated"])[[5, 100]]
    doubled = np.sort(np.concatenate([np.arange(len(log["step"])), inside]))
    rows = {k: v[doubled] for k, v in log.items() if k != "step"}
    assert "2 rows repeat the row before them" in suspicious(rows)


def test_copied_episodes_are_found_unless_states_are_few() -> None:
    log = simulate()
    n = int(log["episode"].max()) + 1
    twice = {k: np.concatenate([v, v + n if k == "episode" else v]) for k, v in log.items()}
    assert "117 of 234 episodes have the rewards and the states of another one" in suspicious(twice)  # six are short
    assert "of another one" not in suspicious(log)
    few = {k: np.sign(v) if "obs" in k or k == "reward" else v for k, v in twice.items()}
    assert "of another one" not in suspicious(few)


def test_geometric_episode_lengths_are_no_time_limit() -> None:
    rng = np.random.default_rng(0)
    terminated = rng.random(4000) < 0.1
    x = rng.normal(size=4001)
    t = Transitions.from_arrays(x[:-1], rng.normal(size=4000), x[1:], terminated=terminated)
    assert not any("time limit" in sentence for sentence in suspected(t).values())


def test_episodes_of_two_to_five_rows_are_no_time_limit() -> None:
    length = np.tile([2, 3, 4, 5], 100)
    terminated = np.zeros(length.sum(), dtype=bool)
    terminated[np.cumsum(length) - 1] = True
    x = np.random.default_rng(0).normal(size=len(terminated) + 1)
    t = Transitions.from_arrays(x[:-1], x[1:], x[1:], terminated=terminated)
    assert not any("time limit" in sentence for sentence in suspected(t).values())


def test_what_is_missing_is_said_with_its_consequence() -> None:
    log = {"obs": np.arange(5.0), "reward": np.arange(5.0), "done": [0, 0, 0, 0, 1]}
    report = inspect(log)
    assert len(report.missing) == 5
    words = str(report)
    assert "'done' is taken as terminated" in words
    assert "the next row of the same episode is used" in words
    only_behaviour = inspect({**log, "action": [0, 1, 0, 1, 0], "behavior_prob": [0.5] * 5})
    assert "the target policy must be given" in str(only_behaviour)


def test_the_report_names_the_column_of_every_role() -> None:
    log = {"obs": [0.0, 1], "r": [0, 1], "a": [0, 1], "terminals": [0, 1], "propensity": [0.5, 0.5], "step": [3, 4]}
    told = "'a' as action, 'terminals' as terminated, 'step', 'propensity' as behavior_prob."
    assert told in str(inspect(log))
    assert "Other columns" not in str(inspect({"obs": [0.0, 1], "r": [0, 1], "next_obs": [0, 1]}))


def test_rows_sorted_by_episode_alone_are_not_said_to_be_sorted_by_step() -> None:
    log = {"obs": np.arange(4.0), "reward": np.arange(4.0), "episode": [0, 1, 0, 1]}
    assert "sorted by episode; within an episode they keep their order." in str(inspect(log))


def test_the_report_says_what_was_sorted_dropped_and_ignored(tmp_path: Path) -> None:
    log = simulate(limit=6)
    rows = {k: v[::-1] for k, v in log.items() if not k.startswith("next_")}
    path = tmp_path / "log.csv"
    pd.DataFrame({**rows, "note": "x"}).to_csv(path, index=False)
    report = inspect(path)
    words = str(report)
    assert "sorted by episode and step" in words
    assert "without a known successor" in words
    assert "Ignored: 'note'" in words
    assert words.startswith(str(path))
    again = json.loads(json.dumps(report.to_dict()))
    assert again["columns"]["reward"] == "reward"
    assert again["n_rows"] == report.n_rows


def test_only_the_first_rows_of_a_long_file_are_looked_at(tmp_path: Path) -> None:
    n = 140_000
    pd.DataFrame({"obs_x": np.arange(n) % 7, "reward": np.arange(n) % 3}).to_parquet(tmp_path / "long.parquet")
    report = inspect(tmp_path / "long.parquet", max_rows=1000)
    assert report.n_rows < 70_000
    assert "Only the first 65,536 rows" in str(report)


def test_continuous_actions_are_described() -> None:
    report = inspect({"obs": [0.0, 1], "reward": [0, 1], "action": [[0.1, 0.2], [0.3, 0.4]], "done": [0, 1]})
    assert "Actions of 2 numbers" in str(report)


@pytest.mark.parametrize(("n", "found"), [(1, []), (6, ["constant_reward"])])
def test_episodes_of_one_row_are_not_suspicious(n: int, found: list[str]) -> None:
    bare = Transitions.from_arrays(np.arange(n), np.zeros(n), np.arange(n), start=np.ones(n))
    full = replace(bare, action=np.zeros(n, dtype=int), behavior_prob=np.ones(n), target_prob=np.ones(n))
    for log in (bare, full):
        assert list(suspected(log)) == found


def test_what_prepare_would_have_repaired_is_found_in_a_log() -> None:
    rng = np.random.default_rng(0)
    log = {
        "episode": np.repeat(np.arange(40), 3),
        "obs_visit time": np.tile([1.0, 2.0, 3.0], 40),
        "obs_lactate": rng.normal(size=120),
        "action": rng.integers(2, size=120),
        "reward": np.tile([0.0, 0.0, 1.0], 40) * np.repeat(rng.integers(2, size=40), 3),
        "terminated": np.tile([False, False, True], 40),
    }
    clean = inspect(log)
    assert clean.ok, clean.suspicious
    assert any("--gamma 1" in sentence for sentence in clean.understood)
    turned = dict(log, **{"obs_visit time": np.tile([2.0, 1.0, 3.0], 40)})
    assert "`visit time` goes back within episodes in 40 rows, and 0 rows are copies" in suspicious(turned)
    everywhere = dict(log, reward=np.repeat(rng.integers(2, size=40), 3))
    assert "counts once for every row" in suspicious(everywhere)
    assert not any("--gamma 1" in sentence for sentence in inspect(everywhere).understood)


def test_names_that_differ_in_case_only_are_found() -> None:
    raw = {"x": [1.0, 2, 3, 4], "ward": ["A", "B", "a", "b"], "arm": ["no", "No", "yes", "no"], "reward": [0, 1, 0, 1]}
    kept = prepare(raw, bandit=True, keep=["names"])
    found = list(suspected(kept.transitions).values())
    assert any("'No' and 'no' differ in case" in sentence for sentence in found)
    joined = list(suspected(prepare(raw, bandit=True).transitions).values())
    assert not any("differ in case" in sentence for sentence in joined)


def test_the_bias_of_rows_without_a_successor_is_said_as_it_is() -> None:
    """Episodes that end with probability 0.2 in every row are cut after five rows."""
    rng = np.random.default_rng(0)
    ends = rng.random((4000, 5)) < 0.2
    seen = np.cumsum(ends, axis=1) - ends == 0
    episode = np.repeat(np.arange(4000), 5).reshape(ends.shape)
    columns = {"episode": episode[seen], "obs_x": np.ones(seen.sum()), "reward": np.ones(seen.sum())}
    table = columns | {"terminated": ends[seen]}
    kept, all_rows = read(table), ends[seen]
    excess = kept.terminated.mean() / all_rows.mean() - 1
    assert 0.08 < excess < 0.13
    assert abs(all_rows.mean() - 0.2) < 0.01
    assert any(f"ends seem {excess:.1%} more frequent than they are" in line for line in inspect(table).understood)
    whole = table | {"next_obs_x": np.ones(seen.sum())}
    assert read(whole).terminated.mean() == all_rows.mean()
    assert not any("more frequent" in line for line in inspect(whole).understood)


def test_two_measurements_whose_names_differ_in_case_are_no_spellings_to_join() -> None:
    log = simulate()
    both = {
        "obs_spo2": log["obs_x"],
        "obs_SpO2": log["obs_y"],
        "reward": log["reward"],
        "terminated": log["terminated"],
    }
    assert "differ in case" not in suspicious(both)
