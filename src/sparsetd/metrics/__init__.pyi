"""What type checkers see of `sparsetd.metrics`, and where its public names are found when they are first used."""

from sparsetd.metrics.errors import exact_mspbe as exact_mspbe
from sparsetd.metrics.errors import exact_neu as exact_neu
from sparsetd.metrics.errors import exact_rmspbe as exact_rmspbe
from sparsetd.metrics.errors import mspbe as mspbe
from sparsetd.metrics.errors import neu as neu
from sparsetd.metrics.errors import rmspbe as rmspbe
from sparsetd.metrics.errors import td_errors as td_errors
from sparsetd.metrics.errors import value_error as value_error
