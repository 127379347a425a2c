"""What must not change an answer, and what must change it in a known way: one table of laws, tried on every answer.

A log is a table of raw columns here. A *law* changes the table and says what becomes of the numbers of an answer; a
*source* is a form in which the same table is handed over; an *answer* is what a user asks. The laws need no truth to
compare with: the answer before the change is the oracle.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse as sp

import sparsetd
from sparsetd import LSTD, TDC
from sparsetd.estimators import ValueFunction
from sparsetd.logs import Transitions, concatenate, read
from sparsetd.logs.sharding import shard

GAMMA = 0.9
OBSERVED = ("obs_age", "obs_lactate", "obs_noise")
Numbers = dict[str, float]


@dataclass(frozen=True)
class Table:
    """Raw columns of a log, the column that the asked policy looks at with its threshold, and the two actions."""

    columns: dict[str, Any]
    asked: str = "lactate"
    threshold: float = 0.2
    actions: tuple[Any, Any] = (0, 1)
    renamed: dict[str, str] = field(default_factory=dict)

    def but(self, **columns: Any) -> Table:
        return replace(self, columns={**self.columns, **columns})

    def rows(self, order: Any) -> Table:
        return replace(self, columns={name: column[order] for name, column in self.columns.items()})


def original(episodes: int = 60, seed: int = 5) -> Table:
    """Patients with three columns, two drugs and known propensities; "7" and "07" are two of them."""
    rng, rows = np.random.default_rng(seed), []
    for episode in range(episodes):
        name, s, length = "0" * (episode % 2) + str(episode // 2), rng.normal(size=3), 3 + int(rng.integers(3))
        for step in range(length):
            likely = 0.7 if s[1] > 0 else 0.4
            action = int(rng.random() < likely)
            reward = s[0] + 0.5 * s[1] + (0.8 if s[1] > 0 else -0.5) * action + 0.2 * rng.normal()
            probability = likely if action else 1 - likely
            rows.append((name, step, *s, action, reward, step == length - 1, probability))
            s = 0.6 * s + 0.5 * rng.normal(size=3)
    names = [
        "episode",
        "step",
        "obs_age",
        "obs_lactate",
        "obs_noise",
        "action",
        "reward",
        "terminated",
        "behavior_prob",
    ]
    return Table(dict(zip(names, map(np.array, zip(*rows, strict=True)), strict=True)))


ORIGINAL = original()


def opened(table: Table) -> Transitions:
    """The table as a log; words need to be prepared."""
    in_words = table.columns["action"].dtype.kind == "U"
    return sparsetd.prepare(table.columns).transitions if in_words else read(table.columns)


# --- answers: what a user asks, as numbers by name --------------------------------------------------------------------


def policy(table: Table) -> str:
    """The second drug mostly above the threshold of the asked column, the first one mostly below it."""
    first, second = table.actions
    above = f"{second} with 0.9, {first} with 0.1 if `{table.asked}` > {table.threshold}"
    return f"{above}; else {second} with 0.2, {first} with 0.8"


def with_interval(name: str, value: float, interval: Iterable[float]) -> Numbers:
    low, high = interval
    return {name: value, f"{name} from": low, f"{name} to": high}


def evaluated(table: Table, log: Any, **options: Any) -> Numbers:
    found = sparsetd.evaluate(log, policy(table), gamma=GAMMA, n_resamples=0, **options)
    return with_interval("value", found.value, found.interval)


def compared(table: Table, log: Any, **options: Any) -> Numbers:
    found = sparsetd.compare(log, {"asked": policy(table), "done": "behavior"}, gamma=GAMMA, **options).to_dict()
    entries = [*found["values"], *found["differences"]]
    parts = [with_interval(f"{e['name']} {e.get('less', '')}", e["value"], e["interval"]) for e in entries]
    return {name: value for part in parts for name, value in part.items()}


def improved(table: Table, log: Any, **options: Any) -> Numbers:  # noqa: ARG001
    found = sparsetd.improve(log, gamma=GAMMA, n_resamples=1, **options)  # one split: the others are the same code
    return with_interval("difference", found.difference.value, found.interval)


def bounded(table: Table, log: Any, **options: Any) -> Numbers:
    found = sparsetd.sensitivity(log, policy(table), gamma=GAMMA, confounding=(1.0, 2.0), **options).to_dict()
    return {
        f"{name} {side} at {bound['confounding']}": number
        for bound in found["bounds"]
        for name in ("bounds", "interval", "difference_bounds", "difference_interval")
        for side, number in zip(("from", "to"), bound[name], strict=True)
    }


def fitted(table: Table, log: Any) -> Numbers:
    log = log if isinstance(log, Transitions) else read(log)
    model = ValueFunction(None, LSTD(gamma=GAMMA)).fit(log)
    back = {new: old for old, new in table.renamed.items()}
    labels = [str(name).removeprefix("obs_") for name in model.feature_names_]
    names = [back.get(label, label) for label in labels]
    return dict(zip(names, model.estimator_.coef_, strict=True))


def predicted(table: Table, log: Any) -> Numbers:  # noqa: ARG001
    """The values of all rows, by episode and step."""
    log = log if isinstance(log, Transitions) else read(log)
    model = ValueFunction(None, LSTD(gamma=GAMMA)).fit(log)
    episodes = zip(log.ids(), log.episodes(), strict=True)
    labels = [f"{name} {step}" for name, episode in episodes for step in range(len(episode))]
    return dict(zip(labels, model.value(log.observation), strict=True))


ANSWERS = {f.__name__: f for f in (evaluated, compared, improved, bounded, fitted, predicted)}

# --- laws: a change of the table, and what becomes of every number ----------------------------------------------------


@dataclass(frozen=True)
class Law:
    """`expected` maps (answer, name of the number, number before) to the number after; unchanged by default."""

    change: Callable[[Table], Table]
    expected: Callable[[str, str, float], float] = lambda _answer, _name, value: value
    tolerance: float = 1e-9


def _shuffled(table: Table) -> Table:
    return table.rows(np.random.default_rng(1).permutation(len(table.columns["reward"])))


def _episodes_permuted(table: Table) -> Table:
    ids = table.columns["episode"]
    order = np.random.default_rng(2).permutation(np.unique(ids))
    return table.rows(np.concatenate([np.flatnonzero(ids == name) for name in order]))


def _columns_permuted(table: Table) -> Table:
    return replace(table, columns=dict(reversed(table.columns.items())))


def _columns_renamed(table: Table) -> Table:
    new = {"obs_age": "obs_zeit", "obs_lactate": "obs_a b", "obs_noise": "obs_x=1"}
    columns = {new.get(name, name): column for name, column in table.columns.items()}
    return replace(table, columns=columns, asked="a b", renamed={old[4:]: name[4:] for old, name in new.items()})


def _actions_renamed(table: Table) -> Table:
    return replace(table.but(action=1 - table.columns["action"]), actions=(1, 0))


def _actions_in_words(table: Table) -> Table:
    words = ("none", "drug B")
    return replace(table.but(action=np.array(words)[table.columns["action"]]), actions=words)


def _features_scaled(table: Table) -> Table:
    scaled = {name: 1000.0 * table.columns[name] for name in OBSERVED}
    return replace(table.but(**scaled), threshold=1000.0 * table.threshold)


def _actions_as(kind: type) -> Callable[[Table], Table]:
    return lambda table: table.but(action=table.columns["action"].astype(kind))


def _columns_alike(table: Table) -> Table:
    """Two columns whose names differ in case only: a rule asks for the one that is spelt as it says."""
    new = {"obs_noise": "obs_LACTATE"}
    columns = {new.get(name, name): column for name, column in table.columns.items()}
    return replace(table, columns=dict(sorted(columns.items())), renamed={"noise": "LACTATE"})


def _single(table: Table) -> Table:
    single = {name: table.columns[name].astype(np.float32) for name in (*OBSERVED, "reward")}
    return table.but(**single)


LAWS = {
    "shuffled rows": Law(_shuffled),
    "permuted episodes": Law(_episodes_permuted),
    "permuted columns": Law(_columns_permuted),
    "renamed columns": Law(_columns_renamed),
    "renamed actions": Law(_actions_renamed),
    "actions in words": Law(_actions_in_words),
    "actions as floats": Law(_actions_as(float)),
    "actions as booleans": Law(_actions_as(bool)),
    "names that differ in case": Law(_columns_alike),
    "rewards times 8": Law(lambda t: t.but(reward=8.0 * t.columns["reward"]), lambda _a, _n, value: 8.0 * value),
    "features times 1000": Law(_features_scaled, lambda a, _n, value: value / 1000.0 if a == "fitted" else value, 1e-7),
    "float32": Law(_single, tolerance=1e-3),  # bounds under confounding have kinks, which single precision moves
}

# --- sources: the same table in another form --------------------------------------------------------------------------


def _plain(table: Table) -> list[dict[str, Any]]:
    """Rows of plain Python values."""
    lists = [column.tolist() for column in table.columns.values()]
    return [dict(zip(table.columns, row, strict=True)) for row in zip(*lists, strict=True)]


def _csv(table: Table, path: Path) -> Path:
    rows = _plain(table)
    text = [",".join(rows[0]), *(",".join(map(str, row.values())) for row in rows)]
    path.with_suffix(".csv").write_text("\n".join(text) + "\n")
    return path.with_suffix(".csv")


def _jsonl(table: Table, path: Path) -> Path:
    path.with_suffix(".jsonl").write_text("".join(json.dumps(row) + "\n" for row in _plain(table)))
    return path.with_suffix(".jsonl")


def _parquet(table: Table, path: Path) -> Path:
    _pandas(table, path).to_parquet(path.with_suffix(".parquet"))
    return path.with_suffix(".parquet")


def _feather(table: Table, path: Path) -> Path:
    _pandas(table, path).to_feather(path.with_suffix(".feather"))
    return path.with_suffix(".feather")


def _npz(table: Table, path: Path) -> Path:
    np.savez(path.with_suffix(".npz"), **table.columns)
    return path.with_suffix(".npz")


def _pandas(table: Table, path: Path) -> Any:  # noqa: ARG001
    pd = pytest.importorskip("pandas")
    return pd.DataFrame(table.columns)


def _nullable(table: Table, path: Path) -> Any:
    """pandas' own types with missing values, categories that no row has, and episodes and steps in the index."""
    pd = pytest.importorskip("pandas")
    frame = _pandas(table, path).convert_dtypes()
    kinds = pd.CategoricalDtype(["nobody", *sorted(set(table.columns["episode"]), reverse=True)])
    return frame.astype({"episode": kinds}).set_index(["episode", "step"])


