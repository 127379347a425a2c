"""What type checkers see of `sparsetd.selection`, and where its public names are found when they are first used."""

from sparsetd.selection.intervals import Interval as Interval
from sparsetd.selection.intervals import Summary as Summary
from sparsetd.selection.intervals import summary as summary
from sparsetd.selection.intervals import value_interval as value_interval
from sparsetd.selection.path import SparsePath as SparsePath
from sparsetd.selection.path import rho_max as rho_max
from sparsetd.selection.path import sparse_td_path as sparse_td_path
from sparsetd.selection.sparse_td_select import SparseTDSelect as SparseTDSelect
from sparsetd.selection.stability import StabilitySelection as StabilitySelection
from sparsetd.selection.stability import stability_selection as stability_selection
