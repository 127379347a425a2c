"""φ: feature maps as scikit-learn transformers, and `featurize`, which turns transitions into rows of φ and φ'."""

from __future__ import annotations

from sparsetd._tools.lazy_names import refusing
from sparsetd.features.basis import Basis
from sparsetd.features.featurize import action_blocks, featurize
from sparsetd.features.maps import Fourier, Polynomial, RBFGrid, Tabular, TileCoding

__all__ = [
    "Basis",
    "Fourier",
    "Polynomial",
    "RBFGrid",
    "Tabular",
    "TileCoding",
    "action_blocks",
    "featurize",
]

_BLOCKS = "the function action_blocks(phi, indicators); featurize(…, policy=…) calls it for the actions of a log"
__getattr__ = refusing(__name__, {"ActionBlocks": _BLOCKS})
