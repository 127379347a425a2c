"""What hospitals export: other encodings, decimal commas, limits, copies, unsorted visits, outcomes in words."""

from __future__ import annotations

import csv
import io
import json
from datetime import time
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from sparsetd import evaluate
from sparsetd.cli import main
from sparsetd.logs import MessyLog, inspect, prepare, read
from sparsetd.logs import text as text_files
from sparsetd.logs.raw import Column, cell, raw_table
from sparsetd.logs.sharding import shard

STAYS = """\
Dossier;Visite;Service;Lactate (mmol/L);Fièvre;Prescription;Issue
P2;03/04/2024 08:00;Médecine;1,5;oui;aucun;
P1;25/03/2024 20:00;Réa;>10;non;médicament B;vivant
P1;25/03/2024 08:00;Réa;4,5;oui;Médicament B;
P2;03/04/2024 20:00;MÉDECINE;;non;AUCUN;décédé
P1;25/03/2024 08:00;Réa;4,5;oui;Médicament B;
P3;01/04/2024;Chirurgie;<0,5;non;aucun ;vivant
"""
ROLES = {"episode": "Dossier", "action": "Prescription", "reward": "Issue: vivant=1, décédé=0"}


@pytest.fixture
def stays(tmp_path: Path) -> Path:
    path = tmp_path / "séjours.csv"
    path.write_bytes(STAYS.encode("latin-1"))
    return path


def said(notes: tuple[str, ...], *words: str) -> None:
    for word in words:
        assert any(word in note for note in notes), (word, notes)


def test_a_messy_export_becomes_a_log_at_the_first_attempt(stays: Path) -> None:
    made = prepare(stays, **ROLES)
    log = made.transitions
    assert log.action_names == ("aucun", "médicament B")
    assert log.names == (
        *("Service: Chirurgie", "Service: Médecine", "Service: Réa"),
        *("Lactate (mmol/L)", "Lactate (mmol/L): below limit", "Lactate (mmol/L): above limit", "Fièvre"),
    )
    assert log.ids().tolist() == ["P2", "P1", "P3"]
    np.testing.assert_array_equal(log.observation[:, 3], [1.5, 1.5, 4.5, 10, 0.5])
    np.testing.assert_array_equal(log.observation[:, 4:6], [[0, 0], [0, 0], [0, 0], [0, 1], [1, 0]])
    assert log.action.tolist() == [0, 0, 1, 1, 0]
    assert log.reward.tolist() == [0, 0, 0, 1, 1]
    assert log.terminated.tolist() == [False, True, False, True, True]
    said(made.notes, "cp1252", "semicolons", "day first", "--gamma 1", "ended for good", "decimal commas")
    said(made.notes, "in 1 row (first row 6) and were dropped", "went back in 1 row (first row 4)", "'MÉDECINE'")
    said(made.notes, "'AUCUN' in 1 row (first row 5) joined to 'aucun'", "such as '<0,5' in 1 row")
    said(made.notes, "the last value of the episode (1 row)", "last rows of episodes only")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "latin-1", "cp1252"])
@pytest.mark.parametrize("separator", [";", "\t", "|"])
def test_any_encoding_and_separator_give_the_same_log(tmp_path: Path, encoding: str, separator: str) -> None:
    path = tmp_path / "stays.csv"
    path.write_bytes(STAYS.replace(";", separator).encode(encoding))
    one, other = prepare(path, **ROLES), prepare(_rows(STAYS), **ROLES)
    np.testing.assert_array_equal(one.transitions.observation, other.transitions.observation)
    assert one.action_names == other.action_names


@pytest.mark.parametrize(
    ("cells", "numbers", "unit"),
    [
        (["37.2 °C", "38 °C", "36.6"], [37.2, 38.0, 36.6], "°C"),
        (["37,2 °C", "<35,5 °C", "40,0°C"], [37.2, 35.5, 40.0], "°C"),
        (["45 %", "7%", "100 %"], [45.0, 7.0, 100.0], "%"),
        (["$1,200.50", "-$3.20", "$-4"], [1200.5, -3.2, -4.0], "$"),
        (["1.234,5 €", "2,5 €", "−3 €"], [1234.5, 2.5, -3.0], "€"),
    ],
)
def test_a_unit_beside_the_numbers_of_a_column_is_taken_off_and_said(
    cells: list[str], numbers: list[float], unit: str
) -> None:
    made = prepare({"x": cells, "action": ["a", "b", "a"], "reward": [1, 2, 3]}, bandit=True)
    np.testing.assert_array_equal(made.transitions.observation[:, 0], numbers)
    said(made.notes, f"`x` is written with the unit {unit!r}")


def test_names_and_several_units_are_no_numbers_with_a_unit() -> None:
    columns = {
        "kind": ["Type 1", "Type 2", "Type 1"],
        "temp": ["30 °C", "90 °F", "31 °C"],
        "pill": ["B12", "B6", "B12"],
    }
    made = prepare({**columns, "action": ["10 mg", "20 mg", "10 mg"], "reward": [1, 2, 3]}, bandit=True)
    assert made.action_names == ("10 mg", "20 mg")
    said(made.notes, "'Type 1', 'Type 2'", "'30 °C', '31 °C', '90 °F'", "'B12', 'B6'")


def test_doses_are_actions_in_the_order_of_their_size() -> None:
    made = prepare({"x": [1, 2, 3], "action": ["10,5", "9,5", "10,5"], "reward": ["$1", "$2", "$3"]}, bandit=True)
    assert made.action_names == ("9,5", "10,5")
    said(made.notes, "`reward` is written with the unit '$'")


