"""One column of a raw table becomes columns of a log. What was done to it is noted, and what was learnt is kept.

What is learnt (categories, medians, the first date, how numbers are written) is plain data, so that a later table is
read alike.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np

from sparsetd.logs.checks import Array, show
from sparsetd.logs.raw import Column, Reading, meaning, unit_and_number
from sparsetd.logs.schema import folded

MOST_CATEGORIES = 30  # a column of more texts than this would become too many columns, most of them nearly empty
LEAST_ID = 10_000  # shorter numbers are ages and measurements
DAY = 86_400.0
MISSING = "missing"
INDEX = re.compile(r"Unnamed: 0(\.\d+)*|__index_level_\d+__")  # what pandas calls an index without a name in its files
NONE = -1.0  # the code of a category that is not known
Known = Mapping[str, Any]


def counted(n: int) -> str:
    return f"{n:,} {'row' if n == 1 else 'rows'}"


@dataclass
class Notes:
    """Sentences about everything that was done to the columns, and about every problem."""

    rows: Array  # the number of every row, as people count them
    done: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    episode_known: bool = False
    outcome: bool = False  # whether the reward is one of the whole episode, and stands at its end

    def problem(self, what: str, rows: Array, remedy: str) -> None:
        """Note what is wrong in some rows, and what cures it."""
        self.problems.append(f"{what} {self.where(rows)}: {remedy}.")

    def where(self, rows: Array) -> str:
        """The number of rows and the first of them, in words."""
        return f"in {counted(rows.sum())} (first row {self.rows[rows].min()})"


@dataclass(frozen=True)
class Filling:
    """How gaps are filled: "carry", "median", "mark" or "refuse"; rows are in the order of time within `group`s."""

    missing: str
    group: Array

    def carried(self, gaps: Array) -> Array:
        """For every row, the last row of its group up to it that has no gap; −1 where there is none."""
        rows = np.arange(len(gaps))
        begins = np.maximum.accumulate(np.where(np.append(True, np.diff(self.group) != 0), rows, 0))
        last = np.maximum.accumulate(np.where(gaps, -1, rows))
        return np.where((last >= begins) & (self.missing == "carry"), last, -1)


def option(name: str, value: str) -> str:
    """An option of the command line, quoted for a shell."""
    return f"{name} {shlex.quote(value)}"


def shown(column: Column, some: Sequence[int]) -> str:
    """The first three of some distinct cells, and how many more there are."""
    texts = ", ".join(show(column.cells[i]) for i in some[:3])
    return texts if len(some) <= 3 else f"{texts} and {len(some) - 3:,} more"


def as_read(column: Column, known: Known, notes: Notes) -> Reading:
    """The meaning of a column's cells; those that do not fit the others are noted as a problem."""
    reading = meaning(column.cells, column.weight, known)
    if reading.bad:
        rows = np.isin(column.codes, reading.bad)
        words = " ".join(option("--na", str(column.cells[i])) for i in reading.bad[:5])
        kind = {"number": "numbers", "time": "dates", "flag": "yes and no"}[reading.kind]
        notes.problems.append(
            f"`{column.name}` holds {kind}, but {shown(column, reading.bad)} {notes.where(rows)}: correct them, take "
            f"them as missing with {words}, or read the column as text with {option('--text', column.name)}."
        )
    say_how(column, reading, known, notes)
    return reading


def say_how(column: Column, reading: Reading, known: Known, notes: Notes) -> None:
    """Note how the cells of a column were written, where that is worth a look."""
    how = reading.how
    if how.get("unit"):
        _say_unit(column, reading, notes)
    if how.get("pointed") and known.get("commas"):
        what = f"`{column.name}` holds {shown(column, how['pointed'])} where other columns have decimal commas,"
        drop = option("--drop", column.name)
        remedy = f"a point may stand between thousands, so write 1234 or 1,234, or leave the column out with {drop}"
        notes.problem(what, np.isin(column.codes, how["pointed"]), remedy)
    if how.get("comma"):
        notes.done.append(f"`{column.name}` has decimal commas.")
    thousands = [one for one in column.cells if isinstance(one, str) and "," in one]
    if reading.kind == "number" and thousands and not how["comma"]:
        notes.done.append(f"`{column.name}` has commas between thousands ({thousands[0]}).")
    if reading.kind == "flag" and any(isinstance(one, str) for one in column.cells):
        notes.done.append(f"`{column.name}` says yes and no, which are 1 and 0.")
    if how.get("mixed"):
        notes.problems.append(f"`{column.name}` holds times with and without an offset to UTC: give all of them one.")
    if how.get("numeric") and "day_first" not in known:
        order = "the day" if how["day_first"] else "the month"
        unsure = "; no value tells, so say --dates month-first if it is not so" if how["unsure"] else ""
        notes.done.append(f"`{column.name}` has dates with {order} first{unsure}.")


