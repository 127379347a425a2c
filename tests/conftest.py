"""What holds for all tests: every answer is computed a second way, the examples are the same in every run, and no
verdict is passed on how fast the machine is."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

os.environ["SPARSETD_VERIFY"] = "1"  # also read by the commands that tests start
settings.register_profile("steady", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("steady")
