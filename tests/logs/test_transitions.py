"""`Transitions`: columns in, checked; slicing, joining, episodes and returns."""

from __future__ import annotations

import dataclasses
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest

from sparsetd.logs import Transitions, concatenate, read


def walk(n: int = 12, seed: int = 0) -> dict[str, np.ndarray]:
    """Three episodes: rows 0–4 terminated, 5–8 truncated, 9–11 terminated."""
    rng = np.random.default_rng(seed)
    terminated, truncated = np.zeros(n, bool), np.zeros(n, bool)
    terminated[[4, 11]], truncated[8] = True, True
    return {
        "observation": rng.normal(size=(n, 2)),
        "reward": rng.normal(size=n),
        "next_observation": rng.normal(size=(n, 2)),
        "action": rng.integers(3, size=n),
        "terminated": terminated,
        "truncated": truncated,
        "behavior_prob": rng.uniform(0.1, 1, n),
        "target_prob": rng.uniform(0, 1, n),
    }


def assert_same(a: Transitions, b: Transitions) -> None:
    for f in dataclasses.fields(Transitions):
        left, right = getattr(a, f.name), getattr(b, f.name)
        if left is None or f.name == "names":
            assert left == right, f.name
        else:
            assert left.dtype == right.dtype, f.name
            np.testing.assert_array_equal(left, right, err_msg=f.name)


def test_episodes_follow_from_the_rows_that_ended_one() -> None:
    t = Transitions.from_arrays(**walk())
    assert t.start.nonzero()[0].tolist() == [0, 5, 9]
    assert t.episode.tolist() == [0] * 5 + [1] * 4 + [2] * 3
    assert t.n_episodes == 3
    assert [len(e) for e in t.episodes()] == [5, 4, 3]
    assert len(t) == 12
    assert "3 episodes" in repr(t)


def test_a_column_may_be_a_matrix_of_one_column() -> None:
    data = walk()
    assert_same(Transitions.from_arrays(**data | {"reward": data["reward"][:, None]}), Transitions.from_arrays(**data))


@pytest.mark.parametrize(
    ("given", "kept"), [("?", "i8"), ("u1", "i8"), (">i4", "i8"), ("f2", "f8"), (">f4", "f4"), (">f8", "f8")]
)
def test_numbers_are_long_integers_or_native_floats(given: str, kept: str) -> None:
    numbers = Transitions.from_arrays(**walk() | {"action": np.eye(12, 2).astype(given)}).action
    assert numbers is not None
    assert numbers.dtype.str == np.dtype(kept).str
    np.testing.assert_array_equal(numbers, np.eye(12, 2))


def test_returns_are_discounted_sums_of_each_episode() -> None:
    data = walk()
    t = Transitions.from_arrays(**data)
    r = data["reward"]
    expected = [sum(0.9**k * r[i + k] for k in range(j - i)) for i, j in [(0, 5), (5, 9), (9, 12)]]
    np.testing.assert_allclose(t.returns(0.9), expected, rtol=1e-14)
    np.testing.assert_allclose(t.returns().sum(), r.sum(), rtol=1e-12)


@pytest.mark.parametrize("cut", [0, 1, 4, 5, 7, 9, 11, 12])
def test_any_slicing_joins_to_the_same_rows(cut: int) -> None:
    t = Transitions.from_arrays(**walk())
    assert_same(concatenate([t[:cut], t[cut:]]), t)
    thirds = [t[i : i + 5] for i in range(0, 12, 5)]
    assert_same(concatenate(thirds), t)


def test_joining_two_logs_renumbers_their_episodes() -> None:
    a, b = Transitions.from_arrays(**walk(seed=1)), Transitions.from_arrays(**walk(seed=2))
    both = concatenate([a, b])
    assert both.n_episodes == 6
    np.testing.assert_array_equal(both.episode, np.repeat(np.arange(6), [5, 4, 3] * 2))
    assert both.start.nonzero()[0].tolist() == [0, 5, 9, 12, 17, 21]
    np.testing.assert_array_equal(both.returns(), np.concatenate([a.returns(), b.returns()]))


def test_logs_that_do_not_fit_together_are_refused() -> None:
    data = walk()
    t = Transitions.from_arrays(**data)
    with pytest.raises(ValueError, match="`parts` is empty"):
        concatenate([])
    with pytest.raises(ValueError, match="part 1 differs in column 'ratio'"):
        concatenate([t, dataclasses.replace(t, ratio=np.ones(12))])
    with pytest.raises(ValueError, match="part 2 differs in `names`"):
        concatenate([t, t, dataclasses.replace(t, names=("a", "b"))])
    with pytest.raises(ValueError, match="part 1 has 1: select"):
        concatenate([t, dataclasses.replace(t, observation=t.observation[:, :1])])


def test_leaving_rows_out_marks_a_start() -> None:
    t = Transitions.from_arrays(**walk())
    picked = t[np.array([0, 1, 3, 4, 6])]
    assert picked.start.tolist() == [True, False, True, False, True]
    assert t[np.arange(12) % 2 == 0].start.all()
    assert t[2:5].start.tolist() == [False] * 3  # a chunk of a stream continues it
    assert len(t[:0]) == 0
    assert t[:0].n_episodes == 0


def test_one_row_is_not_a_slice() -> None:
    with pytest.raises(TypeError, match="pass a slice"):
        Transitions.from_arrays(**walk())[3]  # type: ignore[index]


def test_without_next_observation_the_next_row_follows() -> None:
    data = walk()
    del data["next_observation"]
    data["terminated"], data["truncated"] = data["terminated"] | data["truncated"], np.zeros(12, bool)
    t = Transitions.from_arrays(**data)
    inside = ~t.terminated
    np.testing.assert_array_equal(t.next_observation[inside], np.roll(t.observation, -1, axis=0)[inside])


