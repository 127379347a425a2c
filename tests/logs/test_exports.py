"""Exports as spreadsheets and hospital systems write them: titles, units, totals, months by name, doubtful ids."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sparsetd import policy
from sparsetd.cli import main
from sparsetd.logs import MessyLog, inspect, prepare, read

HEAD = ["Nr pacjenta", "Data wizyty", "Wiek", "CRP", "Leczenie", "Ocena"]
VISITS = [
    ["PL/1", "25.03.2024 08:15", "71", "4,5", "insulina", "1,5"],
    ["PL/1", "26.03.2024 08:15", "71", "3,5", "metformina", "2,5"],
    ["PL/2", "27.03.2024 08:15", "54", "2,5", "insulina", "3,5"],
    ["PL/2", "28.03.2024 08:15", "54", "1,5", "metformina", "4,5"],
]
ROLES = {"episode": "Nr pacjenta", "action": "Leczenie", "reward": "Ocena", "ends": "last-row"}


def said(notes: tuple[str, ...], *words: str) -> None:
    for word in words:
        assert any(word in note for note in notes), (word, notes)


def written(path: Path, *rows: list[str]) -> Path:
    path.write_text("\r\n".join(";".join(row) for row in rows) + "\r\n", encoding="utf-8", newline="")
    return path


def same_log(one: object, other: object) -> None:
    assert list(one.columns) == list(other.columns)  # type: ignore[attr-defined]
    for name, column in other.columns.items():  # type: ignore[attr-defined]
        np.testing.assert_array_equal(one.columns[name], column, err_msg=name)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("before", "after", "places", "what"),
    [
        ([["", "", "lata", "mg/l", "", "pkt"]], [], "Row 2 was", "'lata', 'mg/l', 'pkt'"),
        ([], [["Razem", "4 wizyty", "", "", "", ""]], "Row 6 was", "'Razem', '4 wizyty'"),
        ([], [["Średnia", "", "62,5", "3", "", "3"]], "Row 6 was", "'Średnia', '62,5', '3'"),
        ([["", "", "lata", "mg/l", "", "pkt"]], [["Razem", "4 wizyty", "", "", "", ""]], "Rows 2, 7 were", "'lata'"),
        ([], [["Μέσος όρος", "", "62,5", "3", "", "3"]], "Row 6 was", "'Μέσος όρος', '62,5', '3'"),
        ([], [HEAD], "Row 6 was", "'Nr pacjenta'"),
        ([], [["Wydrukowano 12.03.2024 przez jk", "", "", "", "", ""]], "Row 6 was", "'Wydrukowano"),
    ],
)
def test_rows_of_units_and_totals_are_no_visits(
    tmp_path: Path, before: list[list[str]], after: list[list[str]], places: str, what: str
) -> None:
    plain = prepare(written(tmp_path / "plain.csv", HEAD, *VISITS), **ROLES)
    made = prepare(written(tmp_path / "visits.csv", HEAD, *before, *VISITS, *after), **ROLES)
    same_log(made, plain)
    said(made.notes, f"{places} left out: units, totals or titles ({what}")


def test_a_header_that_comes_again_in_the_middle_is_no_visit(tmp_path: Path) -> None:
    plain = prepare(written(tmp_path / "plain.csv", HEAD, *VISITS), **ROLES)
    same_log(prepare(written(tmp_path / "visits.csv", HEAD, *VISITS[:2], HEAD, *VISITS[2:]), **ROLES), plain)


def test_a_visit_with_few_numbers_is_still_a_visit(tmp_path: Path) -> None:
    odd = [["PL/2", "28.03.2024 09:15", "", "hemoliza", "metformina", "1"]]
    with pytest.raises(MessyLog, match="holds numbers, but 'hemoliza' in 1 row"):
        prepare(written(tmp_path / "visits.csv", HEAD, *VISITS, *odd), **ROLES)


def test_a_drug_called_total_something_is_no_total() -> None:
    raw = {"drug": ["A", "B", "Total parenteral nutrition"], "x": [1, 2, None], "reward": [0, 1, 1]}
    assert len(prepare(raw, action="drug", bandit=True)) == 3


def test_rows_can_be_left_out_by_their_numbers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A visit without a date in the middle of the table is no total; the refusal says how to go on without it."""
    path = written(tmp_path / "visits.csv", HEAD, *VISITS[:2], ["PL/2", "", "54", "9,9", "insulina", "1"], *VISITS[2:])
    words = ["prepare", str(path), "--out", str(tmp_path / "log.parquet"), "--ends", "last-row"]
    words += [word for role in ("episode", "action", "reward") for word in ("--column", f"{role}={ROLES[role]}")]
    assert main(words) == 2
    assert "--skip 4" in capsys.readouterr().err
    assert main([*words, "--skip", "4"]) == 0
    assert "Row 4 was left out, as asked." in capsys.readouterr().out
    assert len(read(tmp_path / "log.parquet")) == 4
    assert main([*words, "--skip", "99"]) == 2
    assert "no row 99" in capsys.readouterr().err


def test_gaps_can_be_given_a_meaning() -> None:
    """In many exports nothing stands where nothing was given."""
    raw = {"x": [1.0, 2.0, 3.0], "drug": ["B", None, "B"], "pain": [1, 2, None], "reward": [0, 1, 0]}
    with pytest.raises(MessyLog, match="--fill 'drug=…'"):
        prepare(raw, bandit=True, action="drug")
    made = prepare(raw, bandit=True, action="drug", fill={"drug": "none", "pain": "0"})
    assert made.action_names == ("B", "none")
    assert made.columns["obs_pain"].tolist() == [1, 2, 0]
    said(made.notes, "`drug` is empty in 1 row (first row 1): taken as 'none', as asked.")
    with pytest.raises(MessyLog, match="names a column 'drgu' that is not there; did you mean 'drug'"):
        prepare(raw, bandit=True, fill={"drgu": "none"})