def _tsv(table: Table, path: Path) -> Path:
    path.with_suffix(".tsv").write_text(_csv(table, path).read_text().replace(",", "\t"))
    return path.with_suffix(".tsv")


def _sqlite(table: Table, path: Path) -> str:
    with closing(sqlite3.connect(path.with_suffix(".db"))) as connection:
        _pandas(table, path).to_sql("visits", connection, index=False)
    return f"sqlite:{path.with_suffix('.db')}?table=visits"


def _duckdb(table: Table, path: Path) -> Any:  # noqa: ARG001
    return pytest.importorskip("duckdb").from_arrow(pa.table(table.columns))


def _encoded(table: Table, path: Path) -> Path:
    """An Arrow stream with a dictionary that holds every id twice, and numbers in a dictionary."""
    columns = {name: pa.array(column) for name, column in table.columns.items()}
    ids = columns["episode"].dictionary_encode()
    twice = pa.concat_arrays([ids.dictionary, ids.dictionary])
    odd = pa.array(np.asarray(ids.indices) + len(ids.dictionary) * (np.arange(len(ids)) % 2))
    columns["episode"] = pa.DictionaryArray.from_arrays(odd, twice)
    columns["obs_age"] = columns["obs_age"].dictionary_encode()
    own = pa.table(columns)
    with pa.ipc.new_stream(path.with_suffix(".arrow"), own.schema) as writer:
        writer.write_table(own)
    return path.with_suffix(".arrow")


