"""The commands that read a log: what they print and write, and how they refuse (exit 2, one sentence, no file)."""

from __future__ import annotations

import csv
import importlib.util
import json
import re
import warnings
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from sparsetd import prepare, read
from sparsetd.cli import main
from sparsetd.cli.options import check_output
from sparsetd.estimators import model_file
from sparsetd.estimators.fit_stream import fit_in_parts

COLUMNS = [
    *("episode", "step", "obs_a", "obs_b", "action", "reward", "next_obs_a", "next_obs_b"),
    *("terminated", "truncated", "behavior_prob", "target_prob"),
]


def rows(seed=0, episodes=40, length=5):
    rng = np.random.default_rng(seed)
    out = []
    for episode in range(episodes):
        s = rng.normal(size=2)
        for t in range(length):
            action, after = int(rng.integers(2)), 0.8 * s + rng.normal(size=2) * 0.3
            mu, pi = 0.5, 0.7 if action else 0.3
            last = int(t == length - 1)
            values = [episode, t, s[0], s[1], action, s[0] + action, after[0], after[1], last, 0, mu, pi]
            out.append(dict(zip(COLUMNS, map(str, values), strict=True)))
            s = after
    return out


def write(path, table, columns=COLUMNS):
    with open(path, "w", newline="") as file:
        writer = csv.DictWriter(file, columns)
        writer.writeheader()
        writer.writerows(table)
    return str(path)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def log(folder):
    return write(folder / "log.csv", rows())


def run(capsys, *words):
    code = main(list(words))
    shown = capsys.readouterr()
    return code, shown.out, shown.err


def test_evaluate_prints_one_object(capsys, log, folder):
    code, out, err = run(
        capsys, "evaluate", log, "--target", "target_prob", "--gamma", "0.9", "--json", "--report", "r.html"
    )
    data = json.loads(out)
    assert code == 0
    assert {"value", "interval", "ess", "max_ratio", "coverage", "features"} <= set(data)
    assert data["interval"][0] < data["value"] < data["interval"][1]
    assert data["max_ratio"] == pytest.approx(1.4)
    assert data["report"] == "r.html"
    assert (folder / "r.html").read_text().startswith("<!doctype html>")
    assert re.search(r"choosing among \d+ features", err)
    assert data["settings"]["log"] == log


def test_evaluate_is_quiet_and_repeatable(capsys, log):
    words = ["evaluate", log, "--all-features", "--n-resamples", "0", "--json", "--quiet"]
    first, second = run(capsys, *words), run(capsys, *words)
    assert first == second
    assert first[2] == ""


def test_evaluate_in_words(capsys, log):
    code, out, _ = run(capsys, "evaluate", log, "--target", "behavior", "--all-features", "--n-resamples", "0")
    assert code == 0
    assert out.startswith("What would the policy “the logged behaviour itself” have been worth? ")


def test_evaluate_a_function_and_a_greedy_model(capsys, log, folder):
    (folder / "my_policies.py").write_text(
        "import numpy as np\n"
        "def often(s):\n    return np.tile([0.3, 0.7], (len(s), 1))\n"
        "def wrong(s):\n    return np.ones((len(s), 2))\n"
        "number = 3\n"
    )
    code, out, _ = run(capsys, "evaluate", log, "--target", "my_policies:often", "--all-features", "--json")
    same = json.loads(run(capsys, "evaluate", log, "--target", "target_prob", "--all-features", "--json")[1])
    assert code == 0
    assert json.loads(out)["value"] == pytest.approx(same["value"])
    fit = ["fit", log, "--method", "LSTD", "--target", "my_policies:often", "--out", "q.sparsetd"]
    assert run(capsys, *fit)[0] == 0
    judge = ["evaluate", log, "--target", "greedy:q.sparsetd", "--all-features", "--json"]
    code, _, err = run(capsys, *judge)
    assert code == 2
    assert "The policy was learnt from" in err
    assert run(capsys, *fit, "--part", "1/2")[0] == 0
    assert run(capsys, *judge)[0] == 2
    code, out, _ = run(capsys, *judge, "--part", "2/2")
    assert code == 0
    assert json.loads(out)["target"] == "greedy in the given model"
    for target, message in [
        ("my_policies:wrong", "distribution"),
        ("my_policies:no", "no function"),
        ("my_policies:number", "not a"),
    ]:
        code, out, err = run(capsys, "evaluate", log, "--target", target, "--quiet")
        assert (code, out) == (2, "")
        assert message in err


