"""Sparse, off-policy-convergent linear value learning.

    transitions → features → operator × penalty × solver → estimator → report

Public names are loaded when they are first used: `import sparsetd` itself imports neither scikit-learn nor Numba.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sparsetd._tools.lazy_names import lazily

__version__ = "0.3.0"

if TYPE_CHECKING:
    # The aliases tell type checkers that these names are public.
    from sparsetd import control as control
    from sparsetd import estimators as estimators
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
    from sparsetd import sweeps as sweeps
    from sparsetd.estimators import ETD as ETD
    from sparsetd.estimators import GQ as GQ
    from sparsetd.estimators import GTD2 as GTD2
    from sparsetd.estimators import GTD2MP as GTD2MP
    from sparsetd.estimators import LARSTD as LARSTD
    from sparsetd.estimators import LSTD as LSTD
    from sparsetd.estimators import LSTDL1 as LSTDL1
    from sparsetd.estimators import OMPTD as OMPTD
    from sparsetd.estimators import ROGQ as ROGQ
    from sparsetd.estimators import ROTD as ROTD
    from sparsetd.estimators import TD as TD
    from sparsetd.estimators import TDC as TDC
    from sparsetd.estimators import TDRC as TDRC
    from sparsetd.estimators import LinearTD as LinearTD
    from sparsetd.estimators import SparseTD as SparseTD
    from sparsetd.estimators import ValueFunction as ValueFunction
    from sparsetd.estimators.model_file import load as load
    from sparsetd.estimators.model_file import save as save
    from sparsetd.evaluation.compare import compare as compare
    from sparsetd.evaluation.evaluate import evaluate as evaluate
    from sparsetd.evaluation.improve import improve as improve
    from sparsetd.evaluation.sensitivity import sensitivity as sensitivity
    from sparsetd.logs import Transitions as Transitions
    from sparsetd.logs import read as read
    from sparsetd.logs.prepare import prepare as prepare
    from sparsetd.logs.rules import policy as policy
    from sparsetd.selection import SparseTDSelect as SparseTDSelect
    from sparsetd.sweeps.sweep import sweep as sweep

# Where each public name lives, in the order of the data flow; a test keeps it complete. Everything else is imported
# from its package: `from sparsetd.estimators import RALP`.
_HOMES = {
    "": (
        "logs features operators penalties solvers estimators metrics problems control selection evaluation "
        "sweeps plots"
    ),
    "logs": "Transitions prepare read",
    "logs.rules": "policy",
    "estimators": "TD ETD TDC TDRC GTD2 GQ GTD2MP ROTD ROGQ LSTD LSTDL1 LARSTD OMPTD SparseTD LinearTD ValueFunction",
    "selection": "SparseTDSelect",
    "evaluation": "evaluate compare improve sensitivity",
    "sweeps": "sweep",
    "estimators.model_file": "save load",
}
__getattr__, __dir__, __all__ = lazily(__name__, _HOMES)