def test_a_dose_in_several_spellings_is_one_action() -> None:
    cells = ["8", "0 UI", "10", "8 UI", "0", "8,0", "8", "0", "0,5", ">10"]
    raw = {"dose": cells, "x": [*range(10)], "reward": [0, 1] * 5}
    made = prepare(raw, action="dose", bandit=True)
    assert made.action_names == ("0", "0,5", "8", "10", ">10")
    assert made.columns["action"].tolist() == [2, 0, 3, 2, 0, 2, 2, 0, 1, 4]
    said(made.notes, "`dose`: '0 UI' in 1 row (first row 1) joined to '0'")
    later = prepare({"dose": ["8,0 UI", "12"], "x": [1, 2], "reward": [0, 1]}, like=made)
    assert later.columns["action"].tolist() == [2, 5]
    assert len(prepare(raw, action="dose", bandit=True, keep=["names"]).action_names) == 8


def test_separators_at_the_end_of_lines_make_no_column(tmp_path: Path) -> None:
    path = tmp_path / "stays.csv"
    path.write_text("\n".join(line + ";;" for line in STAYS.splitlines()))
    np.testing.assert_array_equal(
        prepare(path, **ROLES).transitions.observation, prepare(_rows(STAYS), **ROLES).transitions.observation
    )


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "is empty"),
        (b"\r\n  \n", "is empty"),
        (b"a;b;reward\n", "has a header but no rows"),
        (b"a;a;a (2)\n1;2;3\n", "names two columns"),
        (b'a;"b\n1;2\n', "is not a valid CSV file"),
        (b"a;b\n1;2;3\n", "The table has 1 row with more or fewer fields than the 2 of its header"),
    ],
)
def test_a_file_that_is_no_table_is_said_in_one_sentence(tmp_path: Path, data: bytes, words: str) -> None:
    path = tmp_path / "stays.csv"
    path.write_bytes(data)
    with pytest.raises(ValueError, match=words) as caught:
        prepare(path, bandit=True)
    assert "\n" not in str(caught.value)


def _rows(text: str) -> dict[str, list[str]]:
    head, *rows = csv.reader(io.StringIO(text), delimiter=";")
    return dict(zip(head, map(list, zip(*rows, strict=True)), strict=True))


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet", "pandas", "arrow"])
def test_every_source_gives_the_same_log(tmp_path: Path, kind: str) -> None:
    rows = _rows(STAYS.replace("\nP", "\n00"))  # ids such as 001 stay text
    frame, path = pd.DataFrame(rows), tmp_path / f"stays.{kind}"
    if kind == "csv":
        frame.to_csv(path, index=False)
    elif kind == "jsonl":
        frame.to_json(path, orient="records", lines=True)
    elif kind == "parquet":
        frame.to_parquet(path)
    source = {"pandas": frame, "arrow": pa.table(rows)}.get(kind, path)
    made, expected = prepare(source, **ROLES), prepare(rows, **ROLES)
    assert list(made.columns) == list(expected.columns)
    for name, values in expected.columns.items():
        np.testing.assert_array_equal(made.columns[name], values, err_msg=name)
    assert made.columns["episode"].tolist() == ["002", "002", "001", "001", "003"]


def test_each_repair_can_be_switched_off(stays: Path) -> None:
    scored = {**_rows(STAYS), "Issue": [0, 1, 0, 1, 0, 1]}
    roles = ROLES | {"reward": "Issue"}
    assert len(prepare(scored, ends="last-row", **roles)) == 5
    as_it_is = prepare(scored, keep=["duplicates", "order"], ends="last-row", **roles)
    assert as_it_is.columns["obs_Lactate (mmol/L)"].tolist() == [1.5, 1.5, 10, 4.5, 4.5, 0.5]
    with pytest.raises(MessyLog, match=r"rows 2 and 4 of one episode the same time.*lines of a bill.*--keep order"):
        prepare(scored, keep=["duplicates"], ends="last-row", **roles)
    names = prepare(stays, keep=["names"], **ROLES).action_names
    assert names == ("AUCUN", "Médicament B", "aucun", "médicament B")
    with pytest.raises(ValueError, match="`keep` names 'copies'"):
        prepare(stays, keep=["copies"])


@pytest.mark.parametrize(
    ("texts", "numbers"),
    [
        (["4,5", "12", "0,25"], [4.5, 12, 0.25]),
        (["1.234,5", "12", "1.000"], [1234.5, 12, 1000]),
        (["1,234", "12", "2,000.5"], [1234, 12, 2000.5]),
        (["1 234,5", "7", "2 000"], [1234.5, 7, 2000]),
        (["1e3", ".5", "+2"], [1000, 0.5, 2]),
        (["−3", "4", "5"], [-3, 4, 5]),
    ],
)
def test_numbers_as_people_write_them(texts: list[str], numbers: list[float]) -> None:
    made = prepare({"x": texts, "reward": [0, 1, 0]}, bandit=True)
    np.testing.assert_array_equal(made.columns["obs_x"], numbers)


@pytest.mark.parametrize("bad", ["1_0", "1e400", "٣", "0x10", "hémolysé", "1.234"])
def test_what_is_no_number_among_numbers_is_a_problem(bad: str) -> None:
    raw = {"x": ["4,5", bad, "2,5", "1,5"], "reward": [0, 1, 0, 1]}
    with pytest.raises(MessyLog, match=r"`x` holds numbers, but .* in 1 row \(first row 1\).*--na"):
        prepare(raw, bandit=True)
    assert prepare(raw, bandit=True, na=[bad]).columns["obs_x: missing"].tolist() == [0, 1, 0, 0]
    assert "obs_x: 4,5" in prepare(raw, bandit=True, text=["x"]).columns