FAILING = """
import numpy as np
def divides(s):
    return 1 / 0
def of_one_row(s):
    return [0.3, 0.7] if s[0] > 0 else [0.5, 0.5]
class Often:
    def __call__(self, s):
        return np.tile([0.3, 0.7], (len(s), 1))
often = Often()
"""


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("failing:divides", "the policy 'failing:divides' failed (ZeroDivisionError: division by zero): it is called"),
        ("failing:of_one_row", "called once with all observations, an array of shape (200, 2)"),
        ("broken:f", "the policy 'broken:f' cannot be imported (SyntaxError: "),
        ("crashing:f", "the policy 'crashing:f' cannot be imported (AttributeError: "),
        (":f", "the policy ':f' cannot be imported"),
    ],
)
def test_the_failure_of_a_policy_is_told_as_its_own(capsys, log, folder, target, message):
    (folder / "failing.py").write_text(FAILING)
    (folder / "broken.py").write_text("def f(:\n")
    (folder / "crashing.py").write_text("import math\nmath.no_such_name\n")
    code, out, err = run(capsys, "evaluate", log, "--target", target, "--quiet")
    assert (code, out) == (2, "")
    assert message in err
    assert len(err.splitlines()) == 1


def test_a_policy_may_be_named_by_its_file_and_be_an_object(capsys, log, folder):
    (folder / "objects.py").write_text(FAILING)
    code, out, _ = run(capsys, "evaluate", log, "--target", "objects.py:often", "--all-features", "--n-resamples", "0")
    assert code == 0
    assert out.startswith("What would the policy “often” have been worth? ")


def test_a_warning_is_one_line_without_code(capsys, folder):
    constant = [{**row, "reward": "0"} for row in rows(episodes=6)]
    path = write(folder / "constant.csv", constant)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        code, _, err = run(capsys, "fit", path, "--out", "m.sparsetd", "--quiet")
    assert code == 0
    assert err.startswith("sparsetd: warning: SparseTDSelect selected no feature")
    assert len(err.splitlines()) == 1


def test_evaluate_estimates_a_missing_behaviour(capsys, folder):
    table = [{k: v for k, v in row.items() if k != "behavior_prob"} for row in rows()]
    log = write(folder / "bare.csv", table, [c for c in COLUMNS if c != "behavior_prob"])
    for classifier in ([], ["--classifier", "boosting"]):
        code, out, _ = run(capsys, "evaluate", log, "--target", "target_prob", "--all-features", "--json", *classifier)
        assert code == 0
        assert "estimated from the logged actions" in json.loads(out)["behavior_policy"]


def test_fit_then_predict(capsys, log, folder):
    code, out, _ = run(capsys, "fit", log, "--out", "m.sparsetd", "--gamma", "0.9", "--method", "LSTD", "--json")
    assert code == 0
    assert {f["name"] for f in json.loads(out)["features"]} == {"a", "b"}
    model = model_file.load(folder / "m.sparsetd")
    assert model.estimator_.gamma == 0.9
    code, out, _ = run(capsys, "predict", "m.sparsetd", log)
    lines = out.splitlines()
    assert lines[0] == "row,episode,value"
    assert len(lines) == 201
    observation = [[float(row["obs_a"]), float(row["obs_b"])] for row in rows()]
    values = [float(line.split(",")[2]) for line in lines[1:]]
    np.testing.assert_array_equal(values, model.value(observation))
    code, out, _ = run(capsys, "predict", "m.sparsetd", log, "--out", "v.csv")
    assert (folder / "v.csv").read_text().splitlines() == lines
    assert json.loads(run(capsys, "predict", "m.sparsetd", log, "--json")[1])["values"] == values


def test_predict_keeps_every_row_where_the_file_has_it(capsys, log, folder):
    """States in any order without rewards, episodes by their own names, the last rows of open episodes: none moves."""
    assert run(capsys, "fit", log, "--out", "m.sparsetd", "--method", "LSTD")[0] == 0
    columns = ["obs_a", "obs_b", "episode"]
    shuffled = [{**row, "episode": f"patient, {row['episode']}"} for row in rows()]
    np.random.default_rng(0).shuffle(shuffled)
    path = write(folder / "s.csv", [{name: row[name] for name in columns} for row in shuffled], columns)
    lines = list(csv.DictReader(run(capsys, "predict", "m.sparsetd", path)[1].splitlines()))
    observation = [[float(row["obs_a"]), float(row["obs_b"])] for row in shuffled]
    expected = model_file.load(folder / "m.sparsetd").value(observation)
    np.testing.assert_array_equal([float(line["value"]) for line in lines], expected)
    assert [line["episode"] for line in lines] == [row["episode"] for row in shuffled]
    assert [line["row"] for line in lines] == [str(i) for i in range(200)]


