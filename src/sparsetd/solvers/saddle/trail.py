"""How a solution was reached."""

from __future__ import annotations

from dataclasses import dataclass, field
from time import monotonic

from sparsetd.solvers.saddle.certificate import Point


@dataclass
class Trail:
    """The relative gap and the number of coordinates at work, round by round, and until when it may go on."""

    gap: list[float] = field(default_factory=list)
    n_working: list[float] = field(default_factory=list)
    until: float = float("inf")

    @property
    def late(self) -> bool:
        return monotonic() > self.until

    def note(self, point: Point, n_working: int) -> None:
        self.gap.append(point.relative_gap)
        self.n_working.append(float(n_working))

    def columns(self) -> dict[str, list[float]]:
        return {"relative_gap": self.gap, "n_working": self.n_working}