@pytest.mark.parametrize(
    ("texts", "days", "words"),
    [
        (["25/03/2024", "01/04/2024"], [0, 7], "the day first"),
        (["03/25/2024", "04/01/2024"], [0, 7], "the month first"),
        (["25.3.24", "1.4.2024 12:00"], [0, 7.5], "the day first"),
        (["01/03/2024", "02/03/2024"], [0, 1], "--dates month-first"),
        (["2024-03-25", "2024/04/01"], [0, 7], "dates"),
        (["2024-03-31T02:30:00+02:00", "2024-03-31T02:30:00+01:00"], [0, 1 / 24], "dates"),
    ],
)
def test_dates_are_read_as_all_values_of_the_column_say(texts: list[str], days: list[float], words: str) -> None:
    made = prepare({"seen": texts, "reward": [0, 1]}, bandit=True)
    np.testing.assert_allclose(made.columns["obs_seen"], days)
    said(made.notes, words)


def test_dates_may_be_said_to_have_the_month_first() -> None:
    raw = {"seen": ["01/03/2024", "02/03/2024"], "reward": [0, 1]}
    np.testing.assert_allclose(prepare(raw, bandit=True, dates="month-first").columns["obs_seen"], [0, 31])
    with pytest.raises(MessyLog, match="`seen` holds dates, but '4/25/2024' in 1 row"):
        prepare({"seen": ["25/4/2024", "4/25/2024", "1/1/2024"], "reward": [0, 1, 1]}, bandit=True)
    with pytest.raises(MessyLog, match="with and without an offset"):
        prepare({"seen": ["2024-01-01T00:00", "2024-01-01T00:00Z"], "reward": [0, 1]}, bandit=True)


def test_offsets_keep_visits_in_their_order() -> None:
    """S5: the second visit is an hour later although its clock says the same or an earlier time."""
    times = ["2024-10-27T02:30+02:00", "2024-10-27T02:30+01:00", "2024-10-27T01:15-02:00"]
    log = prepare(
        {"patient": ["a"] * 3, "time": times, "x": [1, 2, 3], "reward": [0, 0, 1]}, ends="last-row"
    ).transitions
    assert log.observation[:, 0].tolist() == [1, 2, 3]


@pytest.mark.parametrize("pair", ["yes no", "Ja nein", "OUI non", "sí no", "Sim não", "da x"])
def test_yes_and_no_in_other_languages(pair: str) -> None:
    raw = {"septic": [*pair.split(), ""], "reward": [0, 1, 0]}
    columns = prepare(raw, bandit=True, missing="median").columns
    if pair == "da x":
        assert "obs_septic: x, not da" in columns
    else:
        np.testing.assert_array_equal(columns["obs_septic"][:2], [1, 0])


def test_an_outcome_that_stands_in_every_row_counts_once() -> None:
    raw = {"patient": list("aabb"), "x": [1, 2, 3, 4], "issue": ["alive", "alive", "dead", "dead"]}
    made = prepare(raw, reward="issue: alive=1, dead=0")
    assert made.columns["reward"].tolist() == [0, 1, 0, 0]
    said(made.notes, "counts once")
    kept = prepare(raw, reward="issue: alive=1, dead=0", keep=["outcome"], ends="last-row")
    assert kept.columns["reward"].tolist() == [1, 1, 0, 0]


def test_an_outcome_in_words_asks_what_it_is_worth() -> None:
    raw = {"patient": list("aabb"), "x": [1, 2, 3, 4], "Issue du séjour": ["", "alive", "", "it's over"]}
    with pytest.raises(MessyLog) as caught:
        prepare(raw, reward="Issue du séjour", ends="last-row")
    assert "--reward 'Issue du séjour: alive=…, it'\"'\"'s over=…'" in caught.value.problems[0]
    with pytest.raises(MessyLog, match='holds "it\'s over" in 1 row'):
        prepare(raw, reward="Issue du séjour: alive=1", ends="last-row")
    raw["Issue du séjour"][1] = ""
    with pytest.raises(MessyLog, match="missing at the end of an episode in 1 row"):
        prepare(raw, reward="Issue du séjour: alive=1, it's over=0")


def test_actions_that_agree_to_six_digits_are_two() -> None:
    """S4."""
    raw = {"x": [1, 2, 3], "action": [1234567, 1234568, 0.1234567891], "reward": [0, 1, 1]}
    assert prepare(raw, bandit=True).action_names == ("0.1234567891", "1234567", "1234568")


def test_a_later_table_is_prepared_alike(tmp_path: Path) -> None:
    """S9: the same patient is the same row, whatever other patients stand in the table."""
    raw = {
        "patient": ["a", "b", "c", "d"],
        "seen": ["2024-01-01", "2024-01-05", "2024-02-01", "2024-03-01"],
        "ward": ["icu", "er", "icu", "home"],
        "sofa": [1.0, 3.0, None, 8.0],
        "drug": ["B", "A", "C", "A"],
        "reward": [0, 1, 1, 0],
    }
    log = prepare(raw, bandit=True, episode="patient", action="drug", missing="mark")
    log.save(tmp_path / "log.parquet")
    for rows in ([1], [2, 3], [3, 2, 1, 0]):
        some = {name: [values[i] for i in rows] for name, values in raw.items()}
        for like in (log, tmp_path / "log.parquet"):
            again = prepare(some, like=like)
            assert again.action_names == log.action_names
            assert set(again.columns) == set(log.columns)
            for name, values in log.columns.items():
                np.testing.assert_array_equal(again.columns[name], values[rows], err_msg=name)
    new = {**{name: values[:1] for name, values in raw.items() if name != "reward"}, "ward": ["ward 9"], "extra": [1]}
    made = prepare(new, like=log)
    assert [made.columns[f"obs_ward: {ward}"][0] for ward in ("er", "home", "icu")] == [0, 0, 0]
    said(made.notes, "has new categories", "`extra` was left out")
    two = {"sex": ["f", "m", "m"], "x": [1.0, 2.0, 3.0], "reward": [0, 1, 0]}
    pair = prepare(two, bandit=True, missing="median")
    assert prepare({**two, "sex": ["", "f", "?x"]}, like=pair).columns["obs_sex: m, not f"].tolist() == [1, 0, 1]
    with pytest.raises(MessyLog, match=r"`sex` is neither 'f' nor 'm' in 2 rows \(first row 0\)"):
        prepare({**two, "sex": ["", "f", "x"]}, like=prepare(two, bandit=True))
    gap = prepare({**two, "x": [1.0, None, 3.0]}, like=prepare(two, bandit=True))
    assert gap.columns["obs_x"].tolist() == [1, 2, 3]
    assert not any("`x: missing`" in note for note in gap.notes)
    with pytest.raises(MessyLog, match="`sofa` is missing"):
        prepare({"patient": ["a"], "seen": ["2024-01-01"], "ward": ["icu"]}, like=log)
    with pytest.raises(ValueError, match="does not say how it was prepared"):
        prepare(new, like=_plain(tmp_path))


