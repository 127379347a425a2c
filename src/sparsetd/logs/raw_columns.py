"""Turn a column of a raw table into columns of a log, note what was done to it, and keep what was learnt.

What is learnt (categories, medians, the first date, how numbers are written) is plain data, so that a later table can
be read in the same way.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np

from sparsetd.logs.checks import Array, id_text, show
from sparsetd.logs.raw import MOST_CATEGORIES, Column, Reading, Table, counted, meaning, unit_and_number
from sparsetd.logs.schema import first_of, folded
from sparsetd.logs.words import FLAGS

MOST_TOLD = 10  # joined spellings that a note lists
DAY = 86_400.0
MISSING = "missing"
TICK = "tick"  # the kind of a column that holds one word, or nothing
MOST_UNITS = 5  # of more "units" than these, at least some are words
YEAR = re.compile(r"(?<![0-9])(19|20)[0-9]{2}(?![0-9])")
ZEROS = re.compile("0[0-9]{2,}")  # a number that may be a code
NONE = -1.0  # the code of an unknown category
Marks = dict[str, Array]  # columns of 0 and 1 that mark some rows


def option(name: str, value: str) -> str:
    """Write an option for a shell; with "=", a value that begins with a dash is not taken for another option."""
    return f"{name}{'=' if value.startswith('-') else ' '}{shlex.quote(value)}"


def shown(column: Column, some: Sequence[int]) -> str:
    """The first three of some distinct cells, and how many more there are."""
    return first_of([show(column.cells[i]) for i in some], 3)


def example(column: Column, rows: Array) -> str:
    """The cell in the first of some rows."""
    return show(column.cells[int(column.codes[int(np.argmax(rows))])])


def as_read(column: Column, table: Table) -> Reading:
    """The meaning of a column's cells; cells that do not fit it are noted as a problem."""
    reading = column.reading
    if reading.bad:
        words = " ".join(option("--na", str(column.cells[i])) for i in reading.bad[:5])
        kind = {"number": "numbers", "time": "dates", "flag": "yes and no"}[reading.kind]
        remedy = f"correct them, take them as missing with {words}, or read the column as text with "
        what = f"`{column.name}` holds {kind}, but {shown(column, reading.bad)}"
        table.problem(what, column.rows_with(reading.bad), remedy + option("--text", column.name))
    say_how(column, reading, table)
    return reading


def say_how(column: Column, reading: Reading, table: Table) -> None:
    """Note how the cells of a column were written, where that is worth a look."""
    how, known, done, name = reading.how, column.known, table.done, column.name
    if how.get("unit"):
        _say_unit(column, reading, table)
    if how.get("pointed") and table.has_commas:
        what = f"`{name}` holds {shown(column, how['pointed'])} where other columns have decimal commas,"
        remedy = "a point may stand between thousands, so write 1234 or 1,234, or leave the column out with "
        table.problem(what, column.rows_with(how["pointed"]), remedy + option("--drop", name))
    if how.get("comma"):
        done.append(f"`{name}` has decimal commas.")
    thousands = [one for one in column.cells if isinstance(one, str) and "," in one]
    if reading.kind == "number" and thousands and not how["comma"]:
        done.append(f"`{name}` has commas between thousands ({thousands[0]}).")
    zeros = [one for one in column.cells if isinstance(one, str) and ZEROS.fullmatch(one)]
    if reading.kind == "number" and zeros:
        as_codes = option("--text", name)
        done.append(f"`{name}` has zeros in front ({zeros[0]}): read as numbers; if these are codes, say {as_codes}.")
    if reading.kind == "flag" and any(isinstance(one, str) for one in column.cells):
        done.append(f"`{name}` says yes and no: taken as 1 and 0.")
    if how.get("mixed"):
        table.problems.append(f"`{name}` holds times with and without an offset to UTC: give all of them one.")
    if how.get("numeric") and "day_first" not in known:
        order = "the day" if how["day_first"] else "the month"
        unsure = "; no value tells which is first, so say --dates month-first if it is wrong" if how["unsure"] else ""
        done.append(f"`{name}` has dates with {order} first{unsure}.")


def _say_unit(column: Column, reading: Reading, table: Table) -> None:
    """Percents beside plain numbers are a problem: 0.45 may be a share. Other units may stand in some rows only."""
    unit, values, with_unit = reading.how["unit"], column.spread(reading.values), column.spread(reading.how["has_unit"])
    plain = np.isfinite(values) & ~with_unit & (values != 0)
    if plain.any() and unit == "%":
        others = f"but not {table.where(plain)}, such as {example(column, plain)}, which may be shares"
        remedy = f"write all of its numbers with %, or none, or leave it out with {option('--drop', column.name)}"
        table.problems.append(f"`{column.name}` has the unit '%', {others}: {remedy}.")
    some = f" (in {counted(with_unit.sum())} of {np.isfinite(values).sum():,})" if plain.any() else ""
    table.done.append(f"`{column.name}` is written with the unit {unit!r}{some}, which was taken off its numbers.")


