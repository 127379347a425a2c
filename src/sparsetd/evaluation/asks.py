"""What is asked of a log: sums over its episodes, all that is asked together from one reading.

    Σ f(piece, *along, *args)        over pieces of whole episodes that fit into the processor's cache

A log in memory is one `Part`, a log in shards is `Parts` of which nothing is kept; both are asked alike.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from sparsetd.system import Array

if TYPE_CHECKING:
    from sparsetd.evaluation.moments import Part

View = tuple[Callable[..., "Part"], tuple[Any, ...]]


@dataclass(frozen=True, eq=False)
class Ask:
    """Σ f(piece, *along, *args), results needing only `+`.

    `along` are arrays with an entry for every episode of the log, of which a piece gets its own; `views` say what is
    first made of the piece. A function that adds to a sum in place gets it as `into`; one that needs no features may
    have the `whole` part at once.
    """

    f: Callable[..., Any]
    args: tuple[Any, ...] = ()
    along: tuple[Array, ...] = ()
    views: tuple[View, ...] = ()
    into: bool = False
    whole: bool = False

    def on(self, view: Callable[..., Part], *args: Any) -> Ask:
        """The same of the log whose parts are view(part, *args)."""
        return replace(self, views=(*self.views, (view, args)))

    def plan(self) -> tuple[Any, ...]:
        """The ask without its arrays, for `answers`."""
        return self.f, self.args, len(self.along), self.views, self.into, self.whole


@dataclass(frozen=True, eq=False)
class Several:
    """Results that are added one by one."""

    values: list[Any]

    def __add__(self, other: Several) -> Several:
        return Several([a + b for a, b in zip(self.values, other.values, strict=True)])


def answers(part: Part, *along_and_plans: Any) -> Several:
    """The answers of one part to the plans of several asks, with the arrays of all of them before these."""
    *along, plans = along_and_plans
    totals = [f(part, *args) if whole else None for f, args, _, _, _, whole in plans]
    for piece, members in part.pieces():
        own = iter([array[members] for array in along])
        for i, (f, args, n_along, views, into, whole) in enumerate(plans):
            if not whole:
                given = (seen(piece, views), *(next(own) for _ in range(n_along)), *args)
                totals[i] = f(*given, into=totals[i]) if into else _added(totals[i], f(*given))
    return Several(totals)


def _added(total: Any, more: Any) -> Any:
    if total is None:
        return more
    total += more
    return total


def seen(part: Part, views: Sequence[View]) -> Part:
    """What the views make of a part, one after the other."""
    for view, args in views:
        part = view(part, *args)
    return part