def test_a_raw_table_is_predicted_as_the_log_was_prepared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """S9, on the command line: the same patients have the same values, whoever else is in the table."""
    rng = np.random.default_rng(0)
    lines = [f"p{i},2024-0{1 + i % 9}-01,{rng.choice(['icu', 'er'])},{rng.integers(1, 9)},{i % 2}" for i in range(40)]
    lines[3] = "p3,2024-04-01,icu,,1"
    table, log, model = (tmp_path / name for name in ("table.csv", "log.parquet", "model.sparsetd"))
    table.write_text("\n".join(["patient,seen,ward,sofa,reward", *lines]))
    assert main(["prepare", str(table), "--out", str(log), "--bandit", "--column", "time=none", "--quiet"]) == 0
    assert main(["fit", str(log), "--out", str(model), "--method", "LSTD", "--quiet"]) == 0
    table.write_text("\n".join(["patient,seen,ward,sofa", *(line.rpartition(",")[0] for line in lines[3:6])]))
    capsys.readouterr()
    assert main(["predict", str(model), str(log), "--json"]) == 0
    whole = json.loads(capsys.readouterr().out)["values"]
    assert main(["predict", str(model), str(table), "--like", str(log), "--json"]) == 0
    np.testing.assert_allclose(json.loads(capsys.readouterr().out)["values"], whole[3:6])


def test_what_is_not_known_of_new_patients_may_be_an_empty_column(stays: Path, tmp_path: Path) -> None:
    learnt = prepare(stays, time="Visite", **ROLES)
    new = tmp_path / "new.txt"
    new.write_text(
        "Dossier\tVisite\tService\tLactate (mmol/L)\tFièvre\tPrescription\tIssue\nP9\t01/05/2024\tRéa\t2,5\toui\t\t\n",
        encoding="utf-16",
    )
    made = prepare(new, like=learnt)
    assert {"reward", "action"}.isdisjoint(made.columns)
    said(made.notes, "`Prescription` is empty and was left out.", "`Issue` is empty and was left out.")


@pytest.mark.parametrize("beside", [None, "notes.parquet"])
def test_text_files_are_tables_except_beside_others(beside: str | None, tmp_path: Path) -> None:
    text = "obs_x\treward\tterminated\n1\t2\t1\n3\t4\t1\n"
    (tmp_path / "log.txt").write_text(text if beside is None else "These are notes.")
    if beside is not None:
        pd.DataFrame({"obs_x": [1, 3], "reward": [2, 4], "terminated": [1, 1]}).to_parquet(tmp_path / beside)
    assert read(tmp_path).reward.tolist() == [2, 4]


