"""What an evaluation hands back: the answer, how sure it is, and what it rests on."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from sparsetd.evaluation.cautions import Caution, Severity, worst
from sparsetd.evaluation.diagnostics import Overlap
from sparsetd.evaluation.estimate import Estimate
from sparsetd.evaluation.held_out import BellmanError
from sparsetd.evaluation.shown import Shown
from sparsetd.evaluation.support import Support

SIGNS = {"red": "DO NOT USE", "amber": "caution", "note": "note"}


@dataclass(frozen=True)
class Feature:
    """A feature that carries weight.

    `weight` is the change in value per standard deviation of the feature, with its interval; `coefficient` that per
    unit of the feature; `frequency` the share of resampled logs in which it is kept; `column` its number.
    """

    name: str
    weight: float
    interval: tuple[float, float] | None
    coefficient: float
    frequency: float | None
    column: int = -1

    def kept_in(self, frequency: float | None) -> Feature:
        """The same with its selection frequency."""
        return replace(self, frequency=None if frequency is None else float(frequency))


@dataclass(frozen=True, repr=False)
class Evaluation(Shown):
    """The value of a target policy. `print` it, take `to_dict()`, or write a page with `sparsetd.report.page`.

    `estimate` is the value from `n_used` of `n_candidates` features, `features` those that matter. `observed` is the
    mean return of the log as it is, `modelled` what the same features make of the logged behaviour, and `behavior` the
    one of the two that `difference` is taken against: the first where no episode was cut. `warnings` are cautions with
    a code and a severity, the worst first.
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
    bellman: BellmanError | None
    features: tuple[Feature, ...]
    n_candidates: int
    n_used: int
    comparisons: tuple[Estimate, ...]
    warnings: tuple[Caution, ...] = ()
    behavior_policy: str | None = None
    fit: str = ""
    path: Mapping[str, Any] | None = None
    convergence: Mapping[str, Any] | None = None
    ratio_histogram: Mapping[str, Any] | None = None
    calibration: tuple[Mapping[str, Any], ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)

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
        overlap = asdict(self.overlap)
        return _plain(
            {
                "value": self.value,
                "interval": self.interval,
                "level": self.level,
                "standard_error": self.estimate.standard_error,
                "target": self.target,
                "gamma": self.gamma,
                "severity": self.severity,
                "behavior_value": self._entry(self.behavior),
                "observed_return": self._entry(self.observed),
                "behavior_modelled": self._entry(self.modelled),
                "difference": self._entry(self.difference),
                "effective_episodes": self.support.effective_episodes,
                "effective_rows": self.support.effective_rows,
                "negative_share": self.support.negative,
                "regions": list(self.support.regions),
                **overlap,
                "bellman_error": None if self.bellman is None else asdict(self.bellman),
                "features": [asdict(f) for f in self.features],
                "n_candidates": self.n_candidates,
                "n_used": self.n_used,
                "comparisons": [self._entry(e) for e in self.comparisons],
                "warnings": [asdict(caution) for caution in self.warnings],
                "behavior_policy": self.behavior_policy,
                "fit": self.fit,
                "path": self.path,
                "convergence": self.convergence,
                "ratio_histogram": self.ratio_histogram,
                "calibration": list(self.calibration),
                "settings": dict(self.settings),
            }
        )

    def _entry(self, e: Estimate) -> dict[str, Any]:
        interval = e.interval(self.level) if math.isfinite(e.standard_error) else None
        return {"name": e.name, "value": e.value, "interval": interval, "ess": e.n_effective}

    def __str__(self) -> str:
        low, high = self.interval
        d, level = _decimals(high - low or self.value), f"{100 * self.level:.6g}%"
        lines = [
            f"value of {self.target}: {self.value:.{d}f}   {level} interval {low:.{d}f} to {high:.{d}f}",
            f"observed mean return of the log {_interval(self.observed, self.level)}",
            f"logged behaviour, modelled        {_interval(self.modelled, self.level)}",
            f"difference to the {'observed return' if self.behavior is self.observed else 'modelled behaviour'} "
            f"{_interval(self.difference, self.level)}",
            f"it rests on {self.support.effective_episodes:.0f} effective episodes of {self.support.n_episodes} and "
            f"{self.support.effective_rows:.0f} effective rows of {self.support.n_rows}; largest ratio "
            f"{self.overlap.max_ratio:.3g}, coverage {self.overlap.coverage:.1%}",
            *([] if self.behavior_policy is None else [self.behavior_policy]),
        ]
        said = [f"{SIGNS[caution.severity]}: {caution}" for caution in self.warnings]
        red = [line for line in said if line.startswith(SIGNS["red"])]
        return "\n".join([*red, *lines, *self._feature_lines(), *self._comparison_lines(), *said[len(red) :]])

    def _feature_lines(self) -> list[str]:
        head = f"{len(self.features)} of {self.n_candidates} features matter (change in value per standard deviation):"
        d = _decimals(max((abs(f.weight) for f in self.features), default=0.0))
        shown = [f"  {f.name:<28s} {f.weight:+.{d}f}{_kept(f)}" for f in self.features[:20]]
        more = [f"  … and {len(self.features) - 20} more"] if len(self.features) > 20 else []
        return [head, *shown, *more]

    def _comparison_lines(self) -> list[str]:
        rows = [f"  {e.name:<26s} {_interval(e, self.level)}" for e in self.comparisons]
        return [f"for comparison{weight_note(self.overlap.mean_weight)}:", *rows]


def weight_note(mean_weight: float) -> str:
    """Words for episode weights whose mean is not near the 1 that it estimates; nothing where it is."""
    if 0.75 <= mean_weight <= 1.33:
        return ""
    return (
        f" (weights of whole episodes average {mean_weight:.2g} instead of 1: importance sampling is unreliable here)"
    )


def _kept(f: Feature) -> str:
    return "" if f.frequency is None else f"   kept in {f.frequency:.0%} of resamples"


def _interval(e: Estimate, level: float) -> str:
    if not math.isfinite(e.standard_error):
        return "–"
    low, high = e.interval(level)
    d = _decimals(high - low or e.value)
    return f"{e.value:+.{d}f} ({low:+.{d}f} to {high:+.{d}f})"


def _decimals(size: float) -> int:
    """Decimals that show three digits of a number, as a rule four: rewards may count millionths, or millions."""
    if not size or not math.isfinite(size):
        return 4
    needed = 2 - math.floor(math.log10(abs(size)))
    return max(needed, 4 if abs(size) < 1e3 else 0)


def _plain(value: Any) -> Any:
    """Nested data with tuples as lists, and NaN and infinity as None."""
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
