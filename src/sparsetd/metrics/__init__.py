"""How good is θ: from data (a `Batch`), and exactly where the process is known."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sparsetd._tools.lazy_names import lazily

if TYPE_CHECKING:
    from sparsetd.metrics.errors import *

__getattr__, __dir__, __all__ = lazily(
    __name__, {"errors": "exact_mspbe exact_neu exact_rmspbe mspbe neu rmspbe td_errors value_error"}
)