def test_a_model_remembers_how_the_columns_of_its_log_are_called(capsys, folder):
    renamed = {"obs_a": "age", "obs_b": "lactate", "reward": "score", "episode": "stay", "terminated": "dead"}
    kept = ["stay", "step", "age", "lactate", "action", "score", "dead"]
    table = [{renamed.get(k, k): v for k, v in row.items() if renamed.get(k, k) in kept} for row in rows()]
    log = write(folder / "log.csv", table, kept)
    names = ["observation=age,lactate", "reward=score", "episode=stay", "terminated=dead"]
    words = [word for name in names for word in ("--column", name)]
    assert run(capsys, "fit", log, "--out", "m", "--method", "TDC", *words)[0] == 0
    code, out, err = run(capsys, "predict", "m", log)
    assert (code, out.splitlines()[0]) == (0, "row,episode,value")
    assert "columns are named as for the fit: observation=age,lactate, reward=score, episode=stay" in err
    assert run(capsys, "predict", "m", log, *words[:2], "--column", "episode=stay")[1] == out
    states = write(
        folder / "states.csv", [{k: row[k] for k in ("age", "lactate")} for row in table], ["lactate", "age"]
    )
    values = [line.rpartition(",")[2] for line in out.splitlines()]
    assert [line.rpartition(",")[2] for line in run(capsys, "predict", "m", states)[1].splitlines()] == values
    other = write(folder / "usual.csv", rows())
    assert run(capsys, "predict", "m", other, "--column", "observation=obs_a,obs_b")[0] == 2  # other features
    code, _, err = run(capsys, "fit", log, "--out", "again", "--init", "m")
    assert code == 0, err
    assert model_file.read_notes(folder / "again")["columns"] == model_file.read_notes(folder / "m")["columns"]


@pytest.mark.parametrize("features", ["raw", "standard", "fourier", "tiles"])
def test_fit_with_other_features_and_settings(capsys, log, features):
    words = ["fit", log, "--out", "m.sparsetd", "--method", "LSTD", "--set", "alpha=0.1", "--features", features]
    assert run(capsys, *words)[0] == 0
    assert model_file.load("m.sparsetd").estimator_.alpha == 0.1
    assert run(capsys, "predict", "m.sparsetd", log)[0] == 0


def test_fit_with_a_checkpoint_gives_the_same_file(capsys, log, folder):
    words = ["fit", log, "--method", "TDC", "--set", "step_size=0.01"]
    assert run(capsys, *words, "--out", "a.sparsetd")[0] == 0
    assert run(capsys, *words, "--out", "b.sparsetd", "--checkpoint", "kept")[0] == 0
    a, b = (model_file.load(folder / name).estimator_ for name in ("a.sparsetd", "b.sparsetd"))
    assert a.coef_.tobytes() == b.coef_.tobytes()
    assert not (folder / "kept").exists()


def test_the_time_between_two_checkpoints_can_be_chosen(capsys, log, monkeypatch):
    monkeypatch.setattr("sparsetd.cli.models.fit_in_parts", partial(fit_in_parts, rows=20))
    words = ["fit", log, "--method", "TDC", "--out", "a.sparsetd", "--checkpoint", "kept"]
    _, _, seldom = run(capsys, *words)
    _, _, often = run(capsys, *words, "--checkpoint-every", "1e-9")
    assert seldom.count("checkpoint after") == 0
    assert often.count("checkpoint after") > 2


def shuffled(log, path):
    """The same rows with the columns in another order."""
    lines = [line.split(",") for line in Path(log).read_text().splitlines()]
    path.write_text("".join(",".join(reversed(line)) + "\n" for line in lines))
    return str(path)