def _say_unit(column: Column, reading: Reading, notes: Notes) -> None:
    """Percents beside plain numbers are a problem: 0.45 may be a share. Other units may stand in some rows only."""
    unit = reading.how["unit"]
    with_unit = column.spread([isinstance(one, str) and unit_and_number(one)[0] == unit for one in column.cells])
    numbers = np.isfinite(column.spread(reading.values))
    plain = numbers & ~with_unit & (column.spread(reading.values) != 0)
    if plain.any() and unit == "%":
        what = f"`{column.name}` has the unit '%', but not"
        example = f"such as {show(_first(column, plain))}"
        notes.problems.append(
            f"{what} {notes.where(plain)}, {example}, which may be shares: write all of its numbers with %, or all "
            f"without, or leave it out with {option('--drop', column.name)}."
        )
    some = "" if not plain.any() else f" (in {counted(with_unit.sum())} of {numbers.sum():,})"
    notes.done.append(f"`{column.name}` is written with the unit {unit!r}{some}, which was taken off its numbers.")


def observed(
    column: Column, known: Known, notes: Notes, filling: Filling, *, join: bool = True
) -> tuple[dict[str, Array], dict[str, Any]]:
    """The columns of numbers that a raw column becomes, named so that a report can be read, and what was learnt."""
    if column.gaps.all() and not known.get("kind"):
        notes.done.append(f"`{column.name}` is empty and was left out.")
        return {}, {}
    reading = as_read(column, known, notes)
    if reading.kind == "text":
        return _categories(column, known, notes, filling, join)
    values, learnt = column.spread(reading.values), {"kind": reading.kind, **written_as(reading)}
    if reading.kind == "time":
        learnt["origin"] = known.get("origin", float(np.nanmin(values)) if np.isfinite(values).any() else 0.0)
        values = (values - learnt["origin"]) / DAY
        notes.done.append(f"`{column.name}` holds dates: taken as days since the first of them.")
    present = values[np.isfinite(values)]
    learnt["fill"] = known.get("fill", float(np.median(present)) if len(present) else 0.0)
    fill = (learnt["fill"], f"the median {learnt['fill']:.4g}")
    values, marks = _filled(column.name, values, fill, known, notes, filling)
    marks |= _limits(column, reading, notes)
    learnt["marks"] = list(known.get("marks", marks))
    nothing = np.zeros(len(values))
    return {column.name: values} | {mark: marks.get(mark, nothing) for mark in learnt["marks"]}, learnt


def written_as(reading: Reading) -> dict[str, Any]:
    """The way in which cells are written, as far as a later table must be read alike."""
    return {name: reading.how[name] for name in ("comma", "day_first", "unit") if name in reading.how}


def _filled(
    name: str, values: Array, fill: tuple[float, str], known: Known, notes: Notes, filling: Filling
) -> tuple[Array, dict[str, Array]]:
    """The column without gaps, and a column that marks the gaps that were not carried (none with "median")."""
    gaps = np.isnan(values)
    source = filling.carried(gaps)
    unknown = gaps & (source < 0)
    whole = np.where(gaps, np.where(unknown, fill[0], values[np.maximum(source, 0)]), values)
    mark = f"{name}: {MISSING}"
    marked = mark in known.get("marks", [mark]) and filling.missing != "median" and unknown.any()
    carried = gaps.sum() - unknown.sum()
    how = [f"the last value of the episode ({counted(carried)})"] if carried else []
    how += [f"{fill[1]} ({counted(unknown.sum())})"] if unknown.any() else []
    if gaps.any() and filling.missing == "refuse":
        remedy = "fill the values in, or allow it with --missing mark, median or carry"
        notes.problem(f"`{name}` is missing", gaps, remedy)
    elif gaps.any():
        words = f"filled with {' and '.join(how)}{f', and marked in `{mark}`' if marked else ''}"
        notes.done.append(f"`{name}` is missing {notes.where(gaps)}: {words}.")
    return whole, {mark: unknown.astype(float)} if marked else {}


