"""Episodes that a log holds twice: every interval is then too narrow, and chance looks like a finding.

All episodes are looked at, in whatever shard they are. Of very many, a sample is kept that only their digests decide,
so that an episode and its copy are kept or left out together.
"""

from __future__ import annotations

import numpy as np

from sparsetd.evaluation.asks import Ask
from sparsetd.evaluation.cautions import Caution
from sparsetd.evaluation.moments import Part
from sparsetd.logs import suspicions
from sparsetd.system import Array

MOST = 200_000  # episodes that are compared
MANY = 0.2  # a share of copies from which intervals are wrong by a tenth


def digests(n_episodes: int) -> Ask:
    """Asks for the digests of the episodes, as many as are compared."""
    return Ask(_digests, (min(1.0, MOST / n_episodes),), whole=True)


def on_copies(found: list[Array]) -> list[Caution]:
    """What the digests of a log say."""
    if not found or (sentence := suspicions.copied(every := np.hstack(found))) is None:
        return []
    few = len(np.unique(every[0])) > (1 - MANY) * every.shape[1]
    return [Caution("repeated_episodes", "amber" if few else "red", sentence)]


def _digests(part: Part, share: float) -> list[Array]:
    if part.batch.is_sparse:
        return []
    bounds = np.append(part.episodes.first, len(part.batch))
    found = suspicions.episode_digests(part.batch.phi, part.batch.reward, bounds)
    return [found[:, found[0] <= share * 2.0**64]]
