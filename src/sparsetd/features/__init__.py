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

__getattr__ = refusing(__name__)