def test_a_model_goes_on_from_its_file(capsys, log, folder):
    """A day after a day is one stream; the features are those of the first day, matched by name."""
    words = ["--method", "TDC", "--set", "step_size=0.01"]
    assert run(capsys, "fit", log, *words, "--out", "one.sparsetd")[0] == 0
    first = model_file.load("one.sparsetd")
    for more in ([], ["--checkpoint", "kept"]):
        again = ["fit", shuffled(log, folder / "today.csv"), "--init", "one.sparsetd", "--out", "two.sparsetd"]
        code, out, _ = run(capsys, *again, *more)
        assert code == 0
        assert out.startswith("TDC: finished")
        two = model_file.load("two.sparsetd")
        expected = model_file.load("one.sparsetd").partial_fit(read(log))
        np.testing.assert_allclose(two.estimator_.coef_, expected.estimator_.coef_, rtol=1e-12)
        assert two.estimator_.n_iter_ == 2 * first.estimator_.n_iter_
        assert not (folder / "kept").exists()


def test_shards_go_on_from_a_model_file(capsys, log):
    assert run(capsys, "fit", log, "--method", "TDC", "--set", "step_size=0.01", "--out", "one.sparsetd")[0] == 0
    assert run(capsys, "shard", log, "--out", "parts", "--shards", "3")[0] == 0
    assert run(capsys, "fit", "parts", "--init", "one.sparsetd", "--out", "two.sparsetd")[0] == 0
    one, two = model_file.load("one.sparsetd"), model_file.load("two.sparsetd")
    assert two.estimator_.n_iter_ == 2 * one.estimator_.n_iter_
    assert two.feature_names_.tolist() == one.feature_names_.tolist()


@pytest.mark.parametrize("lacking", ["target_prob", "behavior_prob"])
def test_a_fit_says_whose_values_it_learns_and_does_not_change_the_policy(capsys, log, folder, lacking):
    line = ["fit", log, "--method", "TDC", "--out", "one.sparsetd"]
    assert "values are those of the policy of the log's `target_prob` or `ratio`" in run(capsys, *line)[2]
    table = [{k: v for k, v in row.items() if k != lacking} for row in rows()]
    today = write(folder / "today.csv", table, [c for c in COLUMNS if c != lacking])
    fresh = ["fit", today, "--method", "TDC", "--out", "two.sparsetd"]
    assert "values are those of what was done" in run(capsys, *fresh)[2]
    code, _, err = run(capsys, "fit", today, "--init", "one.sparsetd", "--out", "three.sparsetd")
    assert code == 2
    assert "one.sparsetd holds values of the policy of the log's `target_prob` or `ratio`, and this log has" in err


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--init", "lstd.sparsetd"], "holds no solver state: go on from a file"),
        (["--init", "tdc.sparsetd", "--method", "TD"], "--method is settled by the model file that --init names"),
        (["--init", "tdc.sparsetd", "--gamma", "0.5"], "--gamma is settled by the model file"),
        (["--init", "tdc.sparsetd", "--target", "1 if a > 0; else 0"], "holds state values: leave --target out"),
        (["--set", "gamma=0.5", "--gamma", "0.9"], "write --gamma"),
        (["--set", "eta=1", "--set", "eta=2"], "'eta' is given twice: give it once"),
        (["--export", "m.pkl"], "must end in .sparsetd or .json or .onnx"),
    ],
    ids=" ".join,
)
def test_what_a_fit_cannot_do_is_one_sentence(capsys, log, folder, words, sentence):
    for method in ("LSTD", "TDC"):
        assert run(capsys, "fit", log, "--method", method, "--out", f"{method.lower()}.sparsetd")[0] == 0
    code, _, err = run(capsys, "fit", log, "--out", "new.sparsetd", *words)
    assert code == 2
    assert sentence in err
    assert not (folder / "new.sparsetd").exists()


def test_exports_hold_the_weights_alone(capsys, log, folder):
    words = ["fit", log, "--method", "ROTD", "--out", "m.sparsetd", "--export"]
    for name in ("serving.sparsetd", "m.json"):
        assert run(capsys, *words, name)[0] == 0
    model, served = model_file.load("m.sparsetd"), model_file.load("serving.sparsetd")
    rows = read(log).observation
    assert served.value(rows).tobytes() == model.value(rows).tobytes()
    assert (folder / "serving.sparsetd").stat().st_size < (folder / "m.sparsetd").stat().st_size
    told = json.loads((folder / "m.json").read_text())
    values = rows[:, told["columns"]] @ told["weights"] + told["intercept"]
    np.testing.assert_allclose(values, model.value(rows), rtol=1e-10)


