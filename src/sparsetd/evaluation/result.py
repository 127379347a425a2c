"""The result of an evaluation: the answer, how sure it is, and the evidence behind it."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import date
from functools import cached_property
from importlib import import_module
from importlib.metadata import version
from typing import Any, ClassVar

import numpy as np

from sparsetd import plots
from sparsetd._tools.frames import plain
from sparsetd._tools.numbers import percent
from sparsetd.evaluation.cautions import Caution, Severity, worst
from sparsetd.evaluation.estimate import Estimate
from sparsetd.evaluation.first_reading import Column
from sparsetd.evaluation.held_out import BellmanError
from sparsetd.evaluation.support import Overlap, Support
from sparsetd.selection import Summary
from sparsetd.storage.atomic import replace_file

MOST_ACTIONS = 5  # actions whose shares a sentence names
# Keys of `to_dict` that differ from the name of the attribute, and attributes that become several keys.
RENAMED = {
    "behavior": "behavior_value",
    "observed": "observed_return",
    "modelled": "behavior_modelled",
    "bellman": "bellman_error",
}
TOLD_APART = ("estimate", "overlap", "support", "draw_path")
ASSUMPTIONS = (
    "The interval holds if the assumptions do (docs/assumptions.md). No log can check the most important one: every "
    "cause of both the action and the outcome was recorded."
)


class Decision:
    """The base of all answers: a terminal, a notebook and a page present the same document.

    Documents are made from plain data in a layer above, so they are found by name.
    """

    _page: ClassVar[str]  # module and function of `sparsetd.report`

    def to_dict(self) -> dict[str, Any]:
        raise NotImplementedError

    def _document(self, **more: Any) -> Any:
        module, _, name = self._page.partition(":")
        return _report(module, name)({**self.to_dict(), **more})

    def sentence(self) -> str:
        """The answer in a few words."""
        return "\n".join(str(self).splitlines()[:2])

    def __repr__(self) -> str:
        return self.sentence()

    def __str__(self) -> str:
        return self.text()

    def text(self, *, unit: str | None = None) -> str:
        """The answer for a terminal; `unit` says what the value is measured in."""
        return str(self._document(unit=unit).text())

    def save_report(self, path: str | os.PathLike[str], **settings: Any) -> None:
        """Write the page as one HTML file that needs no other; `settings` stand at its end."""
        replace_file(path, self.page(**settings))

    def page(self, *, unit: str | None = None, **settings: Any) -> str:
        """The page as HTML, with the same words and tables."""
        made = {"sparsetd": version("sparsetd"), "date": date.today().isoformat()}
        found = self._document(unit=unit)
        return str(replace(found, settings={**found.settings, **settings, **made}).html())

    def _repr_html_(self) -> str:
        quoted = self.page().replace("&", "&amp;").replace('"', "&quot;")
        return f'<iframe srcdoc="{quoted}" style="width:100%;height:600px;border:0"></iframe>'


def _report(module: str, name: str) -> Any:
    """A function of `sparsetd.report`, a layer above."""
    return getattr(import_module(f"sparsetd.report.{module}"), name)


@dataclass(frozen=True)
class Feature:
    """Describe a feature that carries weight in the value.

    `weight` is the change in value per standard deviation of the feature, with its interval; `coefficient` that per
    unit of the feature; `frequency` the share of resampled logs in which it is kept; `column` its number.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsetd import evaluate, prepare
    >>> rng = np.random.default_rng(0)
    >>> x, action = rng.normal(size=300), rng.integers(2, size=300)
    >>> raw = {"x": x, "action": action, "reward": action * x + rng.normal(0, 0.5, size=300)}
    >>> log = prepare(raw, bandit=True).transitions
    >>> found = evaluate(log, "1 if x > 0; else 0", features=None, n_resamples=0)
    >>> feature = found.features[0]
    >>> feature.name, feature.column
    ('obs_x', 0)
    >>> feature.weight > 0
    True
    """

    name: str
    weight: float
    interval: tuple[float, float] | None
    coefficient: float
    frequency: float | None
    column: int = -1


@dataclass(frozen=True)
class Robustness:
    """How strong an unrecorded cause would have to be to explain away a gain, at every decision.

    `gamma` is Γ*: the least factor on the odds of the logged action with which a cause, together with chance, could
    explain the sign of the difference. It is None if even the largest factor that was `tried` could not. `columns` say
    by how much recorded columns change these odds, the strongest first.

    Examples
    --------
    >>> from sparsetd.evaluation import Robustness
    >>> found = Robustness(gamma=1.8, tried=10.0, columns=(("lactate", 1.4),))
    >>> print(found.sentence().split(". ")[1])
    For comparison: of the recorded columns, lactate changes these odds most, by a factor of 1.40.
    """

    gamma: float | None
    tried: float
    columns: tuple[tuple[str, float], ...] = ()

    def to_dict(self) -> dict[str, Any]:
        return {"gamma": self.gamma, "tried": self.tried, "columns": self.columns, "sentence": self.sentence()}

    def sentence(self) -> str:
        """Γ* in words, beside the recorded columns."""
        if self.gamma == 1.0:
            return "Chance alone may explain the difference to what was done, without any unrecorded cause."
        cause = "unrecorded cause that changes the odds of the logged action by a factor of"
        if self.gamma is None:
            found = f"Even an {cause} {self.tried:g} at every decision does not explain"
        else:
            found = f"An {cause} {self.gamma:.2f} (Γ*) at every decision would explain"
        found += " away the difference to what was done."
        if not self.columns:
            return found
        name, strength = self.columns[0]
        measure = f"of the recorded columns, {name} changes these odds most, by a factor of {strength:.2f}"
        return f"{found} For comparison: {measure}."


@dataclass(frozen=True, repr=False)
class Evaluation(Decision):
    """Hold the value of a target policy, as `evaluate` found it.

    `print` it, take `to_dict()`, or write a page with `sparsetd.report.page`.

    `estimate` is the value from `n_used` of `n_candidates` features, `features` those that matter. `observed` is the
    mean return of the log as it is, `modelled` the value that the same features give to the logged behaviour, and
    `behavior` the one of the two that `difference` is taken against: the first where no episode was cut. `warnings` are
    cautions with a code and a severity, the worst first.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsetd import evaluate, prepare
    >>> rng = np.random.default_rng(0)
    >>> x, action = rng.normal(size=300), rng.integers(2, size=300)
    >>> raw = {"x": x, "action": action, "reward": action * x + rng.normal(0, 0.5, size=300)}
    >>> log = prepare(raw, bandit=True).transitions
    >>> found = evaluate(log, "1 if x > 0; else 0", features=None, n_resamples=0)
    >>> found.target, found.gamma, found.level
    ('1 if x > 0; else 0', 0.99, 0.95)
    >>> low, high = found.interval
    >>> bool(low < found.value < high)
    True
    >>> [feature.name for feature in found.features]
    ['obs_x']
    """

    estimate: Estimate
    behavior: Estimate
    observed: Estimate
    modelled: Estimate
    difference: Estimate
    target: str
    gamma: float
    level: float
    overlap: Overlap
    support: Support
    n_candidates: int
    n_used: int
    bellman: BellmanError | None = None
    features: tuple[Feature, ...] = ()
    comparisons: tuple[Estimate, ...] = ()
    warnings: tuple[Caution, ...] = ()
    behavior_policy: str | None = None
    fit: str = ""
    draw_path: Callable[[], Mapping[str, Any] | None] | None = field(default=None, repr=False, compare=False)
    convergence: Mapping[str, Any] | None = None
    ratio_histogram: Mapping[str, Any] | None = None
    calibration: tuple[Mapping[str, Any], ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    acts: Mapping[str, Any] | None = None
    robustness: Robustness | None = None
    columns: tuple[Column, ...] = ()
    _page = "page:evaluation"

    @cached_property
    def path(self) -> Mapping[str, Any] | None:
        """The weights along the penalties, for a picture; it is computed when it is first asked for."""
        return None if self.draw_path is None else self.draw_path()

    @property
    def value(self) -> float:
        return self.estimate.value

    @property
    def interval(self) -> tuple[float, float]:
        return self.estimate.interval(self.level)

    @property
    def severity(self) -> Severity | None:
        """The worst of the cautions: "red" means that the answer should not be used."""
        return worst(self.warnings)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON and for the report page; what does not exist is None."""
        named = {f.name: self._told(getattr(self, f.name)) for f in fields(self) if f.name not in TOLD_APART}
        found = {
            "value": self.value,
            "interval": self.interval,
            "standard_error": self.estimate.standard_error,
            "severity": self.severity,
            **{RENAMED.get(name, name): value for name, value in named.items()},
            "effective_episodes": self.support.effective_episodes,
            "effective_rows": self.support.effective_rows,
            "negative_share": self.support.negative,
            **vars(self.overlap),
            "path": self.path,
            "assumptions": ASSUMPTIONS,
        }
        return dict(plain(found))

    def _told(self, value: Any) -> Any:
        if isinstance(value, Robustness):
            return value.to_dict()
        if isinstance(value, tuple):
            return [self._told(entry) for entry in value]
        if not isinstance(value, Estimate):
            return value
        interval = value.interval(self.level) if math.isfinite(value.standard_error) else None
        return {"name": value.name, "value": value.value, "interval": interval, "ess": value.n_effective}

    def summary(self) -> Summary:
        """The features that carry weight as a table, which becomes a frame (`to_frame`) or a picture (`plot`)."""
        ends = np.array([f.interval or (np.nan, np.nan) for f in self.features], dtype=float).reshape(-1, 2)
        share = np.array([np.nan if f.frequency is None else f.frequency for f in self.features])
        names = np.array([f.name for f in self.features], dtype=object)
        weights = np.array([f.weight for f in self.features])
        return Summary(names, weights, ends[:, 0], ends[:, 1], share, self.level)

    def to_frame(self) -> Any:
        """The features that carry weight as a pandas (or polars) frame."""
        return self.summary().to_frame()

    def plot(self, ax: Any = None, *, column: str | None = None) -> Any:
        """The estimates with their intervals, or the value against a column with its band; returns the axes."""
        if column is not None:
            found = {c.name: c for c in self.columns}
            if column not in found:
                raise ValueError(f"`column` is {column!r}, which has no shape here: pass one of {', '.join(found)}.")
            shape = found[column].shape
            drawn = plots.band(shape["at"], shape["value"], list(zip(shape["low"], shape["high"], strict=True)), ax)
            drawn.set(xlabel=column, ylabel="change of the value")
            return drawn
        opinions = _report("page", "opinions")(self.to_dict())
        return plots.forest([(name, value, ends) for name, value, ends, _ in opinions], ax, label="value per episode")


def acts_sentence(actions: Sequence[str], logged: Sequence[float], target: Sequence[float]) -> str:
    """A sentence about the actions that a policy takes more or less often, as shares of the logged decisions."""
    shares = sorted(zip(actions, logged, target, strict=True), key=lambda entry: -round(abs(entry[2] - entry[1]), 9))
    changes = [
        f"{f'action {name}' if name.isdigit() else name}: {percent(before)} → {percent(after)}"
        for name, before, after in shares[:MOST_ACTIONS]
        if before != after
    ]
    if not changes:
        return "It acts as the log does in every decision."
    more = " Other actions change less." if len(actions) > MOST_ACTIONS else ""
    start = "It shifts decisions between the actions (share in the log → share under the policy, in the same states)."
    return f"{start} {'; '.join(changes)}.{more}"