def test_shards_keep_how_the_log_was_prepared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Names of actions, medians and first dates travel into the shards, also of several logs prepared alike."""
    raw = {
        "patient": [f"p{i}" for i in range(40)],
        "seen": [f"2024-0{1 + i % 9}-01" for i in range(40)],
        "sofa": [None if i == 3 else 1.0 + i % 7 for i in range(40)],
        "drug": ["B" if i % 3 else "A" for i in range(40)],
        "reward": [i % 2 for i in range(40)],
    }
    table, log, later, out = (tmp_path / name for name in ("new.csv", "log.parquet", "later.parquet", "shards"))
    made = prepare(raw, bandit=True, episode="patient", action="drug", time=None)
    made.save(log)
    prepare({**raw, "patient": [f"q{i}" for i in range(40)], "drug": ["C"] * 40}, like=made).save(later)
    assert main(["shard", str(log), str(later), "--out", str(out), "--shards", "3", "--quiet"]) == 0
    new = {name: values[3:5] for name, values in raw.items() if name != "reward"}
    again, expected = prepare(new, like=out), prepare(new, like=made)
    assert again.action_names == ("A", "B", "C")
    for name, values in expected.columns.items():
        np.testing.assert_array_equal(again.columns[name], values, err_msg=name)
    model = tmp_path / "model.sparsetd"
    assert main(["fit", str(out), "--out", str(model), "--method", "LSTD", "--quiet"]) == 0
    table.write_text("patient,seen,sofa,drug\np3,2024-04-01,,A\np4,2024-05-01,5,B\n")
    values = []
    for like in (log, out):
        capsys.readouterr()
        assert main(["predict", str(model), str(table), "--like", str(like), "--json"]) == 0
        values.append(json.loads(capsys.readouterr().out)["values"])
    assert values[0] == values[1]


def test_shards_of_logs_that_were_prepared_differently_do_not_say_how(tmp_path: Path) -> None:
    for k in range(2):
        raw = {"patient": [f"{k}a", f"{k}b"], "sofa": [2.0 + k, None], "reward": [0, 1]}
        prepare(raw, bandit=True, episode="patient").save(tmp_path / f"{k}.parquet")
    shard([tmp_path / "0.parquet", tmp_path / "1.parquet"], tmp_path / "shards")
    with pytest.raises(ValueError, match="does not say how it was prepared"):
        prepare({"patient": ["c"], "sofa": [1.0]}, like=tmp_path / "shards")


def _plain(folder: Path) -> Path:
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"obs_x": [1.0], "reward": [0.0]}), folder / "plain.parquet")
    return folder / "plain.parquet"


def test_all_problems_come_at_once_with_row_count_and_option(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = tmp_path / "stays.csv"
    table.write_text(
        "my id,when,the drug,lactate,note,outcome\n1,monday,A,1.5,x1,alive\n1,2024-01-01,,hemolysed,x2,\n"
        "2,2024-01-01,B,2.5,x3,dead\n2,2024-01-02,B,3.5,x4,dead,9\n"
    )
    out = tmp_path / "log.parquet"
    words = ["prepare", str(table), "--out", str(out), "--column", "episode=my id", "--column", "action=the drug"]
    assert main([*words, "--column", "time=when", "--json"]) == 2
    printed = capsys.readouterr()
    problems = json.loads(printed.out)["problems"]
    assert len(problems) == 5
    for sentence in problems:
        assert "\n" not in sentence
    for told in (
        "The table has 1 row with more or fewer fields than the 6 of its header (first row 5)",
        "'monday' in 1 row (first row 2)",
        "`the drug`, the action, is missing in 1 row (first row 3)",
        "'hemolysed' in 1 row (first row 3): correct them, take them as missing with --na hemolysed",
        "--reward 'outcome: alive=…, dead=…'",
    ):
        assert told in printed.err
    assert "Nothing says where an episode ended" not in printed.err  # an outcome stands there, once its words are known
    assert not out.exists()


def test_two_commands_lead_from_the_file_to_the_page(stays: Path, capsys: pytest.CaptureFixture[str]) -> None:
    many = [STAYS.splitlines()[0]]
    rng = np.random.default_rng(0)
    for k in range(60):
        kinds = STAYS.replace("P1", f"P1{k}").replace("P2", f"P2{k}").replace("P3", f"P3{k}").splitlines()[1:]
        many += [line for line in kinds if not line.startswith("P3") or rng.random() < 0.5]
        drug, lactate = rng.choice(["aucun", "médicament B"]), f"{rng.uniform(1, 4):.1f}".replace(".", ",")
        many += [f"Q{k};02/05/2024;Réa;{lactate};non;{drug};vivant"]
    stays.write_bytes("\n".join(many).encode("cp1252"))
    log, page = stays.with_name("log.parquet"), stays.with_name("page.html")
    words = ["--column", "episode=Dossier", "--column", "action=Prescription", "--reward", ROLES["reward"]]
    assert main(["prepare", str(stays), "--out", str(log), *words]) == 0
    rule = "médicament B if `Lactate (mmol/L)` > 2"
    asked = ["evaluate", str(log), "--target", rule, "--gamma", "1", "--report", str(page)]
    assert main([*asked, "--json"]) == 0
    assert json.loads(capsys.readouterr().out.partition("log.parquet\n")[2])["target"] == rule
    assert page.exists()
    assert evaluate(str(log), rule, gamma=1.0, n_resamples=0).target == rule
    assert "Service" not in inspect(log).suspicious


POLISH = """\
Pacjent;Dzień;Wiek;CRP;Lek;Wynik
1;1;71;4,5;Żelazo;
1;2;71;3,5;żelazo;wyzdrowiał
2;1;54;2,5;źródło światła;
2;2;54;1,5;Żelazo;zgon
"""
CZECH = "Pacient;CRP;Léčba;reward\n1;4,5;léčba šokem;1\n2;3,5;žádná úleva µmol/l;0\n3;2,5;přímý tlak m³;1\n"
HUNGARIAN = "Beteg;CRP;Gyógyszer;reward\n1;4,5;erős köhögés;1\n2;3,5;gyűrűs ütőér °C;0\n3;2,5;süllyedés;1\n"
RUSSIAN = "Пациент;CRP;Лекарство;reward\n1;4,5;Железо;1\n2;3,5;железо;0\n3;2,5;без лечения;1\n"
GERMAN = "Fall;Menge (m³);Größe;reward\n1;4,5;Übergewicht «groß» µmol/l;1\n2;3,5;Müßig, 37 °C, naïve;0\n3;2,5;groß;1\n"
SPANISH = "Caso;CRP;Síntoma;reward\n1;4,5;¿dolor de riñón?;1\n2;3,5;corazón;0\n3;2,5;año;1\n"


@pytest.mark.parametrize(
    ("text", "codec", "name"),
    [
        (POLISH, "cp1250", "cp1250"),
        (POLISH, "iso8859-2", "ISO-8859-2"),
        (CZECH.replace("µ", "u").replace("³", "3"), "iso8859-2", "ISO-8859-2"),
        (CZECH.replace("³", "3"), "cp1250", "cp1250"),
        (HUNGARIAN, "cp1250", "cp1250"),
        (RUSSIAN, "cp1251", "cp1251"),
        (GERMAN, "cp1252", "cp1252"),
        (SPANISH, "cp1252", "cp1252"),
    ],
)
def test_the_encoding_is_the_one_in_which_words_are_words(tmp_path: Path, text: str, codec: str, name: str) -> None:
    path = tmp_path / "stays.csv"
    path.write_bytes(text.encode(codec))
    raw = raw_table(path)
    assert {column: values.cells for column, values in raw.columns.items()} == {
        column: Column.of(column, values).cells for column, values in _rows(text).items()
    }
    said(tuple(raw.done), f"read as {name}")


def test_drugs_of_another_alphabet_are_joined(tmp_path: Path) -> None:
    path = tmp_path / "stays.csv"
    path.write_bytes(POLISH.encode("cp1250"))
    roles = {"episode": "Pacjent", "time": "Dzień", "action": "Lek", "reward": "Wynik: wyzdrowiał=1, zgon=0"}
    assert prepare(path, **roles).action_names == ("źródło światła", "Żelazo")


def test_an_encoding_can_be_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, log = tmp_path / "stays.csv", tmp_path / "log.parquet"
    path.write_bytes("name;x;reward\nλίθος;1;0\nα;2;1\n".encode("iso8859-7"))
    words = ["prepare", str(path), "--out", str(log), "--bandit"]
    assert main([*words, "--encoding", "iso8859-7"]) == 0
    assert "`name` has the categories 'α', 'λίθος'" in capsys.readouterr().out
    for name, told in (("klingon", "`encoding` is 'klingon'"), ("rot13", "`encoding` is 'rot13'"), ("utf-8", "utf-8")):
        assert main([*words, "--encoding", name]) == 2
        error = capsys.readouterr().err
        assert told in error
        assert error.strip().count("\n") == 0


def test_percents_beside_plain_numbers_are_a_problem() -> None:
    raw = {"x": ["45 %", "0,45", "7 %", "0"], "action": list("abab"), "reward": [1, 2, 3, 4]}
    with pytest.raises(MessyLog, match=r"`x` has the unit '%', but not in 1 row \(first row 1\), such as '0,45'"):
        prepare(raw, bandit=True)
    made = prepare({**raw, "x": ["4 mg", "5", "6 mg", ""]}, bandit=True)
    said(made.notes, "`x` is written with the unit 'mg' (in 2 rows of 3)")


def test_points_that_may_stand_between_thousands_are_a_problem_where_commas_are_decimal(tmp_path: Path) -> None:
    path = tmp_path / "stays.csv"
    table = "crp;cost;reward\n4,5;1.234;0\n3,5;12.000;1\n1,5;7;1\n"
    path.write_text(table)
    with pytest.raises(MessyLog, match=r"`cost` holds '1.234', '12.000' where .* in 2 rows \(first row 2\)"):
        prepare(path, bandit=True)
    path.write_text(table.replace("1.234", "8").replace("12.000", "1.234.567"))
    with pytest.raises(MessyLog, match=r"`cost` holds '1.234.567' where .* in 1 row \(first row 3\)"):
        prepare(path, bandit=True)
    for decimal in (table.replace("1.234", "0.234"), table.replace("12.000", "12.00"), table.replace(",", ".")):
        path.write_text(decimal)
        assert prepare(path, bandit=True).columns["obs_cost"][1] == 12


def _stays(n: int = 40, **columns: list[object]) -> dict[str, list[object]]:
    made = {"patient": np.repeat(np.arange(n), 2).tolist(), "Wiek": [20 + i // 2 for i in range(2 * n)]}
    return {**made, "CRP": [i % 7 for i in range(2 * n)], "reward": [i % 2 for i in range(2 * n)], **columns}


@pytest.mark.parametrize("text", [True, False])
def test_a_number_that_names_the_patient_is_not_observed(text: bool) -> None:
    ids = [80_010_112_345 + 7919 * (i // 2) for i in range(80)]
    raw = _stays(PESEL=list(map(str, ids)) if text else ids)
    made = prepare(raw, ends="last-row")
    assert made.transitions.names == ("Wiek", "CRP")
    said(made.notes, "`PESEL` looks like an id", "--keep ids", "`Wiek`, `CRP` are observed as they are.")
    assert prepare(raw, ends="last-row", keep=["ids"]).transitions.names == ("Wiek", "CRP", "PESEL")
    few = {name: values[:4] for name, values in raw.items()}
    assert prepare(few, like=made).transitions.names == ("Wiek", "CRP")
    moving = _stays(income=[10_000 + 13 * i for i in range(80)], small=[1000 + i // 2 for i in range(80)])
    assert prepare(moving, ends="last-row").transitions.names == ("Wiek", "CRP", "income", "small")


@pytest.mark.parametrize(
    "word",
    [
        *(
            "b.d.",
            "brak",
            "Brak danych",
            "n/d",
            "nd.",
            "s.d.",
            "s/d",
            "k.A.",
            "manquant",
            "mancante",
            "fehlt",
            "saknas",
        ),
        *("bilinmiyor", "---", "\\N"),
    ],
)
def test_words_for_a_missing_number_in_other_languages(word: str) -> None:
    made = prepare({"x": [1, word, 3, 4], "reward": [0, 1, 0, 1]}, bandit=True)
    assert made.columns["obs_x: missing"].tolist() == [0, 1, 0, 0]


def test_a_refusal_counts_the_rows_of_the_words_that_it_names() -> None:
    raw = {"patient": list("aabb"), "x": [1, 2, 3, 4], "outcome": ["well", "well", "dead", "well"]}
    with pytest.raises(MessyLog, match="holds 'well', 'dead' in 4 rows"):
        prepare(raw, ends="last-row")
    raw |= {"x": ["low", "high", "odd", "bad", *range(6)], "patient": list("aabbccddee"), "outcome": [1] * 10}
    with pytest.raises(MessyLog, match="'low', 'high', 'odd' and 1 more in 4 rows"):
        prepare(raw, ends="last-row")


def test_roles_that_no_column_has_are_said_with_candidates() -> None:
    raw = _stays(Lek=["A", "B", "B"] * 26 + ["A", "B"], Płeć=["F", "F", "M", "M"] * 20, Wynik=["ok", "zgon"] * 40)
    raw["nr sprawy"] = [f"P{i // 2}" for i in range(80)]
    del raw["patient"], raw["reward"]
    with pytest.raises(MessyLog) as caught:
        prepare(raw)
    said(caught.value.problems, "reward", "--column 'episode=nr sprawy'", "--column action=Lek", "ended")
    assert not any("Płeć" in problem for problem in caught.value.problems)
    with pytest.raises(MessyLog) as caught:
        prepare(raw, episode=None, action=None)
    assert not any("was recognised" in problem for problem in caught.value.problems)
    one = prepare({"arm colour": ["red", "blue", "red"], "x": [1, 2, 3], "reward": [0, 1, 0]}, bandit=True)
    said(one.notes, "No column was recognised as the action", "--column 'action=arm colour'")


def test_inspect_says_which_texts_were_kept_for_groups_and_the_units(stays: Path, tmp_path: Path) -> None:
    stays.write_bytes(STAYS.replace("4,5", "4,5 mmol/L").encode("latin-1"))
    prepare(stays, **ROLES).save(tmp_path / "log.parquet")
    words = str(inspect(tmp_path / "log.parquet"))
    assert "kept as text to ask about groups (--by): 'Service'." in words
    assert "Ignored" not in words
    assert "Units: 'Lactate (mmol/L)' in mmol/L." in words
    shard([tmp_path / "log.parquet"], tmp_path / "shards", n_shards=2)
    assert str(inspect(tmp_path / "shards")).count("Units:") == 1


@pytest.mark.parametrize(
    "mistyped",
    [{"reward": "Isue: vivant=1, décédé=0"}, {"reward": "résultat"}, {"episode": "Dosier"}, {"time": "Vsite"}],
)
def test_a_mistyped_name_is_one_problem(stays: Path, mistyped: dict[str, str]) -> None:
    with pytest.raises(MessyLog) as caught:
        prepare(stays, **{**ROLES, **mistyped})
    (problem,) = caught.value.problems
    assert problem.startswith(f"`{next(iter(mistyped))}` names a column")


def test_problems_beside_a_mistyped_name_are_told() -> None:
    raw = {"patient": list("aabb"), "drug": ["A", None, "A", "B"], "x": [1, 2, 3, 4], "Outcome": [0, 1, 0, 1]}
    with pytest.raises(MessyLog) as caught:
        prepare(raw, action="drugs", reward="Outcome", ends="last-row")
    assert ["names a column" in one or "the action, is missing" in one for one in caught.value.problems] == [True, True]


@pytest.mark.parametrize("twice", [0, 9])
@pytest.mark.parametrize("backwards", [False, True])
def test_ids_with_zeros_in_front_and_outcomes_in_words_are_offered_as_what_they_are(
    backwards: bool, twice: int
) -> None:
    rows = [
        (
            f"{k + 99:06}",
            f"{2024000000 + 3 * k + visit // 2}",
            f"{visit + 1}.3.2024",
            ward,
            drug,
            "ÖLDÜ" if k % 3 else "SAĞ",
        )
        for k in range(40)
        for visit, (ward, drug) in enumerate(zip("AAB", ("yok", "B", "yok"), strict=True))
    ]
    rows = [(*row[:5], row[5] if row[2] == "3.3.2024" else "") for row in rows[:: -1 if backwards else 1]]
    names = ("Hasta No", "Protokol No", "Tarih", "Servis", "İlaç", "Sonuç")
    raw = dict(zip(names, map(list, zip(*rows, *rows[:twice], strict=True)), strict=True))  # some rows are sent twice
    with pytest.raises(MessyLog) as caught:
        prepare(raw)
    assert [problem.rpartition(" with ")[2] for problem in caught.value.problems] == [
        "--reward 'Sonuç: SAĞ=…, ÖLDÜ=…'.",
        "--column 'episode=Hasta No' or --column 'episode=Protokol No'.",
        "--column 'action=İlaç' or --column action=Servis.",
    ]


@pytest.mark.parametrize("block", [16, 2**22])
@pytest.mark.parametrize("seed", range(12))
def test_cells_and_row_numbers_are_those_of_the_csv_module(
    seed: int, block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Blank lines, lines of separators, more or fewer fields, separators at the end, quotes and breaks in quotes."""
    monkeypatch.setattr(text_files, "BLOCK", block)
    rng = np.random.default_rng(seed)
    fields = ["1", "2,5", " x ", "", '"a;b"', '"two\nlines"', '"say ""so"""', "é", "NA", "none"]
    lines = ["", "a;b;c" + ";" * rng.integers(2)]
    for _ in range(60):
        line = ";".join(rng.choice(fields, size=rng.choice([3, 3, 3, 3, 2, 4])))
        lines.append(rng.choice([line] * 6 + ["", ";;", "   ", line + ";;"]))
    path = tmp_path / "table.csv"
    path.write_text(rng.choice(["\n", "\r\n"]).join(lines), encoding="utf-8", newline="")
    rows, numbers, odd = [], [], []
    with path.open(encoding="utf-8", newline="") as file:
        for number, record in enumerate(csv.reader(file, delimiter=";"), start=1):
            while len(record) > 3 and not record[-1].strip():
                record.pop()
            if number > 2 and any(map(str.strip, record)):
                (rows if len(record) == 3 else odd).append(record)
                if len(record) == 3:
                    numbers.append(number)
    table = raw_table(path)
    assert table.numbers.tolist() == numbers
    for j, name in enumerate("abc"):
        column = table.columns[name]
        assert [column.cells[code] for code in column.codes] == [cell(row[j]) for row in rows]
    assert ("more or fewer fields" in "".join(table.problems)) == bool(odd)
    assert not odd or f"The table has {len(odd)} row" in table.problems[0]


