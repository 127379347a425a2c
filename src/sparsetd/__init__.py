"""Sparse, off-policy-convergent linear value learning.

    transitions → features → operator × penalty × solver → estimator → report

Public names are loaded when they are first used: `import sparsetd` itself imports neither scikit-learn nor Numba.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.2.0"

if TYPE_CHECKING:
    # The aliases and stars tell type checkers that these names are public.
    from sparsetd import checks as checks
    from sparsetd import control as control
    from sparsetd import decisions as decisions
    from sparsetd import evaluation as evaluation
    from sparsetd import features as features
    from sparsetd import metrics as metrics
    from sparsetd import operators as operators
    from sparsetd import penalties as penalties
    from sparsetd import plots as plots
    from sparsetd import problems as problems
    from sparsetd import progress as progress
    from sparsetd import selection as selection
    from sparsetd import solvers as solvers
    from sparsetd import transitions as transitions
    from sparsetd.checks import check_td_estimator as check_td_estimator
    from sparsetd.decisions import *
    from sparsetd.estimators import *
    from sparsetd.evaluation import Evaluation as Evaluation
    from sparsetd.evaluation import estimate_behavior as estimate_behavior
    from sparsetd.evaluation import evaluate as evaluate
    from sparsetd.model_file import load as load
    from sparsetd.model_file import save as save
    from sparsetd.selection import *
    from sparsetd.sweeps import Sweep as Sweep
    from sparsetd.sweeps import sweep as sweep
    from sparsetd.transitions import Transitions as Transitions
    from sparsetd.transitions import prepare as prepare
    from sparsetd.transitions import read as read

# Where each public name lives, in the order of the data flow; a test keeps it complete.
_HOMES = {
    "sparsetd": (
        "transitions features operators penalties solvers metrics problems control selection evaluation decisions "
        "checks plots progress"
    ),
    "sparsetd.transitions": "Transitions prepare read",
    "sparsetd.estimators": (
        "TD ETD TDC TDRC GTD GTD2 HTD GQ GTD2MP TDCMP L1TD MirrorDescentTD PFGTD ROTD ROGQ ROTDLasso RDATD LSTD LSTDL1 "
        "LARSTD LCPTD DantzigLSTD OMPTD RALP SparseTD LinearTD TDScorer ValueFunction fit_stream DivergenceWarning"
    ),
    "sparsetd.selection": (
        "SparseTDCV sparse_td_path SparsePath rho_max stability_selection StabilitySelection value_interval Interval "
        "summary Summary"
    ),
    "sparsetd.evaluation": "evaluate Evaluation estimate_behavior",
    "sparsetd.sweeps": "sweep Sweep",
    "sparsetd.decisions": "compare improve sensitivity",
    "sparsetd.model_file": "save load",
    "sparsetd.checks": "check_td_estimator",
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}

__all__ = sorted(_HOME_OF)


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'sparsetd' has no attribute {name!r}")
    home = _HOME_OF[name]
    value = import_module(f"sparsetd.{name}") if home == "sparsetd" else getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME_OF])
