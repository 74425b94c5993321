"""Ctrl-C while a kernel runs or is compiled: the handler's exception, at once, and the next call is right."""

import os
import signal
import threading
import time

import numba
import numpy as np
import pytest

from superposition.theory.compile import interrupts
from superposition.theory.compile.kernels import check_interrupt, inner, kernel

pytestmark = pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="Python itself answers")


@inner
def work(x, looks):
    total = 0.0
    for i in range(20_000):
        check_interrupt(looks and i == 0)
        total += np.sin(x * i)
    return total


@kernel
def long(x, count, looks):
    """Return two arrays after so many times .2 milliseconds or more."""
    one, two = np.empty(2), np.empty(3)
    for k in range(count):
        one[0] = work(x + k, looks)
    one[:], two[:] = one[0], x
    return one, two


def press(seconds, call, number=signal.SIGINT):
    """Return what a call returns during which this process gets a signal."""
    timer = threading.Timer(seconds, os.kill, (os.getpid(), number))
    timer.start()
    result = call()
    timer.join()
    time.sleep(0.01)
    return result


@pytest.mark.parametrize(("looks", "count"), [(True, 10**6), (False, 200)])
def test_a_kernel_that_is_interrupted_raises_that(looks, count):
    before = long(0.5, 1, looks)
    for seconds in (0.001, 0.005, 0.01):
        with pytest.raises(KeyboardInterrupt):  # a tuple of arrays was a crash, or a SystemError
            press(seconds, lambda: long(0.5, count, looks))
        after = long(0.5, 1, looks)
        assert [x.tobytes() for x in after] == [x.tobytes() for x in before]


class Late(Exception):
    pass


@pytest.mark.parametrize("raises", [True, False])
def test_the_exception_is_the_handlers(raises):
    seen = []

    def ring(*_):
        seen.append(1)
        if raises:
            raise Late

    before = signal.signal(signal.SIGALRM, ring)
    wanted = long(0.5, 100, True)
    try:
        if raises:
            with pytest.raises(Late):
                press(0.01, lambda: long(0.5, 10**6, True), signal.SIGALRM)
        else:
            found = press(0.005, lambda: long(0.5, 100, True), signal.SIGALRM)
            assert [x.tobytes() for x in found] == [x.tobytes() for x in wanted]
    finally:
        signal.signal(signal.SIGALRM, before)
    assert seen


def test_a_thread_that_nobody_waits_for_leaves_its_kernel():
    long(0.5, 1, True)
    stop, ended = threading.Event(), []

    def run():
        interrupts.worker.is_stopped = stop.is_set
        try:
            long(0.5, 10**6, True)
        except interrupts.Cancelled as error:
            ended.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    time.sleep(0.01)
    assert thread.is_alive()
    stop.set()
    thread.join(60)
    assert len(ended) == 1


def test_work_apart_goes_on_after_an_interrupt():
    ended, stop = threading.Event(), threading.Event()

    def compile_():
        stop.wait(60)
        ended.set()
        return 5

    with pytest.raises(KeyboardInterrupt):
        press(0.02, lambda: interrupts.call_apart(compile_))
    assert not ended.is_set()
    stop.set()
    assert ended.wait(60)
    assert interrupts.call_apart(compile_) == 5
    with pytest.raises(KeyError, match="lost"):
        interrupts.call_apart(lambda: {}["lost"])


def test_an_import_goes_on_after_an_interrupt(tmp_path, monkeypatch):
    begun, stop = threading.Event(), threading.Event()
    monkeypatch.setattr(interrupts, "of_this_test", (begun, stop), raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "imported_once.py").write_text(
        "from superposition.theory.compile.interrupts import of_this_test as events\n"
        "assert not events[0].is_set(), 'imported a second time'\n"
        "events[0].set()\n"
        "events[1].wait(60)\n"
        "number = 5\n"
    )
    with pytest.raises(KeyboardInterrupt):
        press(0.2, lambda: interrupts.import_apart("imported_once"))
    threading.Timer(0.1, stop.set).start()
    assert interrupts.import_apart("imported_once").number == 5
    assert begun.is_set()


def test_a_kernel_that_is_interrupted_while_it_is_compiled_is_compiled_once():
    compiled = kernel(lambda x: np.cumsum(x * 2.0))
    with pytest.raises(KeyboardInterrupt):
        press(0.01, lambda: compiled(np.ones(3)))
    np.testing.assert_array_equal(compiled(np.ones(3)), [2.0, 4.0, 6.0])
    assert len(compiled.overloads) == 1


def test_modules_that_are_being_imported_are_seen(tmp_path, monkeypatch):
    (tmp_path / "asks.py").write_text(
        "from superposition.theory.compile.interrupts import is_importing\nanswer = is_importing()\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert not interrupts.is_importing()
    import asks

    assert asks.answer