def test_lines_above_the_header_are_left_out(tmp_path: Path) -> None:
    plain = prepare(written(tmp_path / "plain.csv", HEAD, *VISITS), **ROLES)
    titles = [["Raport oddziału, stan 3,5", "", "", "", "", ""], [""] * 6, ["Od:", "1.3.2024", "", "", "", ""]]
    made = prepare(written(tmp_path / "visits.csv", *titles, HEAD, *VISITS), **ROLES)
    same_log(made, plain)
    said(made.notes, "Its header is row 4.")
    for first in (["sep=;"], ["Raport"]):
        same_log(prepare(written(tmp_path / "visits.csv", first, HEAD, *VISITS), **ROLES), plain)
    log = written(tmp_path / "log.csv", ["obs_x", "", "reward", "terminated"], ["1", "5", "2", "1"])
    assert "Ignored: 'Unnamed: 1'." in inspect(log).understood
    log = written(tmp_path / "log.csv", ["Title"], ["obs_x", "reward", "terminated"], ["1", "2", "1"], ["3", "4", "1"])
    assert read(log).observation.ravel().tolist() == [1, 3]


def test_names_of_groups_above_the_names_of_columns_are_no_header(tmp_path: Path) -> None:
    plain = prepare(written(tmp_path / "plain.csv", HEAD, *VISITS), **ROLES)
    made = prepare(written(tmp_path / "visits.csv", ["Pacjent", "", "", "Badania", "", ""], HEAD, *VISITS), **ROLES)
    same_log(made, plain)
    said(made.notes, "Its header is row 2.")


def test_an_id_in_merged_cells_holds_for_the_rows_below_it(tmp_path: Path) -> None:
    """The second patient has one visit more, and the latest of them stands at the top."""
    visits = [*VISITS, ["PL/2", "26.03.2024 09:15", "54", "0,5", "insulina", "2,5"]]
    visits = [visits[i] for i in (0, 1, 3, 2, 4)]
    merged = [[*row[:2], row[2], *row[3:]] for row in visits]
    for i in (1, 3, 4):
        merged[i][0] = merged[i][2] = ""
    made = prepare(written(tmp_path / "merged.csv", HEAD, *merged), **ROLES)
    same_log(made, prepare(written(tmp_path / "plain.csv", HEAD, *visits), **ROLES))
    said(made.notes, "`Nr pacjenta`, `Wiek` stand in the first row of each episode only")


def test_an_id_in_merged_cells_is_offered_as_the_episode_and_the_outcome_of_its_last_row_as_the_reward() -> None:
    raw = {"record": [7, None, None, 8, None, None], "sex": ["f", None, None, "m", None, None], "x": [*range(6)]}
    raw |= {"drug": list("ABABAB"), "end": [None, None, "home", None, None, "dead"]}
    with pytest.raises(MessyLog) as caught:
        prepare(raw, action="drug")
    assert [problem.rpartition(" with ")[2] for problem in caught.value.problems] == [
        "--reward 'end: home=…, dead=…'.",
        "--column episode=record.",
    ]


def test_a_few_ids_that_are_missing_are_no_merged_cells() -> None:
    raw = {
        "patient": ["a", "b", None, "d", "e"],
        "drug": list("ABABA"),
        "x": [1, 2, 3, 4, 5],
        "reward": [0, 1, 0, 1, 1],
    }
    with pytest.raises(MessyLog, match="`patient`, the episode, is missing in 1 row"):
        prepare(raw, action="drug", ends="last-row")


@pytest.mark.parametrize(
    ("texts", "hours"),
    [
        (["2/10/2024 12:43 AM", "2/10/2024 1:43 am", "2/10/2024 1:43:00 PM"], [0, 1, 13]),
        (["2024年3月30日 18:00", "2024年3月31日 2:00", "2024年3月31日 14時30分"], [0, 8, 20.5]),
        (["2024年3月30日 18时", "2024年3月31日 2时05分", "2024年3月31日 14时30分"], [0, 8 + 1 / 12, 20.5]),
        (["12MAR2024:08:15:00", "12mar2024:09:15", "13-Mar-2024 08:15"], [0, 1, 24]),
        (["Mar 12, 2024 8:15 AM", "March 12, 2024 9:15 AM", "12 March 2024 10:15"], [0, 1, 2]),
        (["1. März 2024", "2. Mrz. 2024", "1 mai 2024"], [0, 24, 61 * 24]),
        (["1 août 2024 08h15", "1 déc. 2024 à 8h15", "2 DÉCEMBRE 2024 08h15"], [0, 122 * 24, 123 * 24]),
        (["3 mrt 2024", "3 apr 2024", "3 des 2024"], [0, 31 * 24, 275 * 24]),
        (["maandag 3 maart 2024", "di 4 mrt. 2024", "Mi., 05.03.2024"], [0, 24, 48]),
        (["Sunday, March 3, 2024", "Mon, 4 Mar 2024 10:00:00", "Tue 2024-03-05"], [0, 34, 48]),
        (["02.03.2024 08:00", "02.03.2024 24:00", "3/3/2024 1:00"], [0, 16, 17]),
        (["12 марта 2024", "13 мар 2024", "12 апреля 2024"], [0, 24, 31 * 24]),
        (["2024-03-12 08:15:00 UTC", "2024-03-12 09:15:00 UTC", "2024-03-12 10:15 UTC"], [0, 1, 2]),
    ],
)
def test_dates_with_names_of_months_and_halves_of_days(texts: list[str], hours: list[float]) -> None:
    made = prepare({"seen": texts, "reward": [0, 1, 0]}, bandit=True)
    np.testing.assert_allclose(made.columns["obs_seen"], np.array(hours) / 24, atol=1e-9)


