"""Long work says how far it is: in place on a terminal, in few lines elsewhere, and not at all unless asked."""

from __future__ import annotations

import io

import numpy as np
import pytest

from sparsetd._tools import progress
from sparsetd.problems import random_mdp
from sparsetd.selection import stability_selection


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A clock that stands still unless it is moved."""
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def counted(clock: list[float], seconds: float, n: int = 40) -> list[int]:
    out = []
    for item in progress.track(range(n), "rows"):
        clock[0] += seconds
        out.append(item)
    return out


def test_nothing_is_shown_unless_asked(clock: list[float], capsys: pytest.CaptureFixture[str]) -> None:
    assert counted(clock, 60.0) == list(range(40))
    assert capsys.readouterr() == ("", "")


def test_a_file_gets_a_line_every_ten_seconds(clock: list[float]) -> None:
    said = io.StringIO()
    with progress.shown(said):
        counted(clock, 1.0)
    assert said.getvalue().splitlines() == [
        "rows: 10 of 40, 1 per second, 30 s left",
        "rows: 20 of 40, 1 per second, 20 s left",
        "rows: 30 of 40, 1 per second, 10 s left",
        "rows: 40 of 40, 1 per second, 0 s left",
    ]


def test_short_work_says_nothing(clock: list[float]) -> None:
    said = io.StringIO()
    with progress.shown(said):
        counted(clock, 0.1)
    assert said.getvalue() == ""


def test_a_terminal_gets_one_line_in_place_which_is_gone_in_the_end(clock: list[float]) -> None:
    said = Terminal()
    with progress.shown(said):
        counted(clock, 1.0, 3)
    one, two, three = (f"rows: {n} of 3, 1 per second, {3 - n} s left" for n in (1, 2, 3))
    assert said.getvalue() == f"\r{one}\r{two}\r{three}\r{' ' * len(three)}\r"


def test_a_shorter_line_covers_the_one_before(clock: list[float]) -> None:
    said = Terminal()
    with progress.shown(said):
        for _, seconds in zip(progress.track(range(1000), "rows"), (1.0, 9.0, 0.0), strict=False):
            clock[0] += seconds
    first, second = said.getvalue().split("\r")[1:3]
    assert len(second) >= len(first)


def test_the_line_is_taken_back_where_the_work_is_given_up(clock: list[float]) -> None:
    said = Terminal()
    with progress.shown(said):
        items = progress.track(range(5), "rows")
        next(items)
        clock[0] += 1.0
        next(items)
        assert said.getvalue() == "\rrows: 1 of 5, 1 per second, 4 s left"
        items.close()
    assert said.getvalue().endswith(" \r")


def test_stability_selection_counts_its_halves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "EVERY", 0.0)
    rng = np.random.default_rng(0)
    log = random_mdp(rng, n_features=5).trajectory(200, rng, horizon=10)
    said = io.StringIO()
    with progress.shown(said):
        stability_selection(log.phi, log.reward, log.phi_next, n_resamples=2, random_state=0, start=log.start)
    assert [line.split(",")[0] for line in said.getvalue().splitlines()] == [f"halves: {k} of 4" for k in range(1, 5)]
