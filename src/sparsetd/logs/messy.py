"""One column of a raw file becomes numbers: text, yes/no, dates and gaps. What was done to it is noted."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any

import numpy as np

from sparsetd.logs.checks import Array, is_missing, show

GAPS = {"", "na", "n/a", "nan", "null", "nil", "nat"}  # "none" may well be a treatment
GAPS_AMONG_NUMBERS = GAPS | {"none", "-", ".", "?", "unknown", "missing"}
YES_NO = (
    "yes no, y n, true false, t f, on off, ja nein, j n, wahr falsch, ja nee, waar onwaar, oui non, o n, vrai faux, "
    "sí no, si no, s n, sì no, vero falso, sim não, sim nao, tak nie, да нет, ano ne, igen nem, evet hayır"
)
PAIRS = [dict(zip(pair.split(), (1.0, 0.0), strict=True)) for pair in YES_NO.split(", ")]
FLAGS = {word: value for pair in reversed(PAIRS) for word, value in pair.items()}
DATES = ("%Y/%m/%d", "%d.%m.%Y", "%Y/%m/%d %H:%M", "%d.%m.%Y %H:%M")
MOST_CATEGORIES = 30


@dataclass
class Notes:
    """What was done to the columns, and every problem that was found, in sentences."""

    done: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def folded(text: str) -> str:
    """A name without what people write differently: case, blanks around it, and how many blanks are inside."""
    return " ".join(unicodedata.normalize("NFC", text).split()).casefold()


def cells(values: Iterable[Any]) -> list[Any]:
    """Entries with gaps as None and text without the space around it."""
    return [_cell(value) for value in values]


def _cell(value: Any) -> Any:
    if isinstance(value, str):
        text = value.strip()
        return None if text.lower() in GAPS else text
    return None if is_missing(value) else value


def as_numbers(entries: list[Any]) -> Array | None:
    """The entries as floats with NaN for gaps, yes and no as 1 and 0; None where one of them is no number."""
    for read in (_number, _flag):
        try:
            return np.array([read(entry) for entry in entries])
        except (KeyError, TypeError, ValueError):
            continue
    return None


def _number(entry: Any) -> float:
    if entry is None or (isinstance(entry, str) and entry.lower() in GAPS_AMONG_NUMBERS):
        return np.nan
    if isinstance(entry, date):
        raise TypeError
    return float(entry)


def _flag(entry: Any) -> float:
    return np.nan if entry is None else FLAGS[str(entry).lower()]


def as_times(entries: list[Any]) -> Array | None:
    """The entries as seconds: numbers as they are, dates since 1970, gaps as NaN; None where one is neither."""
    numbers = as_numbers(entries)
    if numbers is not None:
        return numbers
    try:
        return np.array([np.nan if entry is None else _seconds(entry) for entry in entries])
    except (TypeError, ValueError):
        return None


def _seconds(entry: Any) -> float:
    if isinstance(entry, date):
        return float(np.datetime64(entry).astype("datetime64[ms]").astype(np.int64)) / 1000
    readers: list[Callable[[str], datetime]] = [datetime.fromisoformat]
    readers += [lambda text, form=form: datetime.strptime(text, form) for form in DATES]  # type: ignore[misc]
    for reader in readers:
        try:
            return (reader(entry).replace(tzinfo=None) - datetime(1970, 1, 1)).total_seconds()
        except ValueError:
            continue
    raise ValueError(entry)


def observed(name: str, entries: list[Any], notes: Notes, *, impute: bool) -> dict[str, Array]:
    """One column of the raw file as one or several columns of numbers, named so that a report can be read."""
    if all(entry is None for entry in entries):
        notes.done.append(f"`{name}` is empty and was left out.")
        return {}
    times = as_times(entries)
    if times is None:
        return _categories(name, entries, notes, impute=impute)
    if as_numbers(entries) is None:
        notes.done.append(f"`{name}` holds dates: taken as days since the first of them.")
        times = (times - np.nanmin(times)) / 86_400
    gaps = np.isnan(times)
    if not gaps.any():
        return {name: times}
    _say_gaps(name, gaps, notes, impute, f"filled with the median {np.nanmedian(times):.4g}")
    return {name: np.where(gaps, np.nanmedian(times), times), f"{name}: missing": gaps.astype(float)}


def _say_gaps(name: str, gaps: Array, notes: Notes, impute: bool, how: str) -> None:
    where = f"`{name}` is missing in {int(gaps.sum()):,} of {len(gaps):,} rows (first row {int(np.argmax(gaps))})"
    if impute:
        notes.done.append(f"{where}: {how}, and marked in `{name}: missing`.")
    else:
        notes.problems.append(f"{where}: fill the values in, or allow them to be filled with --missing fill.")


def _categories(name: str, entries: list[Any], notes: Notes, *, impute: bool) -> dict[str, Array]:
    """One column of 0 and 1 per category; of two categories one column is enough."""
    gaps = np.array([entry is None for entry in entries])
    if gaps.any():
        _say_gaps(name, gaps, notes, impute, "kept as a category of its own")
    texts = np.array(["" if entry is None else str(entry) for entry in entries], dtype=object)
    known = sorted(set(texts[~gaps]))
    if len(known) > MOST_CATEGORIES:
        notes.problems.append(
            f"`{name}` holds {len(known):,} different texts (such as {show(known[0])}): if it names the episode, say "
            f"--column episode={name}; otherwise leave it out with --drop {name}, or group it into at most "
            f"{MOST_CATEGORIES} categories."
        )
        return {}
    shown = known[1:] if len(known) == 2 else known
    notes.done.append(f"`{name}` has the categories {', '.join(map(repr, known))}, written as 0 and 1.")
    columns = {f"{name}: {text}": (texts == text).astype(float) for text in shown}
    return columns | ({f"{name}: missing": gaps.astype(float)} if gaps.any() else {})


def codes(name: str, entries: list[Any], notes: Notes) -> tuple[Array, tuple[str, ...]]:
    """Actions as 0, 1, … and their names, in alphabetical (or numerical) order."""
    absent = [row for row, entry in enumerate(entries) if entry is None]
    if absent:
        notes.problems.append(
            f"`{name}`, the action, is missing in {len(absent):,} rows (first row {absent[0]}): fill in what was done, "
            "or remove these rows."
        )
    numbers = as_numbers([entry for entry in entries if entry is not None])
    numeric = numbers is not None and not np.isnan(numbers).any() and not isinstance(entries[0], bool)
    counts = Counter(_action(entry, numeric) for entry in entries if entry is not None)
    if len(counts) > 100 * MOST_CATEGORIES:
        notes.problems.append(f"`{name}` has {len(counts):,} different actions: group them into fewer.")
    order = sorted(counts, key=float) if numeric else sorted(counts)
    place = {text: code for code, text in enumerate(order)}
    listed = ", ".join(f"{code} = {text} ({counts[text]:,} rows)" for text, code in list(place.items())[:20])
    notes.done.append(f"`{name}` is the action: {listed}{' …' if len(place) > 20 else ''}.")
    return np.array([-1 if e is None else place[_action(e, numeric)] for e in entries]), tuple(order)


def _action(entry: Any, numeric: bool) -> str:
    return f"{float(entry):g}" if numeric and not isinstance(entry, str) else str(entry)


def flags(name: str, entries: list[Any], notes: Notes) -> Array:
    """Yes and no, true and false, 1 and 0 as booleans; a gap is a no."""
    numbers = as_numbers(entries)
    if numbers is None or not set(numbers[~np.isnan(numbers)]) <= {0.0, 1.0}:
        odd = sorted({str(entry) for entry in entries if entry is not None})[:4]
        notes.problems.append(f"`{name}` must say yes or no in every row, but it holds {', '.join(map(repr, odd))}.")
        return np.zeros(len(entries), dtype=bool)
    if np.isnan(numbers).any():
        notes.done.append(f"`{name}` is empty in {int(np.isnan(numbers).sum()):,} rows: taken as no.")
    return np.nan_to_num(numbers).astype(bool)


def numbers(name: str, entries: list[Any], notes: Notes, *, most: float = np.inf) -> Array:
    """A column that must be there: finite numbers, at most `most`."""
    found = as_numbers(entries)
    if found is None:
        bad = next(row for row, entry in enumerate(entries) if as_numbers([entry]) is None)
        notes.problems.append(f"`{name}` must hold numbers, but row {bad} holds {show(entries[bad])}.")
        return np.zeros(len(entries))
    wrong = ~np.isfinite(found) | ((found > most) | (found < 0) if np.isfinite(most) else False)
    if wrong.any():
        row = int(np.argmax(wrong))
        notes.problems.append(
            f"`{name}` is missing or impossible in {int(wrong.sum()):,} rows (first row {row}: {show(entries[row])})."
        )
    return found