def test_texts_that_look_like_dates_are_not_left_out_in_silence() -> None:
    seen = [f"{i} Phalguna 2024" for i in range(40)]
    raw = {"patient": [i // 4 for i in range(40)], "seen": seen, "x": list(range(40)), "reward": [1] * 40}
    with pytest.raises(MessyLog, match=r"`seen` holds 40 different texts .* may be dates.*--drop seen"):
        prepare(raw, ends="last-row")


def test_a_few_texts_that_look_like_dates_are_no_categories() -> None:
    raw = {
        "seen": [f"{day}.3.2024 half past {day}" for day in range(1, 9)] * 2,
        "x": [*range(16)],
        "reward": [0, 1] * 8,
    }
    with pytest.raises(MessyLog, match=r"which may be dates: .* or take them as categories with --text seen"):
        prepare(raw, bandit=True)
    assert "obs_seen: 1.3.2024 half past 1" in prepare(raw, bandit=True, text=["seen"]).columns
    years = {**raw, "seen": ["rules of 2019", "rules of 2020", "rules of 2021", "none"] * 4}
    assert "obs_seen: none" in prepare(years, bandit=True).columns


@pytest.mark.parametrize("word", ["x", "ja", 1])
def test_a_tick_is_a_yes_and_nothing_is_a_no(word: object) -> None:
    """The last tick of a patient must not be carried to later visits, as the last value of a measurement is."""
    raw = {"patient": list("aabb"), "visit": [1, 2, 1, 2], "vent": [word, None, None, word], "x": [1, 2, 3, 4]}
    made = prepare(raw | {"reward": [0, 1, 0, 1]}, time="visit", ends="cut")
    assert made.columns["obs_vent"].tolist() == [1, 0, 0, 1]
    assert made.transitions.names == ("vent", "x")
    said(made.notes, "or nothing: taken as 1 and 0 (if an empty cell means unknown, --fill vent=unknown).")
    later = {"patient": ["c"], "visit": [1], "vent": [None], "x": [1], "reward": [1]}
    assert prepare(later, like=made).columns["obs_vent"].tolist() == [0]


@pytest.mark.parametrize("codec", ["gb18030", "euc_jp", "shift_jis"])
def test_an_encoding_that_is_not_found_out_is_asked_for(codec: str, tmp_path: Path) -> None:
    """Read as one of the encodings of one byte per character, the names of columns would be gibberish."""
    words = ["抗生", "観察", "男性", "女性", "退院", "死亡", "高血圧", "糖尿病", "手術", "入院", "外来", "経過"]
    lines = [f"{i},{words[i % 12]},{words[i // 2 % 12]},{i % 2}" for i in range(60)]
    path = tmp_path / "visits.csv"
    path.write_text("\n".join(["番号,病歴,処置,reward", *lines]), encoding=codec)
    with pytest.raises(ValueError, match="name it to `sparsetd prepare` with --encoding NAME, such as gb18030"):
        prepare(path, bandit=True, action="処置")
    assert prepare(path, bandit=True, action="処置", encoding=codec).action_names == tuple(sorted(words))


def test_full_width_digits_are_digits() -> None:
    made = prepare({"CRP": ["１２．５", "３", "４．５"], "reward": [0, 1, 0]}, bandit=True)
    assert made.columns["obs_CRP"].tolist() == [12.5, 3, 4.5]


@pytest.mark.parametrize("everywhere", [False, True])
def test_an_outcome_that_is_only_ticked_says_what_an_empty_cell_is_worth(everywhere: bool) -> None:
    """Rows without a tick are survivors: to leave them out would leave the dead alone."""
    tick = ["x" if everywhere else None, "x", None, None]
    raw = {"patient": list("aabb"), "visit": [1, 2, 1, 2], "x": [1, 2, 3, 4], "died": tick}
    with pytest.raises(MessyLog, match="say what each word is worth with --reward 'died: x=…, empty=…'"):
        prepare(raw, time="visit", reward="died")
    if not everywhere:
        with pytest.raises(MessyLog, match="what an empty cell is worth with --reward 'died: x=0, empty=…'"):
            prepare(raw, time="visit", reward="died: x=0")
    made = prepare(raw, time="visit", reward="died: x=0, empty=1")
    assert made.columns["reward"].tolist() == [0, 0, 0, 1]
    assert made.columns["terminated"].tolist() == [False, True, False, True]


def test_columns_of_one_name_are_told_apart_and_said(tmp_path: Path) -> None:
    """A query that joins two tables gives such columns; in a log, where roles go by names, they are refused."""
    head = [*HEAD[:4], "CRP", *HEAD[4:]]
    visits = [[*row[:4], f"{i},5", *row[4:]] for i, row in enumerate(VISITS)]
    made = prepare(written(tmp_path / "visits.csv", head, *visits), **ROLES)
    assert made.transitions.names == ("Wiek", "CRP", "CRP (2)")
    said(made.notes, "Names that stand twice in it became `CRP (2)`.")
    with pytest.raises(ValueError, match="`CRP` names two columns"):
        read(tmp_path / "visits.csv")


def test_a_blank_before_a_unit_makes_no_other_drug() -> None:
    cells = ["Metformin 500 mg", "metformin 500mg", "none", "Metformin 500 mg"]
    made = prepare({"drug": cells, "x": [1, 2, 3, 4], "reward": [0, 1, 0, 1]}, action="drug", bandit=True)
    assert made.action_names == ("Metformin 500 mg", "none")
    assert made.transitions.probabilities(policy("'metformin 500mg' if x > 1; else none"))[:, 0].tolist() == [
        0,
        1,
        1,
        1,
    ]


def test_a_time_in_words_can_be_left_to_the_order_of_the_rows() -> None:
    raw = {"patient": list("aabb"), "visit": ["week 0", "week 4"] * 2, "x": [1, 2, 3, 4], "reward": [0, 1, 0, 1]}
    with pytest.raises(MessyLog, match="or keep the rows as they stand with --column time=none"):
        prepare(raw, ends="cut", time="visit")
    assert prepare(raw, ends="cut", time=None).transitions.n_episodes == 2


def test_ids_in_two_spellings_are_one_patient() -> None:
    raw = {"patient": ["P01", "p01 ", "P01", "P02", "p02", "P03"], "x": [1, 2, 3, 4, 5, 6], "reward": [1] * 6}
    made = prepare(raw, ends="last-row")
    assert made.columns["episode"].tolist() == ["P01", "P01", "P01", "P02", "P02", "P03"]
    said(made.notes, "`patient`: 'p01' in 1 row (first row 1) joined to 'P01', 'p02' in 1 row")
    assert prepare(raw, ends="last-row", keep=["names", "order"]).transitions.n_episodes == 5
    many = {
        "patient": [f"{'Pp'[i % 2]}{i // 2}" for i in range(80)],
        "x": [i % 7 for i in range(80)],
        "reward": [1] * 80,
    }
    notes = [note for note in prepare(many, ends="last-row").notes if "joined" in note]
    assert len(notes) == 1
    assert notes[0].startswith("`patient`: 'p0' in 1 row (first row 1) joined to 'P0', ")
    assert notes[0].endswith(" and 30 more.")


def test_line_breaks_in_names_are_blanks(tmp_path: Path) -> None:
    path = tmp_path / "visits.csv"
    path.write_text('"Lactate\n(mmol/L)",Note,reward\n1,"seen\nat night",0\n2,,1\n3,"seen\r\nat night",1\n')
    made = prepare(path, bandit=True, missing="mark")
    assert list(made.columns)[2:] == ["obs_Lactate (mmol/L)", "obs_Note: seen at night", "obs_Note: missing", "Note"]


def test_the_index_of_every_file_is_left_out_and_so_is_a_column_that_counts_rows(tmp_path: Path) -> None:
    for k in range(2):
        rows = [f"{i},p{i % 10},{i},{i % 7},{i % 2}" for i in range(20 * k, 20 * k + 20)]
        numbered = [f"{i},{i + 1},{row.partition(',')[2]}" for i, row in enumerate(rows)]
        (tmp_path / f"{k}.csv").write_text("\n".join([",Lp.,patient,day,x,reward", *numbered]))
    made = prepare(tmp_path, ends="cut")
    assert [name for name in made.columns if name.startswith("obs_")] == ["obs_x"]
    said(made.notes, "`Unnamed: 0` only numbers the rows", "`Lp.` only numbers the rows")


@pytest.mark.parametrize(
    "word", ["#NV", "#DIV/0!", "#N/D", "#WERT!", "#¡VALOR!", "未測定", "b/d", "sem dados", "不明", "–", "neměřeno"]
)
def test_errors_of_spreadsheets_are_gaps(word: str) -> None:
    made = prepare({"x": [1, word, 3, 4], "reward": [0, 1, 0, 1]}, bandit=True)
    assert made.columns["obs_x: missing"].tolist() == [0, 1, 0, 0]


def test_doses_that_change_are_offered_as_the_action() -> None:
    doses = ["0 mg", "250 mg", "500 mg"]
    raw = {"patient": [i // 4 for i in range(48)], "Dose": [doses[i % 3] for i in range(48)], "x": list(range(48))}
    with pytest.raises(MessyLog) as caught:
        prepare({**raw, "score": raw["x"]}, ends="last-row")
    said(caught.value.problems, "--column action=Dose")
    with pytest.raises(MessyLog) as caught:
        prepare({**raw, "Dose": ["Y", "N", ""] * 16, "score": raw["x"]}, ends="last-row")
    said(caught.value.problems, "--column action=Dose")


def test_a_dose_in_capital_units_is_offered_and_that_no_column_is_the_action_is_said() -> None:
    raw = {"patient": ["a", "a", "b", "b"], "Dose": ["8 UI", "4 UI", "4 UI", "8 UI"], "x": [1, 2, 3, 4]}
    raw["reward"] = [0, 1, 0, 1]
    said(prepare(raw, ends="cut").notes, "No column was recognised as the action", "--column action=Dose")
    without = {**raw, "Dose": [8, 4, 4, 8]}
    said(prepare(without, ends="cut").notes, "No column was recognised as the action", "--column action=NAME")
    assert not any("action" in note for note in prepare(without, ends="cut", action=None).notes)


def test_a_word_that_begins_with_a_dash_is_offered_as_the_command_takes_it() -> None:
    raw = {"CRP": ["4.5", "-x-", "3.5", "2.5"], "reward": [0, 1, 0, 1]}
    with pytest.raises(MessyLog, match="as missing with --na=-x-, or read the column as text"):
        prepare(raw, bandit=True)


def test_a_column_of_one_text_is_left_out() -> None:
    made = prepare({"x": [1, 2, 3], "source": ["monitor"] * 3, "reward": [0, 1, 0]}, bandit=True)
    assert "obs_source: monitor" not in made.columns
    said(made.notes, "`source` is 'monitor' in every row: it was left out.")


def test_gaps_of_a_kept_text_are_a_group_of_their_own() -> None:
    made = prepare({"ward": ["ICU", None, "ER", "OP"] * 3, "x": [*range(12)], "reward": [0, 1, 0] * 4}, bandit=True)
    assert made.columns["ward"].tolist()[:4] == ["ICU", "missing", "ER", "OP"]


def _offers(n: int = 2000) -> dict[str, list[object]]:
    """Customers who may have several offers, each drawn with a probability that the table has in percent."""
    rng = np.random.default_rng(0)
    tenure = rng.uniform(0, 1, n)
    chance = np.column_stack([0.2 + 0.5 * tenure, 0.5 - 0.4 * tenure, 0.3 - 0.1 * tenure])
    offer = (rng.random(n)[:, None] > chance.cumsum(axis=1)).sum(axis=1)
    taken = [f"{100 * one:.1f}".replace(".", ",") + " %" for one in chance[np.arange(n), offer]]
    raw = {"customer": rng.integers(70_000, 71_000, n).tolist(), "tenure": tenure.tolist(), "chance": taken}
    return raw | {
        "share": rng.uniform(0.1, 1, n).tolist(),
        "offer": [f"offer {k}" for k in offer],
        "reward": [0, 1] * 1000,
    }


def test_what_looks_like_the_probability_of_the_action_is_asked_about() -> None:
    with pytest.raises(MessyLog) as caught:
        prepare(_offers(), action="offer", bandit=True)
    (problem,) = caught.value.problems
    assert problem.startswith("`chance` looks like the probability of the action that was taken")
    assert "--column behavior_prob=chance" in problem
    made = prepare(_offers(), action="offer", bandit=True, behavior_prob="chance")
    assert 0.1 <= made.columns["behavior_prob"].min() < made.columns["behavior_prob"].max() <= 0.7
    assert "obs_chance" in prepare(_offers(), action="offer", bandit=True, keep=["same"]).columns


def test_percents_of_which_only_the_header_tells_are_probabilities() -> None:
    raw = _offers()
    shares = prepare(raw, action="offer", bandit=True, behavior_prob="chance")
    raw["chance (%)"] = [str(one).removesuffix(" %") for one in raw.pop("chance")]
    with pytest.raises(MessyLog, match=r"`chance \(%\)` looks like the probability of the action that was taken"):
        prepare(raw, action="offer", bandit=True)
    made = prepare(raw, action="offer", bandit=True, behavior_prob="chance (%)")
    np.testing.assert_array_equal(made.columns["behavior_prob"], shares.columns["behavior_prob"])
    said(made.notes, "`chance (%)` is above 1 in most rows: taken as percent.")


def test_an_id_of_several_decisions_is_what_they_share() -> None:
    for roles in ({}, {"episode": "customer"}):
        made = prepare(_offers(), action="offer", bandit=True, behavior_prob="chance", **roles)
        assert made.transitions.n_episodes == 2000
        assert "episode" not in made.columns
        assert len(set(made.columns["customer"])) < 1000
        said(made.notes, "`customer` looks like an id that several episodes share: ask with --cluster customer")


def test_numbers_of_rows_in_a_database_are_left_out_in_any_order() -> None:
    rng = np.random.default_rng(1)
    raw = {
        "id": (90_000 + rng.permutation(300)).tolist(),
        "x": rng.normal(size=300).tolist(),
        "reward": [0, 1, 0] * 100,
    }
    made = prepare(raw | {"pay": rng.choice(10**6, 300, replace=False).tolist()}, bandit=True)
    assert made.transitions.names == ("x", "pay")
    said(made.notes, "`id` only numbers the rows")
    assert "obs_charted time" in prepare(raw | {"charted time": raw["id"]}, bandit=True).columns


def test_a_probability_that_cannot_be_one_is_named() -> None:
    raw = {"x": [1, 2], "p": [0.5, 1.5], "action": [0, 1], "reward": [0, 1]}
    with pytest.raises(MessyLog, match=r"correct 1\.5, between 0 and 1, or leave out the row"):
        prepare(raw, bandit=True, behavior_prob="p")


def test_a_number_of_the_visit_orders_visits() -> None:
    raw = {"patient": list("aabbb"), "Lfd. Besuch": ["2", "1", "3", "1", "2"], "x": [5, 4, 3, 1, 2], "reward": [1] * 5}
    made = prepare(raw, ends="last-row")
    assert made.transitions.names == ("obs_x",)
    assert made.columns["obs_x"].tolist() == [4, 5, 1, 2, 3]
    said(made.notes, "`Lfd. Besuch` orders the rows of an episode.", "`Lfd. Besuch` went back", "were sorted by it")
    assert prepare({**raw, "Lfd. Besuch": [2, 1, 3, 1, 1]}, ends="last-row").transitions.names == ("Lfd. Besuch", "x")


def test_a_date_and_a_clock_in_two_columns_are_one_time() -> None:
    raw = {
        "patient": list("aaabb"),
        "Fecha": ["01/03/2024", "25/02/2024", "01/03/2024", "02/03/2024", "02/03/2024"],
        "Hora": ["19:00", "7:30", "07:00", "12:00:30", "12:00:00"],
        "x": [3, 1, 2, 4, 4],  # the last two visits differ in nothing but the hour
        "reward": [1] * 5,
    }
    made = prepare(raw, time="Fecha", ends="last-row")
    assert made.transitions.names == ("obs_x",)
    assert made.columns["obs_x"].tolist() == [1, 2, 3, 4, 4]
    said(made.notes, "`Fecha` and `Hora` order the rows of an episode.")
    same_log(prepare(raw, like=made), made)
    midnights = {**raw, "Fecha": np.array(["2024-03-01", "2024-02-25", "2024-03-01", *["2024-03-02"] * 2], "M8[s]")}
    same_log(
        prepare({**midnights, "fin": raw["Hora"]}, time="Fecha", clock="Hora", drop=["fin"], ends="last-row"), made
    )
    with pytest.raises(MessyLog, match="--column clock=NAME"):
        prepare({**raw, "fin": raw["Hora"]}, time="Fecha", ends="last-row")
    with pytest.raises(MessyLog, match="no column is the date"):
        prepare(raw, clock="Hora", time=None, ends="last-row")
    same_log(prepare({**raw, "Fecha": [61, 56, 61, 62, 62]}, clock="Hora", ends="last-row"), made)
    with pytest.raises(MessyLog, match="`x`, the clock, must hold times such as 14:30"):
        prepare(raw, time="Fecha", clock="x", ends="last-row")


def test_a_treatment_that_begins_like_a_number_is_text() -> None:
    """A word for a missing number is no number: a column of "none" and names is no column of numbers."""
    raw = {"x": [1, 2, 3, 4], "Offer": ["None", "Discount 10%", "none", "None"], "reward": [0, 1, 0, 1]}
    assert "obs_Offer: None, not Discount 10%" in prepare(raw, bandit=True).columns


def test_money_in_brackets_is_negative() -> None:
    raw = {"cost": ["($1,234.50)", "$3", "($2)"], "n": ["(1)", "(2)", "x"], "reward": [0, 1, 0]}
    made = prepare(raw, bandit=True)
    assert made.columns["obs_cost"].tolist() == [-1234.5, 3, -2]
    assert "obs_n: (1)" in made.columns


def test_a_copy_of_the_action_or_of_the_outcome_is_not_observed() -> None:
    """What the action and the end of the episode are in other words would tell both before they happen."""
    n = 60
    raw: dict[str, list[object]] = {"patient": [i // 3 for i in range(n)], "x": [i % 7 for i in range(n)]}
    raw |= {"TRT": ["AB"[i % 5 % 2] for i in range(n)], "TRTN": [i % 5 % 2 + 1 for i in range(n)]}
    raw |= {"died": ["yn"[i // 3 % 2] for i in range(n)], "status": ["DX"[i // 3 % 2] for i in range(n)]}
    roles = {"action": "TRT", "reward": "died: y=0, n=1"}
    made = prepare(raw, **roles)
    assert made.transitions.names == ("obs_x",)
    said(made.notes, "`TRTN` only repeats `TRT`: it was left out", "`status` only repeats `died`", "--keep same")
    assert {"obs_TRTN", "status"} <= {*prepare(raw, keep=["same"], **roles).columns}
    same_log(prepare(raw, like=made), made)


def test_an_outcome_of_zero_and_one_that_stands_in_every_row_counts_once() -> None:
    raw = {"patient": [i // 3 for i in range(18)], "x": [i % 7 for i in range(18)]}
    raw["death_30d"] = [i // 3 % 2 for i in range(18)]
    made = prepare(raw, reward="death_30d")
    assert made.transitions.reward.sum() == 3
    said(made.notes, "`death_30d` is the same in all rows of an episode: it counts once", "--keep outcome")
    assert prepare(raw, reward="death_30d", ends="last-row", keep=["outcome"]).transitions.reward.sum() == 9
    ones = prepare({**raw, "death_30d": [1] * 18}, reward="death_30d", ends="last-row")
    assert ones.transitions.reward.sum() == 18  # a step of an episode that costs 1


@pytest.mark.parametrize("form", ["{}", "IPP-{}"])
def test_the_id_of_a_patient_of_several_stays_is_kept_to_ask_with(tmp_path: Path, form: str) -> None:
    raw = {"stay": [i // 2 for i in range(200)], "IPP": [form.format(800_000 + 7 * (i // 4)) for i in range(200)]}
    raw |= {
        "x": [i % 7 for i in range(200)],
        "drug": ["AB"[i % 3 % 2] for i in range(200)],
        "reward": [i % 5 for i in range(200)],
    }
    made = prepare(raw, episode="stay", action="drug", ends="last-row")
    assert made.transitions.names == ("obs_x",)
    said(made.notes, "`IPP` looks like an id that several episodes share: ask with --cluster IPP (if not, --keep ids)")
    made.save(tmp_path / "log.parquet")
    assert len(np.unique(read(tmp_path / "log.parquet", group="IPP").group)) == 50


def test_numbers_called_a_time_that_tell_all_visits_apart_order_them() -> None:
    raw = {"patient": list("aabbb"), "Chart Time": [45301.5, 45300.25, 45400.1, 45402.5, 45401.0]}
    raw |= {"x": [2, 1, 3, 5, 4], "reward": [1] * 5}
    made = prepare(raw, ends="last-row")
    assert made.columns["obs_x"].tolist() == [1, 2, 3, 4, 5]
    said(made.notes, "`Chart Time` orders the rows of an episode.")
    again = prepare({**raw, "Chart Time": [7.5, 7.5, 1, 2, 3]}, ends="last-row")  # how long something took
    assert "Chart Time" in again.transitions.names


@pytest.mark.parametrize("cells", [[1, 0], [1.0, 0.0], ["Yes", "No"], ["1", "0"]])
def test_what_counts_as_better_is_said_and_can_be_turned_round(cells: list[object]) -> None:
    """Deaths are an outcome of which less is better, and nothing but its name says so."""
    raw = {"patient": [i // 3 for i in range(18)], "x": [i % 7 for i in range(18)]}
    raw["Died"] = [cells[i // 3 % 2] for i in range(18)]  # type: ignore[list-item]
    made = prepare(raw, reward="Died")
    assert made.transitions.reward.sum() == 3
    turned = next(note for note in made.notes if "counts as better" in note).partition("--reward '")[2].rstrip("').")
    assert prepare(raw, reward=turned).transitions.reward.sum() == 3
    assert prepare(raw, reward=turned).transitions.reward[:6].tolist() == [0, 0, 0, 0, 0, 1]


def test_a_programme_of_fixed_length_observes_the_number_of_the_visit() -> None:
    """What is left to gain depends on it, and a column that orders the rows cannot be observed otherwise."""
    raw: dict[str, list[object]] = {"patient": [i // 3 for i in range(30)], "Day": [i % 3 for i in range(30)]}
    raw |= {"pain": [i % 7 for i in range(30)], "reward": [i % 4 for i in range(30)]}
    made = prepare(raw, ends="last-row")
    assert made.transitions.names == ("Day", "pain")
    assert made.columns["obs_Day"].tolist() == raw["Day"]
    said(made.notes, "`Day`, which counts the rows of an episode, is observed as well: all episodes ended after 3 rows")
    later = prepare({name: cells[:8] for name, cells in raw.items()}, like=made)
    assert later.columns["obs_Day"].tolist() == raw["Day"][:8]
    dated = raw | {"Day": [f"{i % 3 + 1:02}.03.2024" for i in range(30)]}
    assert prepare(dated, ends="last-row").transitions.names == ("number of the row", "pain")


def test_the_number_of_the_visit_is_observed_on_demand() -> None:
    raw: dict[str, list[object]] = {"patient": [1, 1, 2, 2, 2], "Day": [1, 2, 1, 2, 3], "x": [5, 4, 3, 1, 2]}
    raw["reward"] = [1, 2, 1, 2, 3]
    assert prepare(raw, ends="last-row").transitions.names == ("obs_x",)
    assert prepare(raw, ends="last-row", keep=["time"]).transitions.names == ("Day", "x")


def _discharges(n: int = 300) -> dict[str, list[object]]:
    """Stays of one to four visits; a reason stands in the last row of each, and the dose where the drug was given."""
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, 5, n)
    patient, rows = np.repeat(np.arange(n), lengths), lengths.sum()
    drug, dose = rng.integers(3, size=rows), rng.choice(["0,1 mg", "0,2 mg", "0,4 mg"], rows)
    last = np.append(np.diff(patient) > 0, True)
    reason = np.where(last, rng.choice(["home", "lost to follow-up"], rows), "")
    return {
        "stay": [f"S{one}" for one in patient],
        "day": (np.arange(rows) - np.repeat(np.cumsum(lengths) - lengths, lengths)).tolist(),
        "x": rng.normal(size=rows).tolist(),
        "treatment": [["none", "A", "B"][one] for one in drug],
        "dose of B": [one if taken else "" for one, taken in zip(dose, drug == 2, strict=True)],
        "reason": reason.tolist(),
        "bill": [f"${one:,.2f}" for one in rng.uniform(10, 2000, rows)],
    }


def test_what_is_known_at_the_end_only_is_not_observed() -> None:
    raw = _discharges()
    made = prepare(raw, reward="bill", ends="last-row")
    assert made.transitions.names == ("obs_x",)
    said(
        made.notes,
        "`reason` changes in the last rows of episodes only, and tells how they ended: it was left out",
        "--column 'terminated=reason: home=…, lost to follow-up=…'",
    )
    assert "obs_reason: missing" in prepare(raw, reward="bill", ends="last-row", keep=["same"]).columns
    with pytest.raises(MessyLog, match="or in words --column 'terminated=reason: home=…, lost to follow-up=…'"):
        prepare(raw, reward="bill")


def test_what_is_measured_at_the_last_visit_of_a_programme_is_observed() -> None:
    n = 120
    raw: dict[str, list[object]] = {"patient": [i // 3 for i in range(n)], "x": [i % 7 for i in range(n)]}
    raw |= {"final test": [i % 5 if i % 3 == 2 else None for i in range(n)], "reward": [i % 4 for i in range(n)]}
    assert "obs_final test" in prepare(raw, ends="last-row").columns


def test_words_say_which_episodes_ended_for_good() -> None:
    raw = _discharges()
    made = prepare(raw, reward="bill", terminated="reason: home=1, lost to follow-up=0")
    assert made.columns["terminated"].tolist() == [one == "home" for one in raw["reason"]]
    with pytest.raises(MessyLog, match="say what each word means with --column 'terminated=reason: home=…, lost"):
        prepare(raw, reward="bill", terminated="reason")
    with pytest.raises(MessyLog, match=r"--column 'terminated=reason: home=1, lost to follow-up=…'"):
        prepare(raw, reward="bill", terminated="reason: home=1")
    same_log(prepare(raw, like=made), made)


def test_a_third_word_of_an_outcome_may_be_no_end() -> None:
    """Whoever was moved to another hospital neither lives nor died here: recording stopped."""
    n, word = 60, ["alive", "dead", "moved"]
    raw: dict[str, list[object]] = {"patient": [i // 3 for i in range(n)], "x": [i % 7 for i in range(n)]}
    raw["outcome"] = [word[i // 3 % 3] if i % 3 == 2 else "" for i in range(n)]
    reward = "outcome: alive=1, dead=0, moved=0"
    said(prepare(raw, reward=reward).notes, "or --column 'terminated=outcome: alive=…, dead=…, moved=…' if some did")
    made = prepare(raw, reward=reward, terminated="outcome: alive=1, dead=1, moved=0")
    assert made.columns["terminated"].sum() == 14
    assert made.columns["reward"].sum() == 7
    two = raw | {"outcome": [word[i // 3 % 2] if i % 3 == 2 else "" for i in range(n)]}
    assert not any("terminated=" in note for note in prepare(two, reward=reward).notes)


def test_words_of_ends_are_an_option(tmp_path: Path) -> None:
    raw, out = _discharges(), tmp_path / "log.parquet"
    path = written(tmp_path / "stays.csv", [*raw], *zip(*(map(str, cells) for cells in raw.values()), strict=True))
    words = ["prepare", str(path), "--out", str(out), "--column", "terminated=reason: home=1, lost to follow-up=0"]
    assert main([*words, "--reward", "bill: each=-1", "--quiet"]) == 0
    assert read(out).terminated.sum() == raw["reason"].count("home")
    assert read(out).reward.max() < 0


def test_the_dose_of_a_drug_tells_the_action() -> None:
    raw = _discharges()
    made = prepare(raw, reward="bill", ends="last-row")
    said(made.notes, "`dose of B` only repeats `treatment`: it was left out (if it is known earlier, --keep same).")
    zero = raw | {"dose of B": [one or "0" for one in raw["dose of B"]]}
    assert prepare(zero, reward="bill", ends="last-row").transitions.names == ("obs_x",)
    given = [i for i, one in enumerate(raw["dose of B"]) if one]
    forgotten = raw | {"dose of B": ["" if i in given[::20] else one for i, one in enumerate(raw["dose of B"])]}
    with pytest.raises(MessyLog, match=r"only where `treatment` is 'B', .* --drop 'dose of B'; .* --keep same"):
        prepare(forgotten, reward="bill", ends="last-row")
    half = raw | {"dose of B": ["" if i in given[::2] else one for i, one in enumerate(raw["dose of B"])]}
    assert "obs_dose of B" in prepare(half, reward="bill", ends="last-row").columns
    other = raw | {"dose of B": [*raw["dose of B"][1:], "0,1 mg"]}  # from the row before: known when the drug is chosen
    assert "obs_dose of B" in prepare(other, reward="bill", ends="last-row").columns


def test_a_cost_is_a_negative_reward() -> None:
    raw = _discharges()
    made, cost = (prepare(raw, reward=reward, ends="last-row") for reward in ("bill", "bill: each=-1"))
    np.testing.assert_array_equal(cost.columns["reward"], -made.columns["reward"])
    said(made.notes, "`bill`: more counts as better; if it is a cost, say --reward 'bill: each=-1'.")
    assert not any("better" in note for note in cost.notes)
    same_log(prepare(raw, like=cost), cost)


def test_nobody_is_told_to_leave_out_all_rows() -> None:
    raw = {"x": [1, 2, 3], "p": [-0.5, 7.5, -0.5], "action": [0, 1, 0], "reward": [0, 1, 0]}
    with pytest.raises(MessyLog, match="impossible in 3 rows") as caught:
        prepare(raw, bandit=True, behavior_prob="p")
    assert "--skip" not in str(caught.value)


def test_what_is_measured_at_every_decision_does_not_repeat_an_outcome_beside_which_it_is_empty() -> None:
    raw: dict[str, list[object]] = {"patient": [i // 3 for i in range(90)], "drug": [*"AB"] * 45}
    raw |= {"x": [None if i % 3 == 2 else i % 31 for i in range(90)]}
    raw["outcome"] = [["alive", "dead"][i // 3 % 2] if i % 3 == 2 else "" for i in range(90)]
    assert "obs_x" in prepare(raw, action="drug", reward="outcome: alive=1, dead=0").columns


def test_a_drug_that_is_hardly_ever_given_is_repeated_by_nothing() -> None:
    raw = {"x": [7, *range(20), *range(20), 7, 7], "drug": ["B", *["A"] * 41, "B"], "reward": [0, 1, 2] * 14 + [0]}
    assert "obs_x" in prepare(raw, action="drug", bandit=True).columns


def _with_discharges(n: int = 10) -> tuple[dict[str, list[object]], dict[str, list[object]]]:
    """Two decisions each, then the discharge in a row of its own; and the same stays without these rows."""
    day, word = [i % 3 for i in range(3 * n)], ["alive", "dead"]
    raw: dict[str, list[object]] = {"patient": [i // 3 for i in range(3 * n)], "day": day}
    raw |= {"x": [i % 7 if day[i] < 2 else None for i in range(3 * n)]}
    raw |= {"treatment": ["AB"[i % 5 % 2] if day[i] < 2 else None for i in range(3 * n)]}
    raw |= {"outcome": [None if day[i] < 2 else word[i // 3 % 2] for i in range(3 * n)]}
    decisions = [i for i in range(3 * n) if day[i] < 2]
    plain = {name: [cells[i] for i in decisions] for name, cells in raw.items()}
    return raw, plain | {"outcome": [None if day[i] == 0 else word[i // 3 % 2] for i in decisions]}


def test_a_discharge_is_no_decision() -> None:
    raw, plain = _with_discharges()
    roles = {"reward": "outcome: alive=1, dead=0"}
    made = prepare(raw, **roles)
    same_log(made, prepare(plain, **roles))
    said(made.notes, "`treatment` is empty in 10 rows (first row 2), each the last of an episode: nothing was decided")
    same_log(prepare(raw, like=made), made)
    ends = {"terminated": "outcome: alive=1, dead=0"}
    same_log(prepare(raw, **roles, **ends), prepare(plain, **roles, **ends))
    assert prepare(raw, fill={"treatment": "none"}, **roles).action_names == ("A", "B", "none")


def test_an_action_that_is_missing_now_and_then_is_a_problem() -> None:
    raw, plain = _with_discharges()
    with pytest.raises(MessyLog, match="the action, is missing in 10 rows"):
        prepare(raw, reward="outcome: alive=1, dead=0", keep=["rows"])
    few = plain | {"treatment": [*plain["treatment"][:-1], None]}
    with pytest.raises(MessyLog, match="the action, is missing in 1 row"):
        prepare(few, reward="outcome: alive=1, dead=0")
    between = raw | {"treatment": [None, *raw["treatment"][1:]]}
    with pytest.raises(MessyLog, match="the action, is missing in 11 rows"):
        prepare(between, reward="outcome: alive=1, dead=0")
    paid = raw | {"reward": [*range(30)]}
    with pytest.raises(MessyLog, match="the action, is missing in 10 rows"):
        prepare(paid, reward="reward", ends="last-row")


def test_numbers_in_several_units_are_named() -> None:
    lactate = [f"{i / 10} mmol/l" if i % 3 else f"{i} mg/dl" for i in range(60)]
    raw = {"lactate": lactate, "x": [*range(60)], "reward": [0, 1] * 30}
    with pytest.raises(MessyLog, match=r"`lactate` .*write its numbers in one unit \('mg/dl', 'mmol/l'\), leave"):
        prepare(raw | {"stay": [i // 3 for i in range(60)]}, episode="stay", ends="last-row")


def test_decisions_without_a_known_outcome_can_be_left_out() -> None:
    raw = {"x": [*range(8)], "drug": [*"ABABABAB"], "better": ["yes", "no", None, "no", "yes", "", "no", "yes"]}
    with pytest.raises(MessyLog, match=r"is missing in 2 rows .*, or leave out these rows with --skip better if"):
        prepare(raw, action="drug", reward="better", bandit=True)
    made = prepare(raw, action="drug", reward="better", bandit=True, skip=["better"])
    assert made.columns["obs_x"].tolist() == [0, 1, 3, 4, 6, 7]
    said(made.notes, "Rows 2, 5 were left out, as asked.")
    with pytest.raises(MessyLog, match="no row betr to skip"):
        prepare(raw, action="drug", reward="better", bandit=True, skip=["betr"])


def test_episodes_whose_outcome_nobody_knows_are_cut() -> None:
    n, word = 60, ["alive", "dead", None]
    raw: dict[str, list[object]] = {"patient": [i // 3 for i in range(n)], "x": [i % 7 for i in range(n)]}
    raw["outcome"] = [word[i // 3 % 3] if i % 3 == 2 else None for i in range(n)]
    cure = "say empty=0 and --column 'terminated=outcome: alive=1, dead=1'"
    with pytest.raises(MessyLog, match=f"is missing at the end of an episode in 6 rows .*{cure}"):
        prepare(raw, reward="outcome: alive=1, dead=0")
    made = prepare(raw, reward="outcome: alive=1, dead=0, empty=0", terminated="outcome: alive=1, dead=1")
    assert made.columns["terminated"].sum() == 14
    assert made.columns["reward"].sum() == 7


def test_scattered_rows_need_a_time() -> None:
    """No word for the time is known in every language, and the order of such a file may mean nothing."""
    raw = {"patient": [*"abcabc"], "Hodina": [9, 0, 0, 0, 12, 13], "x": [1, 2, 2, 1, 2, 1], "score": [1, 2, 3, 4, 5, 6]}
    with pytest.raises(MessyLog, match=r"3 episodes are not together.* with --column time=Hodina, or say --keep order"):
        prepare(raw, reward="score", ends="last-row")
    assert prepare(raw, reward="score", ends="last-row", time="Hodina").columns["reward"].tolist() == [4, 1, 2, 5, 3, 6]
    for as_it_is in ({"keep": ["order"]}, {"time": None}):
        assert prepare(raw, reward="score", ends="last-row", **as_it_is).columns["reward"].tolist() == [
            1,
            4,
            2,
            5,
            3,
            6,
        ]
    together = {name: [*cells[::3], *cells[1::3], *cells[2::3]] for name, cells in raw.items()}
    assert len(prepare(together, reward="score", ends="last-row")) == 6


def test_an_id_of_several_stays_is_no_episode() -> None:
    raw = {"patient": [1, 1, 1, 1], "day": [1, 2, 3, 4], "x": [1, 2, 2, 1], "score": [1, 2, 3, 4], "home": [*"nyny"]}
    with pytest.raises(MessyLog, match="if one id has several stays, give each of them an id; otherwise leave it out"):
        prepare(raw, reward="score", terminated="home")


def test_codes_with_zeros_in_front_are_told() -> None:
    raw = {"code": ["0120", "0450", "0551", "0120"], "x": [1, 2, 3, 4], "reward": [0, 1, 2, 3]}
    said(prepare(raw, bandit=True).notes, "`code` has zeros in front (0120): read as numbers", "say --text code.")
    assert "obs_code: 0450" in prepare(raw, bandit=True, text=["code"]).columns
