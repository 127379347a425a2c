"""Read dates as people write them: in numbers, with names of months, with AM and PM, or as ISO 8601."""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta
from typing import Any

from sparsetd.logs.schema import folded
from sparsetd.logs.words import MONTHS, WEEKDAYS

CLOCK = (
    r"(?:[ T,:日]+(?:(?:à|at|um|kl\.?|a las|às) )?(?P<hour>[0-9]{1,2})"
    r"(?:[:.h時时](?P<minute>[0-9]{2})(?:[:.分](?P<second>[0-9]{2}(?:\.[0-9]+)?)秒?)?分?)?[h時时]?"
    r"(?: ?(?P<half>[ap])\.?m\.?)?(?: ?(?P<zone>utc|gmt|z|[+-][0-9]{2}:?[0-9]{2}))?(?: ?uhr)?)?"
)
YEAR = r"(?P<year>[0-9]{4}|[0-9]{2})"
WEEKDAY = rf"(?:(?:{'|'.join(WEEKDAYS)})[^\W\d]*(?:\.|, |,| )+)?"
NAME = r"(?:de )?(?P<name>[^\W\d]+)[. ,-]*(?:de )?"
FORMS = [
    re.compile(WEEKDAY + form + CLOCK, re.IGNORECASE)
    for form in (
        rf"(?P<one>[0-9]{{1,2}})(?P<sign>[./-])(?P<other>[0-9]{{1,2}})(?P=sign){YEAR}",  # 25/3/2024
        r"(?P<year>[0-9]{4})[/.年-](?P<month>[0-9]{1,2})[/.月-](?P<day>[0-9]{1,2})日?",  # 2024/3/25
        rf"(?P<day>[0-9]{{1,2}})[. -]*{NAME}{YEAR}",  # 25 March 2024, 25MAR24
        rf"{NAME}(?P<day>[0-9]{{1,2}}),? {YEAR}",  # March 25, 2024
    )
]


def numbered(text: str) -> re.Match[str] | None:
    """The parts of a date in numbers that may begin with the day or with the month."""
    return FORMS[0].fullmatch(text)


def moment(entry: Any, day_first: bool) -> datetime:
    """Read a date with or without a time, in any of the usual spellings."""
    if isinstance(entry, datetime):
        return entry
    if isinstance(entry, date):
        return datetime(entry.year, entry.month, entry.day)
    if not isinstance(entry, str) or entry.isdecimal():
        raise TypeError("no date")
    found = next(filter(None, (form.fullmatch(entry) for form in FORMS)), None)
    return datetime.fromisoformat(entry) if found is None else _of_parts(found.groupdict(), day_first)


def _of_parts(part: dict[str, Any], day_first: bool) -> datetime:
    """Put the parts of a date together by way of ISO 8601; 24:00 is the end of the day."""
    if "one" in part:
        day, month = map(int, (part["one"], part["other"])[:: 1 if day_first else -1])
    else:
        day, month = int(part["day"]), _month(part["name"]) if "name" in part else int(part["month"])
    year, hour = int(part["year"]), int(part["hour"] or 0)
    year += 0 if year > 99 else 1900 if year > 68 else 2000  # as POSIX reads 69
    if part["half"]:
        hour = hour % 12 + 12 * (part["half"].lower() == "p")
    ends_day = hour == 24 and not int(part["minute"] or 0)
    hour -= 24 * ends_day
    zone = (part["zone"] or "").upper()
    clock = f"{hour:02}:{part['minute'] or '00'}:{part['second'] or '00'}{'Z' if zone in ('UTC', 'GMT') else zone}"
    return datetime.fromisoformat(f"{year:04}-{month:02}-{day:02}T{clock}") + timedelta(days=ends_day)


def _month(name: str) -> int:
    """The number of a month; an unknown name gives 0, which no date accepts."""
    return next((MONTHS[folded(name)[:n]] for n in (4, 3) if folded(name)[:n] in MONTHS), 0)