def observed(column: Column, table: Table) -> tuple[dict[str, Array], dict[str, Any]]:
    """Turn a raw column into columns of numbers with names for a report; return them and what was learnt."""
    if column.gaps.all() and not column.known.get("kind"):
        table.done.append(f"`{column.name}` is empty and was left out.")
        return {}, {}
    if column.known.get("kind") == TICK or (table.missing != "refuse" and _is_ticked(column)):
        empty = [one is None or FLAGS.get(folded(written(one))) == 0 for one in column.cells]
        word = next((show(one) for one in column.cells if one is not None), "a word")
        unknown = option("--fill", f"{column.name}=unknown")
        meant = f"taken as 1 and 0 (if an empty cell means unknown, {unknown})"
        table.done.append(f"`{column.name}` says {word} or nothing: {meant}.")
        return {column.name: 1.0 - column.spread(empty)}, {"kind": TICK}
    reading = as_read(column, table)
    made, marks, learnt = _categories(column, table) if reading.kind == "text" else _measured(column, reading, table)
    if learnt:
        learnt["marks"] = list(column.known.get("marks", marks))
        made |= {mark: marks.get(mark, np.zeros(len(column.codes))) for mark in learnt["marks"]}
    return made, learnt


def _is_ticked(column: Column) -> bool:
    """Say whether a column holds one word for yes, such as x, and is empty elsewhere."""
    words = {folded(written(one)) for one in column.cells if one is not None}
    if len(words) != 1 or not column.gaps.any() or "kind" in column.known:
        return False
    (word,) = words
    return (column.reading.kind == "text" and " " not in word) or word == "1" or FLAGS.get(word) == 1


def _measured(column: Column, reading: Reading, table: Table) -> tuple[dict[str, Array], Marks, dict[str, Any]]:
    """Turn a column into numbers, flags or days; return it, the marks of its gaps and limits, and what was learnt."""
    values, known = column.spread(reading.values), column.known
    learnt = {"kind": reading.kind, **written_as(reading)}
    if reading.kind == "time":
        learnt["origin"] = known.get("origin", float(np.nanmin(values)) if np.isfinite(values).any() else 0.0)
        values = (values - learnt["origin"]) / DAY
        table.done.append(f"`{column.name}` holds dates: taken as days since the first of them.")
    present = values[np.isfinite(values)]
    learnt["fill"] = known.get("fill", float(np.median(present)) if len(present) else 0.0)
    values, marks = _filled(column, values, learnt["fill"], f"the median {learnt['fill']:.4g}", table)
    for side, word in ((-1, "below"), (1, "above")):
        rows = column.spread(reading.how.get("limit", np.zeros(len(column.cells)))) == side
        if rows.any():
            mark = f"{column.name}: {word} limit"
            marks[mark] = rows.astype(float)
            limit = f"`{column.name}` is a limit such as {example(column, rows)} {table.where(rows)}"
            table.done.append(f"{limit}: taken as the limit itself, and marked in `{mark}`.")
    return {column.name: values}, marks, learnt


def written_as(reading: Reading) -> dict[str, Any]:
    """How the cells are written, as far as a later table must be read in the same way."""
    return {name: reading.how[name] for name in ("comma", "day_first", "unit") if name in reading.how}


def _filled(column: Column, values: Array, fill: float, fill_in_words: str, table: Table) -> tuple[Array, Marks]:
    """Fill the gaps; also return a column that marks those without an earlier value to carry (none with "median")."""
    gaps, name = np.isnan(values), column.name
    last = np.maximum.accumulate(np.where(gaps, -1, np.arange(len(gaps))))  # the last row up to this one without a gap
    carries = table.missing == "carry" and "episode" in table.roles
    unknown = gaps & ((last < table.begin) | (not carries))
    whole = np.where(unknown, fill, values[np.maximum(last, 0)])
    mark = f"{name}: {MISSING}"
    marked = mark in column.known.get("marks", [mark]) and table.missing != "median" and unknown.any()
    carried = gaps.sum() - unknown.sum()
    how = [f"the last value of the episode ({counted(carried)})"] if carried else []
    how += [f"{fill_in_words} ({counted(unknown.sum())})"] if unknown.any() else []
    if gaps.any() and table.missing == "refuse":
        remedy = "fill the values in, or allow it with --missing mark, median or carry"
        table.problem(f"`{name}` is missing", gaps, remedy)
    elif gaps.any():
        words = f"filled with {' and '.join(how)}{f', and marked in `{mark}`' if marked else ''}"
        table.done.append(f"`{name}` is missing {table.where(gaps)}: {words}.")
    return whole, {mark: unknown.astype(float)} if marked else {}


