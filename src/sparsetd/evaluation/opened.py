"""A log is opened for evaluation: in memory as one part, or in shards that are read when they are needed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sparsetd.evaluation.moments import Part, pilot_units
from sparsetd.evaluation.parts import Parts, Reading
from sparsetd.evaluation.target import Question, pose, reading
from sparsetd.features.featurize import feature_names, fit_features
from sparsetd.logs import Shard, Transitions, concatenate, shards
from sparsetd.logs.engines import Engine
from sparsetd.logs.partition import hashed
from sparsetd.solvers.saddle import Units
from sparsetd.system import Array

SAMPLE = 50_000  # rows that stand for a log in shards where sums do not: features to fit, what looks suspicious


@dataclass(frozen=True, eq=False)
class Opened:
    """The rows, with φ in preliminary units, the columns' names, the ids' hashes, and the question.

    The log of the question is a sample, the first shards, where there are several.
    """

    rows: Part | Parts
    names: Array
    hashes: Array
    units: Units
    question: Question


def opened(
    source: Any,
    target: Any,
    gamma: float,
    features: Any,
    classifier: Any,
    engine: Engine | None,
    folder: str | None,
) -> Opened:
    """Bring log, target and features together. Features with something to fit are fitted on the first shards."""
    form, columns = reading(target, source)
    parts = shards(source, **columns)
    first = sample(parts)
    question = pose(first, form, classifier=classifier)
    phi = fit_features(first, features)
    part = Reading(None, gamma, phi)(question.log)
    units = None if part.batch.is_sparse else pilot_units(part.batch.phi[:SAMPLE])
    units = Units.of(part.batch.phi, centre=False) if units is None else units
    names, hashes = feature_names(phi, first), [hashed(part.ids)]
    rows: Part | Parts = part.in_units(units)
    if len(parts) > 1:
        hashes = [hashed(shard.ids()) for shard in parts]
        behavior = None if question.behavior is None else question.behavior.model
        how = Reading(question.asked, gamma, phi, units, behavior)
        rows = Parts(parts, how, engine, folder, np.array([len(h) for h in hashes]))
    return Opened(rows, names, np.concatenate(hashes), units, question)


def sample(parts: Sequence[Shard], sparse: bool = False) -> Transitions:
    """The log, if it is one part; otherwise the first parts, until there are rows enough."""
    if len(parts) == 1:
        return parts[0].read(sparse)
    read, n = [], 0
    for part in parts:
        read.append(part.read(sparse))
        n += len(read[-1])
        if n >= SAMPLE:
            break
    return concatenate(read)