def test_a_terminal_successor_may_be_absent_and_integers_stay_integers() -> None:
    t = Transitions.from_arrays([0, 1, 2], [0, 0, 1.0], [1, 2, np.nan], terminated=[0, 0, 1])
    assert t.observation.dtype == np.int64
    assert t.next_observation.dtype == np.int64
    assert t.next_observation[:, 0].tolist() == [1, 2, 2]


def test_terminated_and_truncated_stay_apart() -> None:
    t = Transitions.from_arrays(**walk())
    assert t.terminated.sum() == 2
    assert t.truncated.sum() == 1
    assert not (t.terminated & t.truncated).any()


def test_importance_ratio_in_order_of_what_was_logged() -> None:
    data = walk()
    t = Transitions.from_arrays(**data)
    np.testing.assert_array_equal(t.importance_ratio(), data["target_prob"] / data["behavior_prob"])
    given = Transitions.from_arrays(data["observation"], data["reward"], data["next_observation"], ratio=np.arange(12))
    np.testing.assert_array_equal(given.importance_ratio(), np.arange(12.0))
    bare = Transitions.from_arrays(data["observation"], data["reward"], data["next_observation"])
    np.testing.assert_array_equal(bare.importance_ratio(), np.ones(12))


def test_another_target_drops_the_ratio_to_the_old_one() -> None:
    t = dataclasses.replace(Transitions.from_arrays(**walk()), ratio=np.full(12, 9.0))
    aimed = t.with_target(lambda s: np.full((len(s), 3), 1 / 3))
    np.testing.assert_allclose(aimed.importance_ratio(), 1 / 3 / walk()["behavior_prob"], rtol=1e-15)


def test_with_target_takes_the_logged_actions_probability() -> None:
    t = Transitions.from_arrays(**walk())
    table = np.array([0.2, 0.3, 0.5])
    aimed = t.with_target(lambda s: np.tile(table, (len(s), 1)))
    np.testing.assert_array_equal(aimed.target_prob, table[t.action])
    with pytest.raises(ValueError, match="`action` must be between 0 and 0"):
        t.with_target(lambda s: np.ones((len(s), 1)))
    with pytest.raises(ValueError, match=r"sum 1.*row 0 holds \[1.0, 1.0, 1.0\].*not scores or logits"):
        t.with_target(lambda s: np.ones((len(s), 3)))
    for answer in ("left", [[0.5, 0.5]] * 11 + [[1.0]], [object()] * 12):
        with pytest.raises(ValueError, match="`policy` must return numbers, but its answer is not an array of them"):
            t.with_target(lambda _, answer=answer: answer)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_frames_bring_their_names(frame: type) -> None:
    data = walk()
    columns = {"x": data["observation"][:, 0], "dx/dt": data["observation"][:, 1]}
    t = Transitions.from_arrays(frame(columns), data["reward"], frame(columns))
    assert t.names == ("x", "dx/dt")
    np.testing.assert_array_equal(t.observation, data["observation"])


@pytest.mark.parametrize(
    "change",
    [
        lambda a: np.asfortranarray(a),
        lambda a: a.astype(a.dtype.newbyteorder(">")),
        lambda a: np.repeat(a, 2, axis=0)[::2],
        lambda a: a.astype(object),
        lambda a: a.tolist(),
    ],
    ids=["fortran", "big-endian", "strided", "objects", "lists"],
)
def test_odd_but_valid_arrays_simply_work(change) -> None:  # type: ignore[no-untyped-def]
    data = walk()
    plain = Transitions.from_arrays(data["observation"], data["reward"], data["next_observation"])
    odd = Transitions.from_arrays(*(change(data[k]) for k in ("observation", "reward", "next_observation")))
    assert_same(odd, plain)


def test_input_is_not_changed_and_may_be_read_only() -> None:
    data = walk()
    before = {k: v.copy() for k, v in data.items()}
    for value in data.values():
        value.setflags(write=False)
    Transitions.from_arrays(**data)[::2]
    for k, v in data.items():
        np.testing.assert_array_equal(v, before[k])


def test_images_are_flattened_and_episode_names_may_be_text() -> None:
    t = Transitions.from_arrays(np.ones((4, 3, 2)), np.ones(4), np.ones((4, 3, 2)), episode=["b", "b", "a", "a"])
    assert t.observation.shape == (4, 6)
    assert t.episode.tolist() == [0, 0, 1, 1]
    assert t.start.tolist() == [True, False, True, False]


def test_pickle_and_frozen() -> None:
    t = Transitions.from_arrays(**walk(), names=["a", "b"])
    assert_same(pickle.loads(pickle.dumps(t)), t)  # noqa: S301
    with pytest.raises(dataclasses.FrozenInstanceError):
        t.reward = np.zeros(12)  # type: ignore[misc]


def test_ids_that_are_numbers_in_one_part_and_texts_in_another_are_texts() -> None:
    log = {"obs_x": [1.0, 2.0], "reward": [0.0, 1.0], "terminated": [True, True]}
    parts = [read({**log, "episode": ids, "group": ids[::-1]}, group="group") for ids in ([7, 8], ["07", "inf"])]
    both = concatenate(parts)
    assert both.ids().tolist() == ["7", "8", "07", "inf"]
    assert both.group.tolist() == ["8", "7", "inf", "07"]


def test_actions_that_are_whole_in_one_part_and_floats_in_another_are_joined() -> None:
    log = {"obs_x": [1.0, 2.0], "reward": [0.0, 1.0], "terminated": [True, True]}
    parts = [read({**log, "action": action}) for action in ([0, 1], [1.0, 0.0])]
    assert concatenate(parts).action.ravel().tolist() == [0, 1, 1, 0]
