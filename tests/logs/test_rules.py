"""Rules in words: parsed by a grammar of our own, never executed, and refused in one sentence."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from fuzz.mutations import mutated
from fuzz.rules import SEEDS, TOKENS, WORDS, outcome

from sparsetd import policy
from sparsetd.logs.rules import Family, Rule

NAMES = ("Lactate", "Age group", "sex: m, not f", "sex: missing", "ward: icu", "ward: er", "ward: other", "septic")
ACTIONS = ("none", "drug B", "drug C")
RNG = np.random.default_rng(0)
N = 200
WARD = RNG.integers(3, size=N)
ROWS = np.column_stack(
    [
        RNG.uniform(0, 5, N).round(1),
        RNG.integers(4, size=N),
        RNG.integers(2, size=N),
        np.zeros(N),
        *(np.eye(3)[WARD].T),
        RNG.integers(2, size=N),
    ]
)
ROWS[::7, 2:4] = [0, 1]  # their sex is missing
LACTATE, AGE, MALE, UNKNOWN, *_, SEPTIC = ROWS.T


def acts(text: str) -> tuple[np.ndarray, np.ndarray]:
    rule = policy(text)
    assert isinstance(rule, Rule)
    return rule.shares(ROWS, NAMES, ACTIONS)


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        ("Lactate > 2", LACTATE > 2),
        ("lactate >= 2 and LACTATE <= 3", (LACTATE >= 2) & (LACTATE <= 3)),
        ("1 < Lactate < 2 or Lactate = 4", ((LACTATE > 1) & (LACTATE < 2)) | (LACTATE == 4)),
        ("not Lactate ≥ 2", LACTATE < 2),
        ("`Age group` in (0, 3)", np.isin(AGE, (0, 3))),
        ("`age  GROUP` not in (1, 2)", np.isin(AGE, (0, 3))),
        ("(Lactate + 2 * `Age group`) / 2 - 1 > 1", (LACTATE + 2 * AGE) / 2 - 1 > 1),
        ("Lactate - 1 - 1 > 0", LACTATE - 1 - 1 > 0),
        ("Lactate > -1 * -2", LACTATE > 2),
        ("not (Lactate > 2 or septic)", ~((LACTATE > 2) | (SEPTIC == 1))),
        ("Lactate > 2 or Lactate < 1 and septic", (LACTATE > 2) | ((LACTATE < 1) & (SEPTIC == 1))),
        ("septic = yes", SEPTIC == 1),
        ("sex = m", MALE == 1),
        ("sex = 'f'", (MALE == 0) & (UNKNOWN == 0)),
        ("sex != f", (MALE == 1) | (UNKNOWN == 1)),
        ("sex is missing", UNKNOWN == 1),
        ("sex is not missing", UNKNOWN == 0),
        ("ward in (icu, ER)", WARD < 2),
    ],
)
def test_a_condition_holds_where_numpy_says_so(condition: str, holds: np.ndarray) -> None:
    table, rest = acts(f"drug B if {condition}")
    assert 0 < holds.sum() < N
    np.testing.assert_array_equal(table[:, 1] == 1, holds)
    np.testing.assert_array_equal(rest == 1, ~holds)  # otherwise as was done


def test_clauses_share_what_those_before_them_left() -> None:
    table, rest = acts(
        "drug B with 0.8 if Lactate > 2; drug C with 20 % if Lactate > 2; as was done if septic; else none"
    )
    high, low = LACTATE > 2, LACTATE <= 2
    np.testing.assert_allclose(table[high], [[0, 0.8, 0.2]] * high.sum())
    np.testing.assert_array_equal(rest, low & (SEPTIC == 1))
    np.testing.assert_array_equal(table[:, 0], low & (SEPTIC == 0))


def test_a_clause_may_name_several_actions() -> None:
    table, rest = acts("drug B with 0.5, drug C with 0.25 if Lactate > 2, otherwise as was done")
    np.testing.assert_allclose(table[LACTATE > 2], [[0, 0.5, 0.25]] * (LACTATE > 2).sum())
    np.testing.assert_allclose(rest, np.where(LACTATE > 2, 0.25, 1.0))


def test_an_action_alone_is_always_taken() -> None:
    for text in ("drug B", "always DRUG  b", "`drug B`"):
        table, rest = acts(text)
        assert table[:, 1].all()
        assert not rest.any()
    coded = policy("1 if x0 > 2")
    assert isinstance(coded, Rule)
    table, rest = coded.shares(ROWS, None, None, 3)
    np.testing.assert_array_equal(table[:, 1] == 1, LACTATE > 2)


def test_a_range_makes_a_family() -> None:
    family = policy("drug B if Lactate > {1..4}")
    assert isinstance(family, Family)
    assert family.thresholds == (1, 1.5, 2, 2.5, 3, 3.5, 4)
    for threshold, one in zip(family.thresholds, family, strict=True):
        np.testing.assert_array_equal(one.shares(ROWS, NAMES, ACTIONS)[0][:, 1] == 1, threshold < LACTATE)
    assert policy("drug B if Lactate > {1, 1.5, 2}").thresholds == (1, 1.5, 2)
    assert policy("drug B with {0.2..0.8 by 0.2} if septic").thresholds == pytest.approx((0.2, 0.4, 0.6, 0.8))
    assert policy("drug B if Lactate > {-2..-1 by 0.5}").thresholds == (-2, -1.5, -1)


def test_a_name_without_its_unit_is_meant() -> None:
    names = ("Laktát (mmol/l)", "Laktát (mmol/l): missing", "Tlak", "Tlakoměr")
    with pytest.raises(ValueError, match=r"'Laktát' that is not observed.*; did you mean 'Laktát \(mmol/l\)'\?"):
        policy("1 if Laktát > 2").shares(np.ones((2, 4)), names, None, n_actions=2)
    with pytest.raises(ValueError, match=r"'Tla' that is not observed.*; did you mean 'Tlak'\?"):
        policy("1 if Tla > 2").shares(np.ones((2, 4)), names, None, n_actions=2)


def test_numbered_columns_are_no_names_that_could_be_meant() -> None:
    rows = np.eye(3)
    assert policy("1 if x2 = 1").shares(rows, None, None, n_actions=2)[0][2].tolist() == [0, 1]
    with pytest.raises(
        ValueError, match="'x576169', but the columns of this log have no names, only the numbers x0 to x2"
    ):
        policy("1 if x576169 = 1").shares(rows, None, None, n_actions=2)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("drug B if Laktate > 2", "did you mean 'Lactate'"),
        ("drug B if age > 2", "did you mean 'Age group'"),
        ("drug D if Lactate > 2", "did you mean 'drug"),
        ("drug B if ward = icv", "did you mean 'icu'"),
        ("drug B if Lactate > 2,5", "2.5, not 2,5"),
        ("drug B if Lactate > 1_0", "'1_0' that is not observed"),
        ("drug B if Lactate > 1e400", "too large"),
        ("drug B if Lactate > t", "'t' that is not observed"),
        ("drug B if Lactate", "is a number"),
        ("drug B if sex > 2", "is text"),
        ("drug B if 1 / septic > 0", "divides by 0"),
        ("drug B; drug C", "nothing is left"),
        ("drug B with 1.5", "at most 1"),
        ("drug B with 0.6, drug C with 0.6", "more than 1"),
        ("else drug B; drug C if septic", "nothing may follow"),
        ("if Lactate > 2", "an action must stand there"),
        ("drug B if (Lactate > 2", "where the bracket ends"),
        ("drug B if Lactate > 2 > ", "a column or a number"),
        ("drug B if Lactate + (septic > 1) > 2", "not a condition"),
        ("drug B if Lactate > {4..1}", "numbers that rise"),
        ("drug B if Lactate > {1..2 by 0.001}", "at most 200"),
        ("drug B if {1..2} < Lactate < {3..4}", "two ranges"),
        ("drug B if " + "(" * 300 + "septic" + ")" * 300, "200 operators"),
        ("drug B if " + "not " * 2000 + "septic", "200 operators"),
        ("drug B if " + "1 + " * 2000 + "septic > 2", "200 operators"),
        ("drug B if __import__('os').system('true')", "cannot be read"),
        ("x" * 20_000, "characters"),
        ("", "A rule is a sentence"),
    ],
)
def test_what_cannot_be_read_is_said_in_one_sentence(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said) as caught:
        policy(text).shares(ROWS, NAMES, ACTIONS)
    assert "\n" not in str(caught.value)


def test_random_texts_are_parsed_or_refused_in_a_sentence() -> None:
    rng = random.Random(0)
    words = [" ".join(rng.choices(WORDS, k=rng.randint(0, 14))) for _ in range(1000)]
    damaged = [mutated(SEEDS, TOKENS, rng).decode(errors="replace") for _ in range(1000)]
    assert 50 < [outcome(text) for text in words + damaged].count("parsed") < 1000


def given(names: list[str], rows: Any, rule: str) -> list[int]:
    """The rows in which a rule gives B."""
    table, _ = policy(rule).shares(np.asarray(rows, dtype=float), names, ("A", "B"), 2)
    return np.flatnonzero(table[:, 1]).tolist()


def test_the_spelling_of_the_log_wins_over_another() -> None:
    rows = [[1, 10], [3, 10], [1, 30]]
    assert given(["AGE", "age"], rows, "B if age > 20") == [2]
    assert given(["AGE", "age"], rows, "B if AGE > 2") == [1]
    assert given(["AGE", "ward"], rows, "B if age > 2") == [1]
    with pytest.raises(ValueError, match="'Age', which may be 'AGE' or 'age': write it as the log does"):
        given(["AGE", "age"], rows, "B if Age > 20")
    with pytest.raises(ValueError, match="'age', which may be 'obs_age' or 'state_age'"):
        given(["obs_age", "state_age"], rows, "B if age > 20")


def test_a_category_is_asked_for_as_it_is_written() -> None:
    wards = ["ward: 7", "ward: 07", "ward: 1234567", "ward: 1e+06", "ward: 1000000"]
    rows = np.eye(5)
    assert given(wards, rows, "B if ward = 07") == [1]
    assert given(wards, rows, "B if ward = 7") == [0]
    assert given(wards, rows, "B if ward = 7.0") == [0]
    assert given(wards, rows, "B if ward = 1234567") == [2]
    assert given(wards, rows, "B if ward = 1000000") == [4]
    assert given(wards, rows, "B if ward in (07, 1000000)") == [1, 4]
    assert given(["g: A", "g: a", "g: c"], np.eye(3), "B if g = a") == [1]
    assert given(["g: y, not x", "g: x", "g: z"], np.eye(3), "B if g = x") == [1]


@pytest.mark.parametrize("text", ["B if lactate > 1{1..2}", "B if lactate > {1..2}5", "B if lactate > 0.{1, 2}"])
def test_a_range_is_no_part_of_a_number(text: str) -> None:
    with pytest.raises(ValueError, match=r"touches another word or number: put a blank"):
        policy(text)
