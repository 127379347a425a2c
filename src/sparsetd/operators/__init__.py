"""Which linear system: every operator is a function that returns its `Table`."""

from __future__ import annotations

from collections.abc import Callable

from sparsetd.operators.etd import etd
from sparsetd.operators.gq import gq
from sparsetd.operators.gtd import gtd
from sparsetd.operators.gtd2 import gtd2
from sparsetd.operators.htd import htd
from sparsetd.operators.td import td
from sparsetd.operators.tdc import tdc
from sparsetd.operators.tdrc import tdrc
from sparsetd.system import Table

OPERATORS: dict[str, Callable[..., Table]] = {
    "td": td,
    "etd": etd,
    "tdc": tdc,
    "tdrc": tdrc,
    "gtd": gtd,
    "gtd2": gtd2,
    "htd": htd,
    "gq": gq,
}

__all__ = ["OPERATORS", "etd", "gq", "gtd", "gtd2", "htd", "td", "tdc", "tdrc"]