def with_one_spelling(column: Column, table: Table, key: Callable[[str], Any] | None = None) -> Column:
    """Turn a column into text, and join the spellings with the same `key` under the most frequent of them.

    By default these are spellings that differ only in case and blanks.
    """
    key = key or table.key
    cells = [None if one is None else written(one) for one in column.cells]
    keys = [None if one is None else key(one) for one in cells]
    best = {keys[i]: cells[i] for i in np.argsort(-column.weight, kind="stable")[::-1]}  # the last one wins
    chosen = [best[key] for key in keys]
    odd = [i for i, one in enumerate(cells) if one != chosen[i]]
    if odd:
        where = [table.where(column.rows_with([i])) for i in odd[:MOST_TOLD]] + [""] * len(odd)
        told = [f"{cells[i]!r} {place} joined to {chosen[i]!r}" for i, place in zip(odd, where, strict=False)]
        table.done.append(f"`{column.name}`: {first_of(told, MOST_TOLD)}.")
    place = {name: j for j, name in enumerate(dict.fromkeys(chosen))}
    return replace(column, cells=list(place), codes=column.spread([place[name] for name in chosen]))


def written(one: Any) -> str:
    """A cell as text; a number keeps all of its digits, since 1234567 and 1234568 are two actions."""
    if isinstance(one, (bool, Decimal)):
        one = int(one) if float(one).is_integer() else float(one)
    return id_text(one)


def _categories(column: Column, table: Table) -> tuple[dict[str, Array], Marks, dict[str, Any]]:
    """One column of 0 and 1 per category. Two categories need only one, and its name says both."""
    # The column that marks gaps is called "missing", so a category of that name must be a gap.
    cells = [None if one is not None and folded(one) == MISSING else one for one in column.cells]
    column, name = replace(column, cells=cells), column.name
    texts = sorted(one for one in cells if one is not None)
    categories = list(column.known.get("categories", texts))
    if len(categories) > MOST_CATEGORIES:
        _say_many(column, texts, table)
        return {}, {}, {}
    if "kind" not in column.known and _may_be_dates(texts, 2):
        _say_dates(column, f"`{name}` holds texts such as {show(texts[0])}", table)
        return {}, {}, {}
    if len(categories) == 1 and "kind" not in column.known and not column.gaps.any():
        table.done.append(f"`{name}` is {show(texts[0])} in every row: it was left out.")
        return {}, {}, {}
    place = {table.key(one): i for i, one in enumerate(categories)}
    found = column.spread([np.nan if one is None else place.get(table.key(one), np.nan) for one in cells])
    new = np.isnan(found) & ~column.gaps
    if new.any():
        table.done.append(f"`{name}` has new categories {table.where(new)}: taken as missing.")
    common = int(column.known.get("fill", np.bincount(found[found >= 0].astype(int), minlength=1).argmax()))
    by_median = table.missing == "median"
    in_words = repr(categories[common]) if by_median else "a category of its own"
    found, marks = _filled(column, found, common if by_median else NONE, in_words, table)
    if len(categories) == 2 and (found == NONE).any() and not marks:
        table.problem(f"`{name}` is neither {categories[0]!r} nor {categories[1]!r}", found == NONE, "correct it")
    words = dict(enumerate(categories)) if len(categories) != 2 else {1: f"{categories[1]}, not {categories[0]}"}
    made = {f"{name}: {word}": (found == i).astype(float) for i, word in words.items()}
    table.done.append(f"`{name}` has the categories {', '.join(map(repr, categories))}, written as 0 and 1.")
    return made, marks, {"kind": "text", "categories": categories, "fill": common}


def _may_be_dates(texts: Sequence[str], least: int) -> bool:
    """Say whether most texts hold a year and at least `least` numbers, the year included."""
    dated = [one for one in texts if YEAR.search(one) and len(re.findall("[0-9]+", one)) >= least]
    return len(texts) > 2 and len(dated) > len(texts) / 2


def _say_dates(column: Column, said: str, table: Table) -> None:
    remedy = f"leave them out with {option('--drop', column.name)}"
    if len(column.cells) <= MOST_CATEGORIES:
        remedy += f", or take them as categories with {option('--text', column.name)}"
    table.problems.append(f"{said}, which may be dates: write them as 2024-03-25 08:15, or {remedy}.")


