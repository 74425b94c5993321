"""Work shared by threads: one pool, never more threads than cores, nested work in the caller's thread."""

import os
import threading
import time

import pytest

from superposition.solvers import parallel
from superposition.theory.compile.interrupts import Cancelled, raise_if_interrupted


@pytest.fixture
def three(monkeypatch):
    monkeypatch.setattr(parallel, "_threads", lambda: 3)


class Watch:
    """Counts who works, and how many do so at once."""

    def __init__(self):
        self.lock, self.now, self.most, self.seen = threading.Lock(), 0, 0, set()

    def __call__(self, at):
        with self.lock:
            self.now += 1
            self.most = max(self.most, self.now)
            self.seen.add(threading.get_ident())
        time.sleep(0.002)
        with self.lock:
            self.now -= 1
        return at


def test_many_evaluations_use_the_same_threads(three):
    watch = Watch()
    for _ in range(20):
        assert parallel.parallel_map(watch, 9) == list(range(9))
    assert len(watch.seen) <= 3
    assert watch.most <= 3
    assert threading.get_ident() in watch.seen


def test_of_several_errors_that_of_the_smallest_index_is_raised(three):
    last_has_begun = threading.Event()

    def work(at):
        if at == 2:
            last_has_begun.set()
        if at != 1:
            last_has_begun.wait(5.0)
            raise ValueError(f"error of {at}")

    for _ in range(20):
        last_has_begun.clear()
        with pytest.raises(ValueError, match="error of 0"):
            parallel.parallel_map(work, 3)


def test_nested_work_stays_in_its_thread(three):
    watch, homes = Watch(), []

    def outer(at):
        mine = threading.get_ident()

        def inner(other):
            homes.append(threading.get_ident() == mine)
            return watch(other)

        return sum(parallel.parallel_map(inner, 4, 3))

    before = threading.active_count()
    assert parallel.parallel_map(outer, 6) == [6] * 6
    assert all(homes)
    assert len(homes) == 24
    assert watch.most <= 3
    assert threading.active_count() <= before + 2
    parallel.parallel_map(watch, 6)  # and after nested work it is shared again
    assert watch.most > 1


def test_no_more_workers_than_cores_whatever_is_wanted(monkeypatch):
    monkeypatch.setattr(parallel.numba.config, "NUMBA_NUM_THREADS", 64)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    watch = Watch()
    parallel.parallel_map(watch, 40, 40)
    assert len(watch.seen) <= cores


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # forks beside threads, on purpose
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_process_has_threads_of_its_own(three):
    parallel.parallel_map(lambda at: at, 6)
    child = os.fork()
    if not child:  # a lost pool would wait for ever
        os._exit(0 if parallel.parallel_map(lambda at: at, 6) == list(range(6)) else 1)
    for _ in range(6000):
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            break
        time.sleep(0.01)
    else:
        os.kill(child, 9)
        os.waitpid(child, 0)
        pytest.fail("the child hangs")
    assert os.waitstatus_to_exitcode(status) == 0


@pytest.mark.parametrize("error", [KeyError("first"), KeyboardInterrupt()])
def test_other_threads_leave_their_work_after_an_error_or_an_interrupt(three, error):
    begun, ended = threading.Event(), threading.Event()

    def work(_):
        if threading.current_thread() is threading.main_thread():
            assert begun.wait(60)
            raise error
        begun.set()
        try:
            for _ in range(6000):
                raise_if_interrupted()
                time.sleep(0.01)
        except Cancelled:
            ended.set()
            raise

    with pytest.raises(type(error)):
        parallel.parallel_map(work, 50)
    assert ended.wait(60)
    assert parallel.parallel_map(lambda at: at, 5) == [0, 1, 2, 3, 4]


def blas_threads():
    return {one["num_threads"] for one in parallel._blas_controller().info()}


def test_blas_has_one_thread_for_as_long_as_anyone_needs_that():
    with parallel._blas_controller().limit(limits=2):
        before = blas_threads()
        with parallel.single_blas_thread():
            assert blas_threads() == {1}
            worker = threading.Thread(target=parallel.single_blas_thread()(lambda: None))
            worker.start()
            worker.join()
            assert blas_threads() == {1}
        assert blas_threads() == before
