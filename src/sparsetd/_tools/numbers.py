"""Write numbers for people: rounded alike where they stand side by side, and shares as percents."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

MINUS = "−"
SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


@dataclass(frozen=True)
class Numbers:
    """Write numbers that stand side by side: all rounded at one place, with one power of ten.

    `place` counts decimals (−2: hundreds), `power` is the power of ten that is taken out of numbers too long to read.
    """

    place: int
    power: int = 0

    @classmethod
    def of(cls, values: Iterable[float | None], finest: float | None = None) -> Numbers:
        """Show three digits of the largest value, or up to six so that an interval as narrow as `finest` is seen."""
        size = max((abs(v) for v in values if v is not None and math.isfinite(v)), default=0.0)
        digits = 3 if not finest else min(max(3, 2 + exponent(size) - exponent(finest)), 6)
        return cls(digits - 1 - exponent(size), 0 if 1e-4 <= size < 1e9 else exponent(size))

    def __call__(self, value: float | None) -> str:
        """Write a number with a real minus sign, or a dash if there is no number."""
        text = self.digits(value)
        return text if text == "–" or not self.power else f"{text} × {ten(self.power)}"

    def digits(self, value: float | None) -> str:
        """The number without its power of ten."""
        if value is None or not math.isfinite(value):
            return "–"
        rounded = round(value, self.place) + 0.0  # −0.0 becomes 0.0, which has no sign
        text = f"{rounded / 10.0**self.power:,.{max(self.place + self.power, 0)}f}"
        return text.replace("-", MINUS)

    def signed(self, value: float | None) -> str:
        text = self(value)
        return text if text.startswith((MINUS, "–")) else f"+{text}"


def number(value: float | None) -> str:
    """Write a number that stands alone."""
    return Numbers.of([value])(value)


def exponent(size: float) -> int:
    """The power of ten of the first digit; 0 for zero and for numbers that floating point can hardly hold."""
    return math.floor(math.log10(size)) if size > 1e-300 else 0


def ten(power: int) -> str:
    """10 to a power, as it is printed."""
    return "10" + str(power).translate(SUPERSCRIPT)


def percent(share: float | None) -> str:
    """Write a share in whole percents, near 0 and 1 with the decimals that tell 99.7 % from 100 %."""
    if share is None or not math.isfinite(share):
        return "–"
    room = round(min(abs(share), abs(1 - share)), 12)
    return f"{100 * share:.{min(max(-2 - exponent(room), 0), 3)}f} %"


def between(ends: Iterable[float | None], written: Callable[[float | None], str]) -> str:
    """The ends of an interval: "0.1 to 0.3"."""
    return " to ".join(map(written, ends))


def at_level(level: float, ends: Iterable[float | None], written: Callable[[float | None], str]) -> str:
    """An interval with its level: "95 % interval 0.1 to 0.3"."""
    return f"{percent(level)} interval {between(ends, written)}"


def count(value: float) -> str:
    return f"{value:,.0f}"
