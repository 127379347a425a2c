"""The base classes of scikit-learn, with the types of the stub beside this file.

scikit-learn ships no types, so a class that inherits from its bases accepts any argument: `TDC(gama=0.9)` would pass.
"""

from __future__ import annotations

from sklearn.base import BaseEstimator, RegressorMixin

__all__ = ["BaseEstimator", "RegressorMixin"]
