"""φ: feature maps as scikit-learn transformers, and `featurize`, which turns transitions into rows of φ and φ'."""

from __future__ import annotations

from sparsetd._tools.lazy_names import listed
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

__getattr__, __dir__ = listed(__name__, __all__)