def test_select_shows_the_path_and_the_choice(capsys, log):
    code, out, _ = run(capsys, "select", log, "--target", "target_prob", "--json", "--quiet")
    data = json.loads(out)
    assert code == 0
    assert [row["chosen"] for row in data["path"]].count("lets in all") == 1
    assert {f["name"] for f in data["features"]} <= {"a", "b"}
    assert "lets in all" in run(capsys, "select", log, "--quiet")[1]


def test_a_folder_of_shards_stands_in_for_the_log(capsys, log, tmp_path):
    code, out, _ = run(capsys, "shard", log, "--out", "shards", "--shards", "3", "--json")
    assert code == 0
    assert json.loads(out)["rows"] == 200
    for source in ("shards", "shards/*.parquet"):
        assert json.loads(run(capsys, "inspect", source, "--json")[1])["n_rows"] == 200
    asked = (("evaluate", log), ("select", log), ("select", "shards"))
    whole, *found = (json.loads(run(capsys, *words, "--json", "--quiet")[1])["features"] for words in asked)
    for features in found:
        assert [f["name"] for f in features] == [f["name"] for f in whole]
        assert [f["weight"] for f in features] == pytest.approx([f["weight"] for f in whole], rel=1e-6)
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "x.txt").write_text("mine")
    code, _, err = run(capsys, "shard", log, "--out", "more")
    assert code == 2
    assert "is not empty: name a new folder" in err


def test_inspect_says_what_it_understood(capsys, log):
    code, out, _ = run(capsys, "inspect", log)
    assert code == 0
    assert "200 transitions in 40 episodes" in out
    assert json.loads(run(capsys, "inspect", log, "--json")[1])["n_rows"] == 200


def test_columns_can_be_named(capsys, folder):
    renamed = {
        "obs_a": "heart",
        "obs_b": "age",
        "next_obs_a": "next_heart",
        "next_obs_b": "next_age",
        "reward": "score",
    }
    table = [{renamed.get(k, k): v for k, v in row.items()} for row in rows()]
    log = write(folder / "named.csv", table, [renamed.get(c, c) for c in COLUMNS])
    words = ["--column", "observation=heart,age", "--column", "reward=score"]
    code, out, _ = run(capsys, "evaluate", log, "--all-features", "--json", *words)
    assert code == 0
    assert {f["name"] for f in json.loads(out)["features"]} == {"heart", "age"}


def test_example_and_evaluate_are_the_two_commands_of_the_readme(capsys):
    if importlib.util.find_spec("icu_sepsis") is None:
        pytest.skip("needs icu-sepsis")
    code, out, _ = run(capsys, "example", "icu-sepsis", "--out", "icu.parquet", "--episodes", "300", "--json")
    truth = json.loads(out)["true_value"]
    assert (code, truth) == (0, pytest.approx(0.7868, abs=1e-4))
    words = ["evaluate", "icu.parquet", "--target", "target_prob", "--gamma", "1", "--report", "icu.html", "--json"]
    words += ["--n-resamples", "2"]
    code, out, _ = run(capsys, *words)
    data = json.loads(out)
    assert code == 0
    assert data["n_candidates"] == 47
    assert abs(data["value"] - truth) < 4 * data["standard_error"]


# ---- wrong input -------------------------------------------------------------------------------------------------

NUMBERS = ["obs_a", "obs_b", "reward", "next_obs_a", "next_obs_b"]
PROBABILITIES = ["behavior_prob", "target_prob"]
FLAGS = ["terminated", "truncated"]
BAD_CELLS = [
    *(
        (column, value)
        for column in NUMBERS
        for value in ("nan", "", "inf", "-inf", "abc", "1,5", "0x1F", "1e400", "None", "--3")
    ),
    *(
        (column, value)
        for column in PROBABILITIES
        for value in ("nan", "", "inf", "-0.1", "1.1", "2", "abc", "1e400", "-1e-9")
    ),
    ("behavior_prob", "0"),
    ("behavior_prob", "-0.0"),
    *((column, value) for column in FLAGS for value in ("2", "-1", "0.5", "maybe", "nan", "")),
    *(("action", value) for value in ("nan", "abc", "", "1.5x", "inf")),
    *(("step", value) for value in ("nan", "abc", "", "inf")),
    ("episode", ""),
]