TABLE = {
    "patient": ["1", "1", "1", "2", "2", "2"],
    "visit": [0, 1, 2, 0, 1, 2],
    "lactate": [2.0, 3.0, 1.0, 4.0, 2.5, 1.5],
    "treatment": ["A", "B", "A", "B", "A", "B"],
    "reward": [0.0, 1.0, 0.0, 1.0, 0.0, 1.0],
    "ended": [False, False, True, False, False, True],
}
NAMED = {"episode": "patient", "time": "visit", "terminated": "ended"}


def test_the_index_that_pandas_writes_is_no_observation_and_hides_no_copies(tmp_path: Path) -> None:
    frame = pd.DataFrame(TABLE)
    doubled = pd.concat([frame, frame.iloc[:2]], ignore_index=True)
    expected = prepare(doubled, **NAMED)
    assert len(expected) == 6
    doubled.to_csv(tmp_path / "log.csv")
    doubled.set_axis([17, *range(10, 17)]).to_parquet(tmp_path / "log.parquet")
    for name in ("log.csv", "log.parquet"):
        found = prepare(tmp_path / name, **NAMED)
        assert list(found.columns) == list(expected.columns)
        assert found.columns["obs_lactate"].tolist() == expected.columns["obs_lactate"].tolist()
        assert any("only numbers the rows: it was left out" in note for note in found.notes)
    frame.to_csv(tmp_path / "single.csv")
    assert "obs_Unnamed: 0" in prepare(tmp_path / "single.csv", keep=["ids"], **NAMED).columns


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_durations_are_days_in_whatever_unit_they_are_stored(unit: str) -> None:
    hours = np.array([12, 24, 36, 48, 60, 72])
    stored = {**TABLE, "since": hours.astype("timedelta64[h]").astype(f"timedelta64[{unit}]")}
    for source in (stored, pd.DataFrame(stored), pa.table(stored)):
        assert prepare(source, **NAMED).columns["obs_since"].tolist() == (hours / 24).tolist()
    late_first = {**TABLE, "visit": np.array([2, 1, 0, 0, 1, 2]).astype("timedelta64[h]").astype(f"m8[{unit}]")}
    ended = {**late_first, "ended": [True, False, False, False, False, True]}
    assert prepare(ended, **NAMED).columns["obs_lactate"].tolist() == [1.0, 3.0, 2.0, 4.0, 2.5, 1.5]


