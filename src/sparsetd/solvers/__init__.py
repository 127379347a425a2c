"""Solvers find the weights that satisfy the linear system of a method, row by row or all at once.

Every solver streams: init → update → result.
"""

from __future__ import annotations

from sparsetd._tools.lazy_names import lazily

__getattr__, __dir__, __all__ = lazily(__name__, __file__)