@pytest.mark.parametrize(("column", "value"), BAD_CELLS, ids=lambda text: repr(text)[:14])
def test_a_bad_cell_is_named_by_column_and_row(capsys, folder, column, value):
    table = rows()
    table[7][column] = value
    log = write(folder / "log.csv", table)
    code, out, err = run(capsys, "evaluate", log, "--target", "target_prob", "--report", "r.html", "--quiet", "--json")
    assert code == 2, out[:300]
    said = json.loads(out)  # a program that reads JSON is told in JSON
    assert said["exit_code"] == 2
    assert said["error"] in err
    assert column in err
    assert "row 7" in err or "line 9" in err
    assert_one_sentence(err)
    assert sorted(p.name for p in folder.iterdir()) == ["log.csv"]


def assert_one_sentence(err):
    assert err.startswith("sparsetd")
    assert len(err.strip().splitlines()) == 1, err
    assert "Traceback" not in err


def drop(*names):
    def change(table):
        return [{k: v for k, v in row.items() if k not in names} for row in table], [
            c for c in COLUMNS if c not in names
        ]

    return change


def all_cells(column, value):
    return lambda table: ([{**row, column: value} for row in table], COLUMNS)


BAD_TABLES = {
    "no reward": (drop("reward"), "reward"),
    "no observation": (drop("obs_a", "obs_b"), "observation"),
    "half the successors": (drop("next_obs_b"), "next_obs_b"),
    "no rows": (lambda _: ([], COLUMNS), "no rows"),
    "one episode": (lambda table: (table[:5], COLUMNS), "episode"),
    "three episodes for five folds": (lambda table: (table[:15], COLUMNS), "folds"),
    "the target never agrees": (all_cells("target_prob", "0"), "target_prob"),
    "a column twice": (lambda table: (table, [*COLUMNS[:-1], "reward"]), "reward"),
    "a step twice": (lambda table: ([{**row, "step": "3"} for row in table], COLUMNS), "step"),
    "a row after the end": (lambda table: ([{**row, "terminated": "1"} for row in table], COLUMNS), "terminated"),
}