def test_an_episode_named_by_a_number_and_by_its_text_is_one() -> None:
    mixed = {**TABLE, "patient": [1, "1", 1.0, "2", 2, "2"]}
    expected = prepare(TABLE, **NAMED)
    for name, column in prepare(mixed, **NAMED).columns.items():
        assert column.tolist() == expected.columns[name].tolist(), name


def test_a_category_called_missing_is_a_gap() -> None:
    """The column that marks gaps has this name: a category of its own would be overwritten by it."""
    made = prepare({**TABLE, "ward": ["icu", "er", "Missing", None, "ot", "er"]}, missing="mark", **NAMED)
    assert made.columns["obs_ward: missing"].tolist() == [0, 0, 1, 1, 0, 0]
    assert [name for name in made.columns if name.startswith("obs_ward")] == [
        "obs_ward: er",
        "obs_ward: icu",
        "obs_ward: ot",
        "obs_ward: missing",
    ]


def test_two_columns_that_would_have_one_name_are_a_problem() -> None:
    gap = {**TABLE, "lactate": [2.0, None, 1.0, 4.0, 2.5, 1.5], "lactate: missing": [7.0, 8.0, 9.0, 1.0, 2.0, 3.0]}
    with pytest.raises(MessyLog, match="Two columns would be called `lactate: missing`: rename one"):
        prepare(gap, missing="mark", **NAMED)


