"""Sparse, off-policy-convergent linear value learning.

    transitions → features → operator × penalty × solver → estimator → report

Public names are loaded when they are first used: `import sparsetd` itself imports neither scikit-learn nor Numba.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sparsetd._tools.lazy_names import lazily

__version__ = "0.2.0"

if TYPE_CHECKING:
    # The aliases and stars tell type checkers that these names are public.
    from sparsetd import control as control
    from sparsetd import decisions as decisions
    from sparsetd import evaluation as evaluation
    from sparsetd import features as features
    from sparsetd import logs as logs
    from sparsetd import metrics as metrics
    from sparsetd import operators as operators
    from sparsetd import penalties as penalties
    from sparsetd import plots as plots
    from sparsetd import problems as problems
    from sparsetd import selection as selection
    from sparsetd import solvers as solvers
    from sparsetd import testing as testing
    from sparsetd.decisions import *
    from sparsetd.estimators import *
    from sparsetd.evaluation import Evaluation as Evaluation
    from sparsetd.evaluation import estimate_behavior as estimate_behavior
    from sparsetd.evaluation import evaluate as evaluate
    from sparsetd.logs import Transitions as Transitions
    from sparsetd.logs import prepare as prepare
    from sparsetd.logs import read as read
    from sparsetd.model_file import load as load
    from sparsetd.model_file import save as save
    from sparsetd.selection import *
    from sparsetd.sweeps import Sweep as Sweep
    from sparsetd.sweeps import sweep as sweep
    from sparsetd.testing import check_td_estimator as check_td_estimator

# Where each public name lives, in the order of the data flow; a test keeps it complete.
__getattr__, __dir__, __all__ = lazily(
    __name__,
    {
        "": (
            "logs features operators penalties solvers metrics problems control selection evaluation decisions "
            "testing plots"
        ),
        "logs": "Transitions prepare read",
        "estimators": (
            "TD ETD TDC TDRC GTD GTD2 HTD GQ GTD2MP TDCMP L1TD MirrorDescentTD PFGTD ROTD ROGQ ROTDLasso RDATD LSTD "
            "LSTDL1 LARSTD LCPTD DantzigLSTD OMPTD RALP SparseTD LinearTD TDScorer ValueFunction fit_stream "
            "DivergenceWarning"
        ),
        "selection": (
            "SparseTDCV sparse_td_path SparsePath rho_max stability_selection StabilitySelection value_interval "
            "Interval summary Summary"
        ),
        "evaluation": "evaluate Evaluation estimate_behavior",
        "sweeps": "sweep Sweep",
        "decisions": "compare improve sensitivity",
        "model_file": "save load",
        "testing": "check_td_estimator",
    },
)
