"""What type checkers see of `sparsetd`, and where it finds each of its public names when they are first used."""

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

__version__: str