@pytest.mark.parametrize("name", BAD_TABLES)
def test_a_bad_table_is_refused(capsys, folder, name):
    change, word = BAD_TABLES[name]
    table, columns = change(rows())
    with open(folder / "log.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows([[row.get(c, "0") for c in columns] for row in table])
    code, out, err = run(capsys, "evaluate", "log.csv", "--target", "target_prob", "--report", "r.html", "--quiet")
    assert (code, out) == (2, "")
    assert word in err
    assert_one_sentence(err)
    assert not (folder / "r.html").exists()


BAD_FILES = {
    "nothing.csv": None,
    "empty.csv": b"",
    "header.csv": b"obs_a,reward\n",
    "binary.csv": bytes(range(256)) * 4,
    "latin.csv": "obs_a,reward\n1,2\nä,3\n".encode("latin-1"),
    "nul.csv": b"obs_a,reward\n1,\0\n",
    "ragged.csv": b"obs_a,reward\n1,2\n1\n",
    "wide.csv": b"obs_a,reward\n1,2\n1,2,3\n",
    "quote.csv": b'obs_a,reward\n1,"2\n',
    "log.xlsx": b"PK\x03\x04",
    "log": b"obs_a,reward\n1,2\n",
    "broken.parquet": b"PAR1 not really",
    "empty.parquet": b"",
    "broken.arrow": b"ARROW1\0\0 not really",
    "broken.npz": b"PK\x03\x04 not really",
    "empty.npz": b"",
    "broken.jsonl": b'{"obs_a": 1, "reward": 2}\n{"obs_a": 1,\n',
    "list.jsonl": b"[1, 2]\n",
    "empty.jsonl": b"",
    "nan.jsonl": b'{"obs_a": NaN, "reward": 1, "terminated": 1}\n',
    "deep.jsonl": b"[" * 100_000 + b"\n",
    "nested.jsonl": b'{"obs_a": {"x": 1}, "reward": 1}\n',
}


@pytest.mark.parametrize("command", ["inspect", "evaluate", "select", "fit"])
@pytest.mark.parametrize("name", BAD_FILES)
def test_a_bad_file_is_refused(capsys, folder, name, command):
    if BAD_FILES[name] is not None:
        (folder / name).write_bytes(BAD_FILES[name])
    before = sorted(p.name for p in folder.iterdir())
    more = ["--out", "m.sparsetd", "--method", "LSTD"] if command == "fit" else []
    code, out, err = run(capsys, command, name, "--quiet", *more)
    assert (code, out) == (2, "")
    assert_one_sentence(err)
    assert sorted(p.name for p in folder.iterdir()) == before


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["evaluate", "LOG", "--gamma", "2"], "between 0 and 1"),
        (["evaluate", "LOG", "--gamma", "x"], "between 0 and 1"),
        (["evaluate", "LOG", "--level", "95"], "between 0 and 1"),
        (["evaluate", "LOG", "--level", "1"], "strictly between 0 and 1"),
        (["evaluate", "LOG", "--n-folds", "1"], "at least 2"),
        (["evaluate", "LOG", "--n-folds", "99"], "fewer than 99 folds"),
        (["evaluate", "LOG", "--n-resamples", "-1"], "at least 0"),
        (["evaluate", "LOG", "--random-state", "x"], "at least 0"),
        (["evaluate", "LOG", "--target", "no_such_column"], "no_such_column"),
        (["evaluate", "LOG", "--target", "no_such_module:f"], "no_such_module"),
        (["evaluate", "LOG", "--target", "greedy:nothing"], "nothing"),
        (["evaluate", "LOG", "--target", "greedy:LOG"], "not a sparsetd file"),
        (["evaluate", "LOG", "--report", "r.pdf"], "must end in"),
        (["evaluate", "LOG", "--report", "no/where/r.html"], "does not exist"),
        (["evaluate", "LOG", "--classifier", "magic"], "invalid choice"),
        (["evaluate", "LOG", "--column", "reward"], "ROLE=NAME"),
        (["evaluate", "LOG", "--column", "prize=reward"], "prize"),
        (["evaluate", "LOG", "--column", "reward=prize"], "prize"),
        (["evaluate"], "LOG"),
        (["fit", "LOG"], "--out"),
        (["fit", "LOG", "--out", "m", "--method", "LTSD"], "did you mean 'LSTD'"),
        (["fit", "LOG", "--out", "m", "--method", "LSTD", "--set", "rho=1"], "rho"),
        (["fit", "LOG", "--out", "m", "--method", "LSTD", "--set", "alpha=-1"], "alpha"),
        (["fit", "LOG", "--out", "m", "--method", "LSTD", "--set", "alpha=x"], "alpha"),
        (["fit", "LOG", "--out", "m", "--set", "rho_theta"], "NAME=VALUE"),
        (["fit", "LOG", "--out", "no/where/m", "--method", "LSTD"], "does not exist"),
        (["fit", "LOG", "--out", ".", "--method", "LSTD"], "is a folder"),
        (["fit", "LOG", "--out", "m", "--method", "LSTD", "--target", "nowhere:f"], "nowhere"),
        (["predict", "nothing", "LOG"], "error: nothing: No such file or directory"),
        (["predict", "LOG", "LOG"], "not a sparsetd file"),
        (["predict", "LOG", "LOG", "--out", "v.txt"], ".csv"),
        (["select", "LOG", "--gamma", "2"], "between 0 and 1"),
        (["example", "icu-sepsis", "--out", "x.txt"], "must end in"),
        (["example", "icu-sepsis", "--out", "x.csv", "--episodes", "0"], "at least 1"),
        (["example", "icu", "--out", "x.csv"], "invalid choice"),
    ],
    ids=lambda value: " ".join(value)[:40] if isinstance(value, list) else None,
)
def test_wrong_words_are_refused(capsys, log, folder, words, message):
    code, out, err = run(capsys, *(word.replace("LOG", log) for word in words))
    assert (code, out) == (2, "")
    assert message in err
    assert "Traceback" not in err
    assert sorted(p.name for p in folder.iterdir()) == ["log.csv"]


def test_predict_refuses_another_width(capsys, log, folder):
    assert run(capsys, "fit", log, "--out", "m.sparsetd", "--method", "LSTD")[0] == 0
    narrow = write(folder / "n.csv", *drop("obs_b", "next_obs_b")(rows()))
    code, _, err = run(capsys, "predict", "m.sparsetd", narrow)
    assert code == 2
    assert "fitted to a column 'b' that the data does not have" in err
    np.savez("nameless.npz", observation=np.zeros((3, 5)))
    code, _, err = run(capsys, "predict", "m.sparsetd", "nameless.npz")
    assert code == 2
    assert "`observation` must have 2 columns as in `fit`, but row 0 has 5" in err