def _limits(column: Column, reading: Reading, notes: Notes) -> dict[str, Array]:
    """Columns that mark where a number is only known to lie below or above a limit."""
    marks = {}
    for side, word in ((-1, "below"), (1, "above")):
        rows = column.spread(reading.limit) == side
        if rows.any():
            marks[f"{column.name}: {word} limit"] = rows.astype(float)
            notes.done.append(
                f"`{column.name}` is a limit such as {show(_first(column, rows))} {notes.where(rows)}: taken as the "
                f"limit itself, and marked in `{column.name}: {word} limit`."
            )
    return marks


def _first(column: Column, rows: Array) -> Any:
    return column.cells[int(column.codes[int(np.argmax(rows))])]


def names_of(column: Column, notes: Notes, join: bool = True) -> Column:
    """The column with spellings that differ only in case and blanks joined under the most frequent of them."""
    cells = [None if one is None else one if isinstance(one, str) else written(one) for one in column.cells]
    best: dict[str, str] = {}
    for i in np.argsort(-column.weight, kind="stable"):
        if cells[i] is not None:
            best.setdefault(folded(cells[i]) if join else cells[i], cells[i])
    chosen = [None if one is None else best[folded(one) if join else one] for one in cells]
    for name in dict.fromkeys(one for one in chosen if one is not None):
        others = [i for i, one in enumerate(cells) if chosen[i] == name and one != name]
        if others:
            rows = np.isin(column.codes, others)
            texts = ", ".join(repr(cells[i]) for i in others)
            notes.done.append(f"`{column.name}`: {texts} {notes.where(rows)} joined to {name!r}.")
    known = {one: i for i, one in enumerate(dict.fromkeys(chosen))}
    return Column(column.name, list(known), column.spread([known[one] for one in chosen]))


def written(number: Any) -> str:
    """A number as text, with all of its digits: 1234567 and 1234568 are two actions; anything else as it prints."""
    is_number = isinstance(number, (Real, Decimal))  # a time of day, for example, is none
    if not is_number:
        return str(number)
    size: Any = number
    return str(int(size)) if float(size).is_integer() else repr(float(size))


def _categories(
    column: Column, known: Known, notes: Notes, filling: Filling, join: bool
) -> tuple[dict[str, Array], dict[str, Any]]:
    """One column of 0 and 1 per category. Two categories need only one, and its name says both."""
    column = names_of(column, notes, join)
    # The column that marks gaps has that name, so the word itself must be a gap.
    cells = [None if one is not None and folded(one) == MISSING else one for one in column.cells]
    column = replace(column, cells=cells)
    texts = sorted(one for one in column.cells if one is not None)
    categories = list(known.get("categories", texts))
    if len(categories) > MOST_CATEGORIES:
        _say_many(column, texts, notes)
        return {}, {}
    key = folded if join else str
    place = {key(name): i for i, name in enumerate(categories)}
    codes = [place.get(key(one), np.nan) if one is not None else np.nan for one in column.cells]
    found = column.spread(codes)
    new = np.isnan(found) & ~column.gaps
    if new.any():
        notes.done.append(f"`{column.name}` has categories {notes.where(new)} that are new: taken as missing.")
    common = int(known.get("fill", np.bincount(found[found >= 0].astype(int), minlength=1).argmax()))
    fill = (common, repr(categories[common])) if filling.missing == "median" else (NONE, "a category of its own")
    found, marks = _filled(column.name, found, fill, known, notes, filling)
    if len(categories) == 2 and (found == NONE).any() and not marks:
        neither = f"`{column.name}` is neither {categories[0]!r} nor {categories[1]!r}"
        notes.problem(neither, found == NONE, "correct it")
    shown = dict(enumerate(categories)) if len(categories) != 2 else {1: f"{categories[1]}, not {categories[0]}"}
    made = {f"{column.name}: {words}": (found == i).astype(float) for i, words in shown.items()}
    notes.done.append(f"`{column.name}` has the categories {', '.join(map(repr, categories))}, written as 0 and 1.")
    learnt: dict[str, Any] = {
        "kind": "text",
        "categories": categories,
        "fill": common,
        "marks": list(known.get("marks", marks)),
    }
    nothing = np.zeros(len(found))
    return made | {mark: marks.get(mark, nothing) for mark in learnt["marks"]}, learnt


def _say_many(column: Column, texts: list[str], notes: Notes) -> None:
    """Note that a column has too many texts: it is a remark if most rows differ, and else it may be grouped."""
    said = f"`{column.name}` holds {len(texts):,} different texts (such as {show(texts[0])})"
    if len(texts) > len(column.codes) / 2 and notes.episode_known:
        notes.done.append(f"{said}: it was left out.")
        return
    naming = (
        ""
        if notes.episode_known
        else f"if it names the episode, say {option('--column', f'episode={column.name}')}; otherwise "
    )
    notes.problems.append(
        f"{said}: {naming}leave it out with {option('--drop', column.name)}, or group it into at most "
        f"{MOST_CATEGORIES} categories."
    )