def _polars(table: Table, path: Path) -> Any:  # noqa: ARG001
    pl = pytest.importorskip("polars")
    return pl.DataFrame(table.columns)


def _lazy(table: Table, path: Path) -> Any:
    return _polars(table, path).lazy()


def _arrow(table: Table, path: Path) -> Any:  # noqa: ARG001
    return pa.table(table.columns).to_reader(max_chunksize=50)


def _folder(table: Table, path: Path) -> Path:
    """Two files, cut in the middle of an episode, the later rows first."""
    path.mkdir()
    half = len(table.columns["reward"]) // 2 + 1
    _csv(table.rows(slice(half, None)), path / "a")
    _csv(table.rows(slice(half)), path / "b")
    return path


def _shards(table: Table, path: Path) -> Path:
    shard([_parquet(table, path)], path.with_suffix(".shards"), n_shards=3)
    return path.with_suffix(".shards")


SOURCES = {
    f.__name__[1:]: f
    for f in (
        *(_csv, _tsv, _jsonl, _parquet, _feather, _npz, _sqlite, _duckdb, _encoded),
        *(_pandas, _nullable, _polars, _lazy, _arrow, _folder, _shards),
    )
}

# --- the loop ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def before() -> dict[str, Numbers]:
    """The answers to the table as it is."""
    log = read(ORIGINAL.columns)
    return {name: answer(ORIGINAL, log) for name, answer in ANSWERS.items()}


def assert_same(found: Numbers, expected: Numbers, tolerance: float) -> None:
    assert found.keys() == expected.keys()
    scale = max(abs(value) for value in expected.values())
    for name, value in expected.items():
        assert found[name] == pytest.approx(value, rel=tolerance, abs=tolerance * scale), name


