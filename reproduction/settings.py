"""Settings that know where they come from: the paper, a work that it cites, or nobody but us."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np

Provenance = Literal["paper", "cited", "assumed"]


def paper(value: Any, note: str = "") -> Any:
    """A setting printed in the paper."""
    return _setting(value, "paper", note)


def cited(value: Any, note: str) -> Any:
    """A setting taken from a work that the paper cites; `note` says which."""
    return _setting(value, "cited", note)


def assumed(value: Any, note: str) -> Any:
    """A setting that no source fixes; `note` says why this value."""
    return _setting(value, "assumed", note)


def _setting(value: Any, source: Provenance, note: str) -> Any:
    return field(default=value, metadata={"provenance": source, "note": note})


@dataclass(frozen=True)
class Settings:
    """Base of every experiment's settings; values are numbers, strings or tuples of them.

    `carried` names the settings that decide which units there are, but not what a unit finds.
    """

    carried: ClassVar[tuple[str, ...]] = ("n_seeds",)

    n_seeds: int = assumed(20, "number of independent runs")
    entropy: int = assumed(20121203, "root of the reported seeds; tuning uses another root")

    def table(self) -> list[tuple[str, Any, str, str]]:
        """(name, value, provenance, note) of every setting."""
        rows = dataclasses.fields(self)
        return [(f.name, getattr(self, f.name), f.metadata["provenance"], f.metadata["note"]) for f in rows]

    def rng(self, seed: int, stream: int = 0) -> np.random.Generator:
        """Generator of run `seed`. All methods of a run share it, so that they see the same data."""
        return np.random.default_rng(np.random.SeedSequence(self.entropy, spawn_key=(seed, stream)))
