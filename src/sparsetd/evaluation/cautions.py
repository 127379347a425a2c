"""What a careful reader must be told: one sentence, a code for programs, and how bad it is.

note     worth knowing; the answer stands
amber    read the answer with this in mind
red      do not use the answer
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Severity = Literal["note", "amber", "red"]
ORDER: tuple[Severity, ...] = ("note", "amber", "red")


@dataclass(frozen=True)
class Caution:
    """A sentence about the answer, with its code and severity."""

    code: str
    severity: Severity
    text: str

    def __str__(self) -> str:
        return self.text


def worst(cautions: Iterable[Caution]) -> Severity | None:
    """The worst severity among them; None where there is none."""
    found = [ORDER.index(c.severity) for c in cautions]
    return ORDER[max(found)] if found else None


def by_severity(cautions: Iterable[Caution]) -> tuple[Caution, ...]:
    """The worst first, otherwise in the order they came."""
    return tuple(sorted(cautions, key=lambda c: -ORDER.index(c.severity)))