@pytest.mark.parametrize("answer", ANSWERS)
@pytest.mark.parametrize("law", LAWS)
def test_law(law: str, answer: str, before: dict[str, Numbers]) -> None:
    change, expected = LAWS[law].change(ORIGINAL), LAWS[law].expected
    found = ANSWERS[answer](change, opened(change))
    assert_same(found, {n: expected(answer, n, v) for n, v in before[answer].items()}, LAWS[law].tolerance)


@pytest.mark.parametrize("source", SOURCES)
def test_source(source: str, before: dict[str, Numbers], tmp_path: Path) -> None:
    given = SOURCES[source](ORIGINAL, tmp_path / "log")
    log = given if isinstance(given, (Path, str)) else read(given)  # files are read by the answers themselves
    for name, answer in ANSWERS.items():
        assert_same(answer(ORIGINAL, log), before[name], 1e-8)


def test_dask_gives_the_answers_of_memory(before: dict[str, Numbers], tmp_path: Path) -> None:
    from distributed import Client

    from sparsetd.logs.dask import Dask

    folder = _shards(ORIGINAL, tmp_path / "log")
    with Client(processes=False, n_workers=1, threads_per_worker=1, dashboard_address=None) as client:
        for answer in (evaluated, compared, bounded, improved):
            assert_same(answer(ORIGINAL, folder, engine=Dask(client)), before[answer.__name__], 1e-8)


# --- identities between answers ---------------------------------------------------------------------------------------


def test_the_value_of_what_was_done_is_the_mean_return() -> None:
    log = read(ORIGINAL.columns)
    mean = np.mean([episode.reward @ GAMMA ** np.arange(len(episode)) for episode in log.episodes()])
    assert sparsetd.evaluate(log, "behavior", gamma=GAMMA, n_resamples=0).value == pytest.approx(mean, rel=1e-9)
    assert sparsetd.compare(log, {"done": "behavior"}, gamma=GAMMA).to_dict()["values"][0]["value"] == pytest.approx(
        mean, rel=1e-9
    )


@pytest.mark.parametrize("law", LAWS)
def test_a_comparison_of_one_policy_is_its_evaluation(law: str) -> None:
    table = LAWS[law].change(ORIGINAL)
    log = opened(table)
    alone = sparsetd.compare(log, {"asked": policy(table)}, gamma=GAMMA).to_dict()["values"][0]
    assert_same(with_interval("value", alone["value"], alone["interval"]), evaluated(table, log), 1e-12)


def test_nothing_hidden_is_the_evaluation() -> None:
    log = read(ORIGINAL.columns)
    bound = bounded(ORIGINAL, log)
    value = evaluated(ORIGINAL, log)["value"]
    assert bound["bounds from at 1.0"] == pytest.approx(value, rel=1e-9)
    assert bound["bounds to at 1.0"] == pytest.approx(value, rel=1e-9)


def test_a_model_that_was_saved_goes_on_as_if_it_had_not_been(tmp_path: Path) -> None:
    log = read(ORIGINAL.columns)
    X, y, X_next, ends = log.observation, log.reward, log.next_observation, log.terminated
    discount = GAMMA * ~ends
    whole, half = TDC(gamma=GAMMA), TDC(gamma=GAMMA)
    whole.partial_fit(X, y, X_next, discount=discount)
    half.partial_fit(X[:100], y[:100], X_next[:100], discount=discount[:100])
    sparsetd.save(half, tmp_path / "half.sparsetd")
    again = sparsetd.load(tmp_path / "half.sparsetd")
    again.partial_fit(X[100:], y[100:], X_next[100:], discount=discount[100:])
    assert np.array_equal(again.coef_, whole.coef_)
    assert again.coef_.any()


def test_sparse_rows_give_the_answers_of_dense_rows(before: dict[str, Numbers]) -> None:
    log = read(ORIGINAL.columns)
    here, there = sp.csr_array(log.observation), sp.csr_array(log.next_observation)
    for name, answer in ANSWERS.items():
        assert_same(answer(ORIGINAL, replace(log, observation=here, next_observation=there)), before[name], 1e-8)


def test_joined_parts_are_the_log(before: dict[str, Numbers]) -> None:
    ids = ORIGINAL.columns["episode"]
    first = np.isin(ids, np.unique(ids)[::2])
    log = concatenate([read(ORIGINAL.rows(first).columns), read(ORIGINAL.rows(~first).columns)])
    for name in ("evaluated", "compared", "bounded", "fitted"):
        assert_same(ANSWERS[name](ORIGINAL, log), before[name], 1e-9)