def test_a_full_disk_leaves_the_old_report(capsys, log, folder, monkeypatch):
    (folder / "r.html").write_text("old")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    code, out, err = run(
        capsys, "evaluate", log, "--all-features", "--n-resamples", "0", "--report", "r.html", "--quiet"
    )
    assert (code, out) == (1, "")
    assert err == "sparsetd: error: r.html: No space left on device; this file was not written\n"
    assert (folder / "r.html").read_text() == "old"
    assert sorted(p.name for p in folder.iterdir()) == ["log.csv", "r.html"]


def test_fit_says_that_it_adds_a_constant(log, capsys):
    line = ["fit", log, "--out", "m.sparsetd", "--method", "LSTD", "--quiet"]
    code, out, _ = run(capsys, *line)
    assert code == 0
    assert "and a constant, " in out
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        code, out, err = run(capsys, *line, "--set", "fit_intercept=false")
    assert code == 0
    assert "constant" not in out
    assert "every feature has mean 0" in err


def test_fit_does_not_select_among_very_many_columns(folder, capsys):
    path = folder / "hashed.jsonl"
    path.write_text(
        "".join(f'{{"episode": {i}, "indices": [{i}, 19999], "reward": 1, "terminated": 1}}\n' for i in range(20))
    )
    code, _, err = run(capsys, "fit", str(path), "--out", "m.sparsetd", "--quiet")
    assert code == 2
    assert "the log has 20,000: name another method with --method, for instance --method TDC" in err
    assert len(err.splitlines()) == 1


def test_output_paths_are_checked_first(tmp_path, monkeypatch):
    check_output(None)
    check_output(str(tmp_path / "x.HTML"), ".html")
    monkeypatch.setattr("os.access", lambda *_: False)
    with pytest.raises(ValueError, match="cannot be written to; choose another"):
        check_output(str(tmp_path / "x.html"))


GREEDY = [
    "evaluate",
    "--part",
    "2/2",
    "--target",
    "greedy:q.sparsetd",
    "--all-features",
    "--n-resamples",
    "0",
    "--json",
]


@pytest.mark.parametrize("words", [["predict", "m.sparsetd"], ["predict", "q.sparsetd"], GREEDY])
def test_columns_are_matched_with_a_model_by_name(capsys, log, folder, words):
    (folder / "halves.py").write_text("import numpy as np\ndef half(s):\n    return np.full((len(s), 2), 0.5)\n")
    swapped = write(folder / "swapped.csv", rows(), [*COLUMNS[:2], "obs_b", "obs_a", *COLUMNS[4:]])
    (folder / "renamed.csv").write_text(Path(log).read_text().replace("obs_a", "obs_c"))
    assert run(capsys, "fit", log, "--out", "m.sparsetd", "--method", "LSTD")[0] == 0
    assert (
        run(capsys, "fit", log, "--out", "q.sparsetd", "--method", "LSTD", "--target", "halves:half", "--part", "1/2")[
            0
        ]
        == 0
    )
    first, second, third = (run(capsys, *words, path) for path in (log, swapped, "renamed.csv"))
    assert first[0] == 0
    assert _values(first[1]) == pytest.approx(_values(second[1]))
    assert third[0] == 2
    assert third[1] == "" or json.loads(third[1])["exit_code"] == 2
    assert "fitted to a column 'a'" in third[2]


def _values(text):
    if text.startswith("{"):
        return [json.loads(text)["value"]]
    return [float(value) for line in text.splitlines()[1:] for value in line.split(",")[1:]]


def test_an_id_that_several_stays_share_is_a_caution_until_somebody_asks_with_it(tmp_path, capsys):
    rng, rows = np.random.default_rng(0), 360
    raw = {"patient": [f"P{i // 6}" for i in range(rows)], "stay": [i // 3 for i in range(rows)]}
    raw |= {"x": rng.normal(size=rows), "action": rng.integers(2, size=rows), "reward": rng.normal(size=rows)}
    path = tmp_path / "log.parquet"
    prepare(raw, episode="stay", ends="last-row").save(path)
    words = ["evaluate", str(path), "--target", "1 if x > 1", "--features", "none", "--n-resamples", "0"]
    assert main(words) == 0
    assert "caution: Several episodes share one `patient`" in capsys.readouterr().out
    assert main([*words, "--cluster", "patient", "--json"]) == 0
    assert "repeated_ids" not in capsys.readouterr().out
    assert main([*words, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["repeated_ids"].endswith("Ask with --cluster patient.")
