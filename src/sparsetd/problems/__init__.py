"""Problems with exact answers: P, r, ξ, V and the systems that the methods solve."""

from __future__ import annotations

from sparsetd._tools.lazy_names import lazily

__getattr__, __dir__, __all__ = lazily(__name__, __file__)
