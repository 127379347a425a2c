"""φ: feature maps as scikit-learn transformers, and `featurize`, which turns transitions into rows of φ and φ'."""

from __future__ import annotations

from sparsetd.features.action_blocks import ActionBlocks, action_blocks
from sparsetd.features.basis import Basis
from sparsetd.features.featurize import featurize
from sparsetd.features.fourier import Fourier
from sparsetd.features.polynomial import Polynomial
from sparsetd.features.rbf_grid import RBFGrid
from sparsetd.features.tabular import Tabular
from sparsetd.features.tile_coding import TileCoding

__all__ = [
    "ActionBlocks",
    "Basis",
    "Fourier",
    "Polynomial",
    "RBFGrid",
    "Tabular",
    "TileCoding",
    "action_blocks",
    "featurize",
]
