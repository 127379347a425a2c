"""Sparse, off-policy-convergent linear value learning.

    transitions → features → operator × penalty × solver → estimator → report

Public names are loaded when they are first used: `import sparsetd` itself imports neither scikit-learn nor Numba. They
stand in `__init__.pyi`. Everything else is imported from its package: `from sparsetd.estimators import RALP`.
"""

from __future__ import annotations

from sparsetd._tools.lazy_names import lazily

__version__ = "0.3.0"

__getattr__, __dir__, __all__ = lazily(__name__, __file__)