def codes(column: Column, notes: Notes, known: Sequence[str] = (), join: bool = True) -> tuple[Array, tuple[str, ...]]:
    """Actions as 0, 1, … and their names, in alphabetical (or numerical) order; those already `known` come first."""
    if column.gaps.any():
        notes.problems.append(
            f"`{column.name}`, the action, is missing {notes.where(column.gaps)}: fill in what was done."
        )
    column = names_of(column, notes, join)
    counts = dict(zip(column.cells, column.weight.tolist(), strict=True))
    counts.pop(None, None)
    if len(counts) > 100 * MOST_CATEGORIES:
        notes.problems.append(f"`{column.name}` has {len(counts):,} different actions: group them into fewer.")
    key = folded if join else str
    new = sorted(set(counts) - {name for name in counts if key(name) in set(map(key, known))})
    sizes = meaning(new, np.ones(len(new)), {})
    by_size = sizes.kind == "number" and not sizes.bad
    order = [*known, *(new[i] for i in (np.argsort(sizes.values, kind="stable") if by_size else range(len(new))))]
    place = {key(name): code for code, name in enumerate(order)}
    found = [-1 if one is None else place[key(one)] for one in column.cells]
    taken = np.bincount(column.spread(found)[~column.gaps], minlength=len(order))
    listed = ", ".join(f"{code} = {text} ({counted(taken[code])})" for code, text in list(enumerate(order))[:20])
    notes.done.append(f"`{column.name}` is the action: {listed}{' …' if len(order) > 20 else ''}.")
    return column.spread(found), tuple(order)


def flags(column: Column, notes: Notes) -> Array:
    """Yes and no, true and false, 1 and 0 as booleans; a gap is a no."""
    reading = meaning(column.cells, column.weight, {})
    if reading.kind not in ("flag", "number"):
        reading = meaning(column.cells, column.weight, {"kind": "flag"})
    values = column.spread(reading.values)
    odd = np.isin(column.codes, reading.bad) | ~(np.isnan(values) | np.isin(values, (0, 1)))
    if odd.any():
        example = show(_first(column, odd))
        notes.problems.append(
            f"`{column.name}` must say yes or no, but holds {example} {notes.where(odd)}: correct it."
        )
    if np.isnan(values).any():
        notes.done.append(f"`{column.name}` is empty {notes.where(np.isnan(values))}: taken as no.")
    return np.nan_to_num(values).astype(bool)


def counts_rows(column: Column) -> bool:
    """Say whether a column is an index that pandas wrote: without a name of its own, and no value stands twice."""
    return INDEX.fullmatch(column.name) is not None and len(column.cells) == len(column.codes)


def may_be_ids(reading: Reading) -> bool:
    """Say whether all numbers of a column are whole and long."""
    values = reading.values[np.isfinite(reading.values)]
    return reading.kind == "number" and bool(((values % 1 == 0) & (values >= LEAST_ID)).all())


def names_episodes(column: Column, known: Known, group: Array) -> bool:
    """Say whether the whole numbers of a column look like an id: one in each episode, and another in nearly every."""
    if "kind" in known:  # an earlier table has settled what it is
        return False
    reading = meaning(column.cells, column.weight, known)
    if not may_be_ids(reading):
        return False
    there = np.isfinite(column.spread(reading.values))
    ids, episodes = column.codes[there], group[there]
    n_ids, n_episodes = len(np.unique(ids)), len(np.unique(episodes))
    one_each = len(np.unique(episodes * len(column.cells) + ids)) == n_episodes < len(ids)
    return one_each and n_ids > max(MOST_CATEGORIES, 0.9 * n_episodes)


def numbers(column: Column, notes: Notes, known: Known, *, most: float = np.inf) -> Array:
    """A column that must be there: finite numbers, between 0 and `most` if that is finite."""
    reading = meaning(column.cells, column.weight, {**known, "kind": "number"})
    say_how(column, reading, known, notes)
    values = column.spread(reading.values)
    wrong = np.isnan(values) | (((values > most) | (values < 0)) & np.isfinite(most))
    if wrong.any():
        example = show(_first(column, wrong))
        notes.problems.append(f"`{column.name}` is missing or impossible {notes.where(wrong)}: {example}.")
    return values
