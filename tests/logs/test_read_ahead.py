"""Batches read by a second thread: the same ones, one ahead, and nothing left behind."""

from __future__ import annotations

import _thread
import signal
import threading
import time

import pytest

from sparsetd.logs.reading import read_ahead


def readers():
    return [thread for thread in threading.enumerate() if thread.name.startswith("read-ahead")]


@pytest.mark.parametrize("n", [0, 1, 5])
def test_the_batches_are_the_same(n):
    assert list(read_ahead({"number": i} for i in range(n))) == [{"number": i} for i in range(n)]
    assert not readers()


def test_exactly_one_batch_is_read_ahead():
    begun = [threading.Event() for _ in range(6)]

    def source():
        for i in range(6):
            begun[i].set()
            yield i

    batches = read_ahead(source())
    for i in range(4):
        assert next(batches) == i
        assert begun[i + 1].wait(30)  # read although nobody has asked for it
        time.sleep(0.02)
        assert not begun[i + 2].is_set()
    batches.close()


def test_an_error_comes_after_the_batches_before_it():
    def source():
        yield 0
        yield 1
        raise ValueError("row 7 is torn")

    batches = read_ahead(source())
    assert [next(batches), next(batches)] == [0, 1]
    with pytest.raises(ValueError, match=r"^row 7 is torn$"):
        next(batches)
    assert not readers()


def test_a_caller_that_stops_early_leaves_no_thread():
    batches = read_ahead(iter(range(10)))
    assert next(batches) == 0
    assert readers()
    batches.close()
    assert not readers()


@pytest.fixture
def listening():
    """Ctrl-C as usual: whoever started the tests in the background has switched it off."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("listening")
def test_ctrl_c_while_waiting_is_heard():
    waiting = threading.Event()

    def source():
        yield 0
        waiting.wait(30)
        time.sleep(0.1)
        _thread.interrupt_main()
        time.sleep(0.1)
        yield 1

    batches = read_ahead(source())
    assert next(batches) == 0
    waiting.set()
    with pytest.raises(KeyboardInterrupt):
        next(batches)
    assert not readers()
