"""Four lanes compute what an array of four numbers computes."""

from __future__ import annotations

import operator

import numpy as np
import pytest
from numba import njit

from sparsetd.solvers.compiled.intrinsics import borrow, lanes, load, store, within

A = np.array([1.5, -2.5, 0.0, 0.1])
B = np.array([2.0, 3.0, -4.0, 0.05])
BINARY = [operator.add, operator.sub, operator.mul, operator.truediv, np.minimum, np.maximum, np.copysign]
UNARY = [operator.neg, np.abs, np.ceil, np.sign]


def compute(function, *rows):
    """function(*rows) by way of registers; a number among the rows stays one."""
    numbers = [row for row in rows if isinstance(row, float)]
    array = np.stack([row for row in rows if not isinstance(row, float)] + [np.zeros(4)])
    out = len(array) - 1

    @njit
    def one(array):
        store(array, out, 0, function(load(array, 0, 0)))

    @njit
    def two(array):
        store(array, out, 0, function(load(array, 0, 0), load(array, 1, 0)))

    @njit
    def mixed(array, number):
        store(array, out, 0, function(number, load(array, 0, 0)))

    (mixed if numbers else two if out == 2 else one)(array, *numbers)
    return array[out]


@pytest.mark.parametrize("function", BINARY, ids=lambda f: f.__name__)
def test_two_operands(function):
    assert np.array_equal(compute(function, A, B), function(A, B))
    assert np.array_equal(compute(function, 3.0, B), function(3.0, B))


@pytest.mark.parametrize("function", UNARY, ids=lambda f: f.__name__)
def test_one_operand(function):
    assert np.array_equal(compute(function, A), function(A))


def test_within_counts_the_bound_itself():
    assert np.array_equal(compute(within, A, np.array([1.5, 2.0, 0.0, -1.0])), [1.0, 0.0, 1.0, 0.0])


@pytest.mark.parametrize("kind", [np.float64, np.int32])
def test_rows_of_known_width(kind):
    @njit
    def taken(array):
        rows = borrow(array, 6)
        return rows[1, 2], rows.shape[0], rows.shape[1], rows[2][5]

    assert taken(np.arange(18, dtype=kind).reshape(3, 6)) == (8, 3, 6, 17)


def test_lanes_begin_anywhere_in_a_row():
    @njit
    def shift(array):
        store(array, 1, 2, load(array, np.uint32(0), 1) + lanes(1.0))

    array = np.arange(16.0).reshape(2, 8)
    shift(array)
    assert np.array_equal(array[1], [8.0, 9.0, 2.0, 3.0, 4.0, 5.0, 14.0, 15.0])
