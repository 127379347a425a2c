"""Choose features without hand-tuning: paths, cross-validation, stability selection, and intervals for the result."""

from __future__ import annotations

from sparsetd._tools.lazy_names import lazily

__getattr__, __dir__, __all__ = lazily(__name__, __file__)