def _say_many(column: Column, texts: list[str], table: Table) -> None:
    """Note that a column has too many texts: leave it out if most rows differ, otherwise ask what it is."""
    said = f"`{column.name}` holds {len(texts):,} different texts (such as {show(texts[0])})"
    known = "episode" in table.roles
    if known and _may_be_dates(texts, 1):
        _say_dates(column, said, table)
        return
    units = {unit_and_number(one)[0] for one in texts} - {""}
    several = 1 < len(units) <= MOST_UNITS
    if len(texts) > len(column.codes) / 2 and known and not several:
        table.done.append(f"{said}: it was left out.")
        return
    naming = "" if known else f"if it names the episode, say {option('--column', f'episode={column.name}')}; otherwise "
    convert = f"write its numbers in one unit ({first_of(sorted(map(show, units)), MOST_UNITS)}), " if several else ""
    remedy = f"leave it out with {option('--drop', column.name)}, or group it into at most {MOST_CATEGORIES} categories"
    table.problems.append(f"{said}: {naming}{convert}{remedy}.")


def codes(column: Column, table: Table) -> tuple[Array, tuple[str, ...]]:
    """Actions as 0, 1, … and their names: those of an earlier table first, then the others in their natural order."""
    known = table.asked.get("action_names") or ()
    if column.gaps.any():
        remedy = f"fill it in, or say what a gap means with {option('--fill', f'{column.name}=…')}"
        table.problem(f"`{column.name}`, the action, is missing", column.gaps, remedy)
    sizes = {} if "names" in table.keep else _sizes(column, known)

    def key(name: str) -> Any:
        return sizes.get(name, table.key(name))

    column = with_one_spelling(column, table, key)
    earlier = set(map(key, known))
    new = sorted(name for name in column.cells if name is not None and key(name) not in earlier)
    if len(new) > 100 * MOST_CATEGORIES:
        table.problems.append(f"`{column.name}` has {len(new):,} different actions: group them into fewer.")
    new.sort(key=lambda name: sizes.get(name, (np.inf,)))
    order = [*known, *new]
    place = {key(name): code for code, name in enumerate(order)}
    found = column.spread([-1 if one is None else place[key(one)] for one in column.cells])
    taken = np.bincount(found[found >= 0], minlength=len(order))
    every = [f"{code} = {text} ({counted(taken[code])})" for code, text in enumerate(order)]
    table.done.append(f"`{column.name}` is the action: {first_of(every, 20)}.")
    return found, tuple(order)


def _sizes(column: Column, known: Sequence[str]) -> dict[str, tuple[float, float]]:
    """The size of every action and whether it is a limit, if all are doses: 8, "8 UI" and "8,0" are one dose."""
    names = [*known, *(written(one) for one in column.cells if one is not None)]
    reading = meaning(names, np.ones(len(names)), column.known)
    if reading.kind != "number" or reading.bad:
        return {}
    sizes = zip(reading.values.tolist(), reading.how["limit"].tolist(), strict=True)
    return {name: size for name, size in zip(names, sizes, strict=True) if np.isfinite(size[0])}


def flags(column: Column, table: Table, remedy: str) -> Array:
    """Read yes and no, true and false, 1 and 0 as booleans; a gap means no. `remedy` cures any other word."""
    reading = meaning(column.cells, column.weight, {})
    if reading.kind not in ("flag", "number"):
        reading = meaning(column.cells, column.weight, {"kind": "flag"})
    values = column.spread(reading.values)
    odd = column.rows_with(reading.bad) | ~(np.isnan(values) | np.isin(values, (0, 1)))
    if odd.any():
        table.problem(f"`{column.name}` must say yes or no, but holds {example(column, odd)}", odd, remedy)
    if np.isnan(values).any():
        table.done.append(f"`{column.name}` is empty {table.where(np.isnan(values))}: taken as no.")
    return np.nan_to_num(values).astype(bool)


def mostly_above_one(values: Array) -> bool:
    """Say whether probabilities must be percents: more than half of them are above 1."""
    return bool(np.mean(values > 1) > 0.5)


def numbers(column: Column, table: Table, *, most: float = np.inf) -> Array:
    """Read a column of numbers without gaps, between 0 and `most` if that is finite; percents become shares."""
    reading = meaning(column.cells, column.weight, {**column.known, "kind": "number"})
    say_how(column, reading, table)
    values = column.spread(reading.shares)
    if np.isfinite(most) and mostly_above_one(values):
        values = values / 100
        table.done.append(f"`{column.name}` is above 1 in most rows: taken as percent.")
    wrong = np.isnan(values) | (((values > most) | (values < 0)) & np.isfinite(most))
    if wrong.any():
        within = f", between 0 and {most:g}" if np.isfinite(most) else ""
        remedy = f"correct {example(column, wrong)}{within}"
        table.problem(f"`{column.name}` is missing or impossible", wrong, remedy)
    return values