def test_times_of_day_are_categories() -> None:
    made = prepare({**TABLE, "shift": [time(6), time(14), time(6), time(22), time(14), time(6)]}, **NAMED)
    assert made.columns["obs_shift: 06:00:00"].tolist() == [1, 0, 1, 0, 0, 1]


def test_turkish_capitals_are_the_same_words() -> None:
    """I is the capital of ı and İ that of i, so that Unicode's own rule makes three names of one."""
    table = pd.DataFrame(
        {
            "episode": ["a", "a", "b", "b", "c", "c"],
            "işlem": ["indirim", "İNDİRİM", "İNDİRİM".lower(), "ara", "ARA", "ara"],
            "kefil": ["Evet", "HAYIR", "Hayır", "EVET", "evet", "hayır"],
            "il": ["Iğdır", "IĞDIR", "Iğdır", "Bursa", "BURSA", "Bursa"],
            "reward": [0.0, 1.0, 0.0, 1.0, 0.0, 1.0],
        }
    )
    prepared = prepare(table, action="işlem", ends="last-row")
    assert list(prepared.action_names or ()) == ["ara", "indirim"]
    found = prepared.transitions
    assert list(found.labels()) == ["kefil", "il: Iğdır, not Bursa"]
    assert found.observation.tolist() == [[1, 1], [0, 1], [0, 1], [1, 0], [1, 0], [0, 0]]


def test_a_folder_of_exports_is_read_like_one_and_rows_are_counted_in_their_file(tmp_path: Path) -> None:
    head = "patient;day;x;treatment;outcome\n"
    (tmp_path / "jan.csv").write_text(head + "p1;1;2,5;none;\np1;2;;B;1\n", encoding="utf-8")
    (tmp_path / "mar.csv").write_text(head + "p2;2;1,5;none;1\np2;1;3,5;b;\n", encoding="cp1252")
    made = prepare(tmp_path)
    assert made.action_names == ("B", "none")
    np.testing.assert_array_equal(made.columns["obs_x"], [2.5, 2.5, 3.5, 1.5])
    said(made.notes, "went back in 1 row (first row 3 of mar.csv)", "is missing in 1 row (first row 3 of jan.csv)")
    (tmp_path / "apr.csv").write_text("patient;day;x;treatment\np3;1;2,5;none\n", encoding="utf-8")
    with pytest.raises(
        ValueError, match=r"`outcome` is not in all parts of the source .jan.csv differs.: give every part"
    ):
        prepare(tmp_path)


def test_a_text_id_of_many_values_is_offered_as_the_episode_once() -> None:
    ids = [f"P{i // 3}" for i in range(120)]
    raw = {"Dossier": ids, "x": list(range(120)), "treatment": ["B", "none"] * 60, "reward": [0, 1] * 60}
    with pytest.raises(MessyLog) as caught:
        prepare(raw)
    assert sum("episode=Dossier" in problem for problem in caught.value.problems) == 1
