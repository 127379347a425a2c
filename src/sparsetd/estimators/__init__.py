"""The public estimators: scikit-learn estimators, each a triple operator × penalty × solver."""

from __future__ import annotations

from sparsetd._tools.lazy_names import lazily
from sparsetd.estimators.fit_stream import fit_stream as fit_stream  # its module has the same name

__getattr__, __dir__, __all__ = lazily(__name__, __file__)
