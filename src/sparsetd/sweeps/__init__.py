"""Many settings at once: methods × parameters × seeds on the same data, with a table, curves and figures."""

from __future__ import annotations

from sparsetd._tools.lazy_names import listed
from sparsetd.sweeps.results import Sweep
from sparsetd.sweeps.sweep import sweep
from sparsetd.sweeps.tasks import Control

__all__ = ["Control", "Sweep", "sweep"]

__getattr__, __dir__ = listed(__name__, __all__)
