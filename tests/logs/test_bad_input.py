"""The catalogue of bad input: each case gives one sentence that names the column and the first bad row."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp

from sparsetd.logs import Transitions, inspect, read, read_batches

N = 8
BIG = 2**70


def arrays() -> dict[str, Any]:
    """A valid log of two episodes: rows 0–3 terminated, rows 4–7 truncated."""
    rng = np.random.default_rng(0)
    return {
        "observation": rng.normal(size=(N, 2)),
        "reward": rng.normal(size=N),
        "next_observation": rng.normal(size=(N, 2)),
        "action": rng.integers(2, size=N),
        "terminated": np.arange(N) == 3,
        "truncated": np.arange(N) == 7,
        "episode": np.arange(N) // 4,
        "start": np.arange(N) % 4 == 0,
        "behavior_prob": np.full(N, 0.5),
        "target_prob": np.full(N, 0.25),
        "ratio": np.full(N, 0.5),
    }


def at(row: int, value: Any, dtype: Any = None) -> Callable[[Any], Any]:
    """The column with `value` in one row."""

    def change(column: Any) -> Any:
        changed = np.array(column, dtype=dtype or (object if not np.isscalar(value) else float))
        changed[row] = value
        return changed

    return change


def whole(value: Any) -> Callable[[Any], Any]:
    return lambda _: value


def short(column: Any) -> Any:
    return column[:-1]


FLOATS = ("observation", "reward", "next_observation", "action", "behavior_prob", "target_prob", "ratio")
FLAGS = ("terminated", "truncated", "start")

CASES: list[tuple[str, Callable[[Any], Any], str]] = []
for name in FLOATS:
    CASES += [
        (name, at(2, np.nan), f"`{name}` must be finite, but row 2"),
        (name, at(5, np.inf), f"`{name}` must be finite, but row 5"),
        (name, at(1, -np.inf), f"`{name}` must be finite, but row 1"),
        (name, at(6, None, object), f"`{name}` must be finite, but row 6"),
        (name, at(4, "high", object), f"`{name}` must hold numbers, but row 4 holds 'high'"),
        (name, at(2, pd.NA, object), f"`{name}` must be finite, but row 2"),
        (name, at(3, 1j, complex), f"`{name}` must be real, but row 3"),
        (name, short, r"must have \d rows like the other columns, but it has \d \(row 7 has no partner\)"),
    ]
for name in FLAGS:
    CASES += [
        (name, at(2, 2), f"`{name}` must be true or false .* but row 2 holds 2"),
        (name, at(3, -1), f"`{name}` must be true or false .* but row 3 holds -1"),
        (name, at(3, 0.5), f"`{name}` must be true or false .* but row 3 holds 0.5"),
        (name, at(1, np.nan), f"`{name}` must be finite, but row 1 holds nan"),
        (name, at(1, "yes", object), f"`{name}` must hold numbers, but row 1 holds 'yes'"),
        (name, short, f"`{name}` must have 8 rows"),
        (name, whole(np.zeros((N, 2))), rf"`{name}` must have one number per row, but its shape is \(8, 2\)"),
    ]
for name in ("behavior_prob", "target_prob"):
    CASES += [
        (name, at(5, -0.1), f"`{name}` must be at least 0, but row 5 holds -0.1.*log-probabilities"),
        (name, at(4, 1.5), f"`{name}` must be at most 1, but row 4 holds 1.5"),
        (name, lambda p: np.log(p), f"`{name}` must be at least 0, but row 0.*np.exp"),
        (name, lambda p: 100 * p, f"`{name}` must be at most 1, but row 0.*percentages"),
        (name, whole(0.5), f"`{name}` must have one number per row"),
    ]
CASES += [
    ("behavior_prob", at(6, 0.0), "`behavior_prob` must be above 0, but row 6 holds 0.0"),
    ("ratio", at(3, -2.0), "`ratio` must be at least 0, but row 3 holds -2.0"),
    ("ratio", at(3, 0.7), "`ratio` must be target_prob / behavior_prob, but row 3 holds 0.7"),
    ("ratio", lambda r: np.log(r), "`ratio` must be at least 0, but row 0"),
    ("observation", whole(np.zeros((0, 2))), "`observation` has no rows"),
    ("observation", whole(np.zeros((N, 0))), "`observation` must have at least one column"),
    ("observation", whole(3.0), "`observation` must have one row per transition"),
    ("observation", whole([[1.0, 2]] * 3 + [[1.0]] * 5), r"`observation` must have lists of equal length, but row 3"),
    ("reward", whole(sp.csr_array(np.ones((N, 1)))), "`reward` is a sparse matrix"),
    ("observation", whole(np.array(["a"] * N)), "`observation` must hold numbers, but row 0 holds 'a'"),
    ("observation", whole([0.0] * 5 + ["a"] + [0.0] * 2), "`observation` must hold numbers, but row 5 holds 'a'"),
    ("observation", whole([b"x"] * N), "`observation` must hold numbers, but row 0 holds b'x'"),
    ("observation", whole(np.array(["2020-01-01"] * N, "M8[D]")), "`observation` holds dates"),
    ("observation", whole(np.zeros(N, "m8[s]")), "`observation` holds dates or durations"),
    ("observation", whole([0] * 5 + [BIG] + [0] * 2), r"`observation` must be below 2\*\*63, but row 5"),
    ("observation", whole(np.full(N, 2**63, np.uint64)), r"`observation` must be below 2\*\*63, but row 0"),
    ("observation", whole(np.ma.masked_equal([0, 1, 2, 0, 4, 5, 6, 7], 2)), "`observation` must be finite, but row 2"),
    ("observation", whole([{"a": 1}] * N), "`observation` must hold numbers, but row 0 holds {'a': 1}"),
    ("observation", whole([datetime.date(2020, 1, 1)] * N), "`observation` must hold numbers, but row 0"),
    ("next_observation", whole(np.zeros((N, 3))), "`next_observation` has 3 columns in row 0 but `observation` has 2"),
    ("next_observation", whole(np.zeros(N)), "`next_observation` has 1 columns in row 0"),
    ("next_observation", whole(None), "`next_observation` is unknown in row 7"),
    ("action", whole(3), "`action` must have one row per transition"),
    ("action", whole([0] * 7 + [BIG]), r"`action` must be below 2\*\*63, but row 7"),
    ("action", whole([0] * 6 + [-(2**63) - 1, 0]), r"`action` must be below 2\*\*63, but row 6"),
    ("reward", whole(1.0), "`reward` must have one number per row"),
    ("reward", whole(np.ones((N, 2))), "`reward` must have one number per row"),
    ("reward", whole([0] * 6 + [10**400] + [0]), r"`reward` must be below 2\*\*63, but row 6"),
    ("reward", whole([Decimal("NaN")] * N), "`reward` must be finite, but row 0"),
    ("episode", whole([0, 0, 1, 1, 0, 0, 2, 2]), "`episode` must keep .* but row 4 returns to 0"),
    ("episode", whole([0.0] * 4 + [np.nan] * 4), "`episode` must be present, but row 4"),
    ("episode", whole(["a"] * 4 + [None] * 4), "`episode` must be present, but row 4"),
    ("episode", whole(np.zeros((N, 2))), "`episode` must have one identifier per row"),
    ("episode", short, "`episode` must have 8 rows"),
    ("episode", whole([0] * N), "`terminated` or `truncated` holds in row 3, but row 4 continues"),
    ("terminated", at(1, 1), "`terminated` or `truncated` holds in row 1, but row 2 continues"),
    ("truncated", at(5, 1), "`terminated` or `truncated` holds in row 5, but row 6 continues"),
    ("start", at(4, 0), "`start` must be true where `episode` changes, but row 4"),
    ("names", whole(["a"]), "`names` has 1 entries for 2 observation columns"),
    ("names", whole(["a", "a"]), "`names` must be distinct, but entry 1 repeats 'a'"),
]


@pytest.mark.parametrize(("name", "change", "message"), CASES, ids=[f"{i}-{c[0]}" for i, c in enumerate(CASES)])
def test_arrays(name: str, change: Callable[[Any], Any], message: str) -> None:
    data = arrays()
    data[name] = change(data.get(name))
    with pytest.raises((ValueError, TypeError), match=message) as caught:
        Transitions.from_arrays(**data)
    one_sentence(str(caught.value))


def one_sentence(text: str) -> None:
    assert "\n" not in text
    assert text.endswith((".", ".)", "?"))
    assert len(text) < 300


def columns() -> dict[str, Any]:
    """The same log by the names of the schema, with other names for some columns."""
    c = arrays()
    return {
        "obs_x": c["observation"][:, 0],
        "obs_y": c["observation"][:, 1],
        "next_obs_x": c["next_observation"][:, 0],
        "next_obs_y": c["next_observation"][:, 1],
        "a": c["action"],
        "r": c["reward"],
        "done": c["terminated"],
        "timeout": c["truncated"],
        "trajectory_id": c["episode"],
        "t": np.arange(N) % 4,
        "pscore": c["behavior_prob"],
        "target_prob": c["target_prob"],
    }


def without(*names: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda c: {k: v for k, v in c.items() if k not in names}


def put(name: str, row: int, value: Any) -> Callable[[dict[str, Any]], dict[str, Any]]:
    def change(c: dict[str, Any]) -> dict[str, Any]:
        column = list(c[name])
        column[row] = value
        return {**c, name: column}

    return change


SOURCES: list[tuple[Callable[[dict[str, Any]], Any], dict[str, Any], str]] = [
    (put("obs_y", 3, np.nan), {}, "`obs_y` must be finite, but row 3"),
    (put("obs_x", 3, "low"), {}, "`obs_x` must hold numbers, but row 3 holds 'low'"),
    (put("next_obs_x", 1, np.inf), {}, "`next_obs_x` must be finite, but row 1"),
    (put("r", 6, np.nan), {}, "`r` must be finite, but row 6"),
    (put("r", 6, None), {}, "`r` must be finite, but row 6"),
    (put("a", 2, "left"), {}, "`a` must hold numbers, but row 2 holds 'left'"),
    (put("done", 2, 7), {}, "`done` must be true or false .* row 2 holds 7"),
    (put("timeout", 2, "x"), {}, "`timeout` must hold numbers, but row 2"),
    (put("done", 2, True), {}, "holds in row 2, but row 3 continues"),
    (put("pscore", 5, 1.2), {}, "`pscore` must be at most 1, but row 5"),
    (put("pscore", 5, 0), {}, "`pscore` must be above 0, but row 5"),
    (put("target_prob", 0, -1), {}, "`target_prob` must be at least 0, but row 0"),
    (put("trajectory_id", 5, None), {}, "`trajectory_id` must be present, but row 5"),
    (lambda c: {**c, "trajectory_id": np.zeros((8, 2))}, {}, "`trajectory_id` must have one identifier per row"),
    (put("t", 6, 1), {}, "`t` must differ within an episode, but row 6 repeats step 1 of episode 1"),
    (put("t", 6, np.nan), {}, "`t` must be finite, but row 6"),
    (without("r"), {}, "`reward` is missing: say which .*`--column reward=…`.*there are 'a', 'done'"),
    (lambda c: {("x" * i): c["r"] for i in range(1, 9)}, {}, "`observation` is missing"),
    (
        without("obs_x", "obs_y"),
        {},
        "`observation` is missing: name the columns obs_.*hashed features with `indices=`.*`prepare` makes a log",
    ),
    (without("next_obs_y"), {}, "`next_obs_y` is missing although `next_obs_x` is there"),
    (dict, {"reward": "rewrad"}, "`reward` names a column 'rewrad' that is not there: there are 'obs_x', 'obs_y'"),
    (dict, {"observation": ["obs_x", "obs_z"]}, r"'obs_z' that is not there; did you mean 'obs_.'\?$"),
    (dict, {"reward": []}, "`reward` must be one column, but 0 were named: name one"),
    (dict, {"ratio": ["obs_x", "obs_y"]}, "`ratio` must be one column, but 2 were named: name one"),
    (dict, {"next_observation": ["next_obs_x"]}, "`next_observation` has 1 columns but `observation` has 2"),
    (dict, {"rewards": "r"}, r"`rewards` is not a role of a column; did you mean 'reward'\?$"),
    (dict, {"reward": None}, "`reward` is missing"),
    (lambda c: {"obs": sp.csr_array(np.eye(3)), "r": c["r"][:3]}, {}, "`obs` is a sparse matrix"),
    (lambda _: {}, {}, "The source has no columns"),
    (lambda c: {**c, " ": c["r"]}, {}, "has no name"),
    (lambda c: {**c, "r": c["r"][:5]}, {}, "`r` must have 8 rows like the other columns, but it has 5"),
    (lambda c: {k: v[:0] for k, v in c.items()}, {}, "`obs_x` has no rows"),
    (lambda c: pd.DataFrame(c).iloc[:0], {}, "`obs_x` has no rows"),
    (lambda c: pd.concat([pd.DataFrame(c), pd.DataFrame({"r": c["r"]})], axis=1), {}, "`r` names two columns"),
    (lambda c: pl.DataFrame(put("pscore", 2, None)(c), strict=False), {}, "`pscore` must be finite, but row 2"),
    (lambda c: pa.table(put("r", 2, None)(c)), {}, "`r` must be finite, but row 2"),
    (lambda c: pa.table({**c, "timeout": [None, *c["timeout"][1:]]}), {}, "`timeout` must be finite, but row 0"),
    (
        lambda c: pa.table({"obs": [[1.0, 2], [1.0]], "reward": c["r"][:2]}),
        {},
        "`obs` must have lists of equal length, but row 1",
    ),
    (
        lambda c: pl.DataFrame({"obs": [[1.0, 2.0], [1.0]], "reward": c["r"][:2]}),
        {},
        "`obs` must have lists of equal length, but row 1",
    ),
    (
        lambda c: {"obs": [[1.0, 2], [1.0]], "reward": c["r"][:2]},
        {},
        r"`obs` must have lists of equal length, but row 1",
    ),
    (
        lambda _: {"obs": [1.0, 2.0], "reward": [0, 0], "episode": ["a", "b"]},
        {},
        "`obs` has no row with a known successor",
    ),
    (lambda _: 3, {}, "A int is not a source of transitions"),
    (lambda _: np.zeros((3, 3)), {}, "A ndarray is not a source of transitions"),
    (lambda _: "nowhere.csv", {}, "nowhere.csv does not exist"),
]


@pytest.mark.parametrize(("make", "roles", "message"), SOURCES, ids=range(len(SOURCES)))
def test_sources(make: Any, roles: dict[str, Any], message: str) -> None:
    source = make(columns())
    with pytest.raises((ValueError, TypeError, FileNotFoundError), match=message) as caught:
        read(source, **roles)
    one_sentence(str(caught.value))
    report = inspect(source, **roles)
    assert report.error == str(caught.value)
    assert not report.ok


FILES: list[tuple[str, str | bytes, str]] = [
    ("a.csv", "", "a.csv is empty"),
    ("a.csv", "obs_x,reward\n", "a.csv has a header but no rows"),
    ("a.csv", "obs_x,reward\n1,2\n3\n", "Row 1 has 1 fields but the header names 2"),
    ("a.csv", "obs_x,reward\n1,2,3\n", "Row 0 has 3 fields"),
    ("a.csv", "obs_x,reward,done\n1,2,0\n2,oops,1\n", "`reward` must hold numbers, but row 1 holds 'oops'"),
    ("a.csv", "obs_x,reward,done\n1,2,0\n2,,1\n", "`reward` must be finite, but row 1"),
    ("a.csv", "obs_x,reward,done\n1,2,maybe\n2,1,1\n", "`done` must hold numbers, but row 0 holds 'maybe'"),
    ("a.csv", "obs_x,reward,reward\n1,2,3\n", "`reward` names two columns"),
    ("a.csv", "1,2,3\n4,5,6\n", "`observation` is missing"),
    ("a.csv", 'obs_x,reward\n"1,2\n', "not a valid CSV file"),
    ("a.csv", b"obs_x,reward\n\xff\xfe,2\n", "`obs_x` must hold numbers, but row 0 holds .ÿþ."),
    ("a.csv", "obs_x,reward\n" + "9" * 200_000 + ",1\n", "`obs_x` must be finite, but row 0"),
    ("a.csv", "obs_x,reward,done\n1e999,1,1\n", "`obs_x` must be finite, but row 0"),
    ("a.csv", "obs_x,reward,done\n" + "9" * 120 + ",1,1\n", "`obs_x` must be at most 1e.100 in size, but row 0"),
    ("a.csv", 'obs,reward,done\n"[1, 2]",1,0\n"[1]",1,1\n', "`obs` must have lists of equal length"),
    ("a.csv", 'obs,reward,done\n"[1, 2",1,1\n', "`obs` must hold numbers, but row 0"),
    ("a.csv", "obs_x^reward\n1^2\n", "`reward` is missing.*there are no others"),
    ("a.jsonl", "", "a.jsonl is empty"),
    ("a.jsonl", "\n\n", "a.jsonl is empty"),
    ("a.jsonl", "{", "Row 0 is not valid JSON"),
    ("a.jsonl", "[1, 2]\n", "Row 0 is a JSON list, not an object"),
    ("a.jsonl", '{"obs_x": 1, "reward": 1, "done": true}\nnull\n', "Row 1 is a JSON NoneType"),
    ("a.jsonl", '{"obs_x": 1, "reward": 0}\n{"obs_x": 1, "reward": 0, "new": 2}\n', "`new` first appears in row 1"),
    ("a.jsonl", '{"obs_x": 1, "reward": 0}\n{"obs_x": 1}\n', "`reward` must be finite, but row 1"),
    ("a.jsonl", '{"obs_x": 1, "reward": {"a": 1}}\n', "`reward` must hold numbers, but row 0 holds {'a': 1}"),
    ("a.jsonl", '{"obs_x": 1, "reward": "5"}\n', "`reward` must hold numbers, but row 0 holds '5'"),
    ("a.jsonl", '{"obs_x": [1, [2]], "reward": 0, "done": 1}\n', "`obs_x` must hold a list of numbers in every row"),
    ("a.jsonl", '{"obs_x": [], "reward": 0, "done": 1}\n', "`obs_x` must have at least one column"),
    ("a.jsonl", '{"obs_x": NaN, "reward": 0, "done": 1}\n', "`obs_x` must be finite, but row 0"),
    ("a.jsonl", '{"obs_x": 1' + "0" * 30 + ', "reward": 0, "done": 1}\n', r"`obs_x` must be below 2\*\*63, but row 0"),
    ("a.jsonl", '{"obs_x": ' + "[" * 100_000 + "\n", "Row 0 is not valid JSON"),
    ("a.jsonl", '{"obs_x": 1' + "0" * 5000 + ', "reward": 0}\n', "Row 0 is not valid JSON"),
    ("a.jsonl", b"\xff\xfe{}", "a.jsonl is not UTF-8 text"),
    ("a.parquet", b"", "a.parquet is not a readable Parquet file"),
    ("a.parquet", b"PAR1 nothing PAR1", "a.parquet is not a readable Parquet file"),
    ("a.arrow", b"ARROW1\0\0 nothing", "a.arrow is not a readable Arrow file"),
    ("a.feather", b"", "a.feather is not a readable Arrow file"),
    ("a.npz", b"", "a.npz is not a readable .npz archive"),
    ("a.npz", b"PK\x03\x04 nothing", "a.npz is not a readable .npz archive"),
    ("a.pkl", b"\x80\x04.", "a.pkl has the ending '.pkl', which no reader knows"),
    ("a", "obs_x,reward\n1,2\n", "a has the ending '', which no reader knows"),
]


@pytest.mark.parametrize(("name", "content", "message"), FILES, ids=[f"{i}-{f[0]}" for i, f in enumerate(FILES)])
def test_files(name: str, content: str | bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises((ValueError, TypeError), match=message) as caught:
        read(path)
    one_sentence(str(caught.value))
    assert inspect(path).error == str(caught.value)
    with pytest.raises((ValueError, TypeError)):
        list(read_batches(path))


BATCHES: list[tuple[str, str]] = [
    ("obs_x,reward,episode,step\n1,0,a,0\n2,0,a,1\n3,0,a,1\n4,0,a,2\n", "`step` must increase, but row 2"),
    ("obs_x,reward,episode\n1,0,a\n2,0,b\n3,0,b\n4,0,a\n", "`episode` must keep .* row 3 returns to 'a'"),
    ("obs_x,reward,episode,done\n1,0,a,0\n2,0,a,0\n3,0,a,1\n4,0,a,0\n", "holds in row 2, but row 3 continues"),
    ("obs_x,reward,episode,truncated\n1,0,a,0\n2,0,a,0\n3,0,a,1\n4,0,a,0\n", "holds in row 2, but row 3 continues"),
    ("obs_x,reward,episode,done\n1,0,a,0\n2,0,a,1\n3,0,a,0\n4,0,a,0\n", "holds in row 1, but row 2 continues"),
    ("obs_x,reward\n1,0\n2,0\n3,0\n4,zero\n", "`reward` must hold numbers, but row 3 holds 'zero'"),
    ("obs_x,reward\n1,0\n2,0\n3,0\n4\n", "Row 3 has 1 fields"),
    ('obs,reward\n"[1, 2]",0\n"[1, 2]",0\n"[1, 2]",0\n"[1]",0\n', r"`obs` has 1 numbers from row 3 on, but 2 before"),
]


@pytest.mark.parametrize(("content", "message"), BATCHES)
def test_batches(content: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(content)
    with pytest.raises((ValueError, TypeError), match=message):
        list(read_batches(tmp_path / "a.csv", batch_rows=3))


def test_batches_too_small_and_an_empty_directory(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="`batch_rows` must be at least 3"):
        next(read_batches(columns(), batch_rows=1))
    with pytest.raises(ValueError, match="is a directory without data files"):
        read(tmp_path)


def test_parts_with_other_columns(tmp_path: Path) -> None:
    pd.DataFrame({"obs_x": [1.0], "reward": [0.0]}).to_csv(tmp_path / "0.csv", index=False)
    pd.DataFrame({"obs_x": [1.0], "score": [0.0]}).to_csv(tmp_path / "1.csv", index=False)
    with pytest.raises(ValueError, match=r"1.csv lacks 'reward', which 0.csv has: give all parts the same columns"):
        read(tmp_path)


@pytest.mark.parametrize("column", ["terminated", "behavior_prob", "obs_y"])
def test_a_first_part_with_fewer_columns_than_the_others(tmp_path: Path, column: str) -> None:
    """The first part decides which columns are read, so the others would be read without theirs."""
    fewer = pd.DataFrame({"obs_x": [1.0, 2.0], "reward": [0.0, 1.0], "note": [1.0, 2.0]})
    fewer.to_csv(tmp_path / "0.csv", index=False)
    fewer.assign(**{column: [0.5, 1.0], "note": 3.0, "more": 4.0}).to_csv(tmp_path / "1.csv", index=False)
    with pytest.raises(ValueError, match=rf"0.csv lacks '{column}', which 1.csv has: give all"):
        read(tmp_path)
    fewer.assign(more=4.0).to_csv(tmp_path / "1.csv", index=False)  # a column without a role is nobody's loss
    assert len(read(tmp_path)) > 0


def test_the_catalogue_is_long_enough() -> None:
    assert len(CASES) + len(SOURCES) + len(FILES) + len(BATCHES) >= 180


def test_valid_logs_of_the_catalogue_are_valid() -> None:
    assert len(Transitions.from_arrays(**arrays())) == len(read(columns())) == N


@pytest.mark.parametrize("name", [{}, 1.5, ["x"], None])
def test_a_role_that_is_given_something_else_than_names_says_so(name) -> None:
    from sparsetd.logs.schema import infer_schema

    with pytest.raises(ValueError, match="`observation` must name columns by text"):
        infer_schema(["obs_x", "reward"], observation=[name])
