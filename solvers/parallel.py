"""Threads that share compiled work, from one pool for the whole process.

Kernels release the interpreter's lock, so plain threads do. ``numba.prange`` takes four times as long to
compile, and its threads wait for each other where other programs use the processors too. The caller's thread
works too, the pool has one thread less than the process has cores, and work that shares work itself does so
in its own thread.
"""

import itertools
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, TypeVar

import numba
import numpy as np

from ..theory.compile.interrupts import Cancelled, worker

__all__ = ["parallel_concat", "parallel_map", "single_blas_thread"]

T = TypeVar("T")
# Rows differ in cost: this many pieces for every thread let those share the rest that have finished.
_PIECES = 8
# Seconds that other threads have to leave their work after an interrupt, before it is raised.
_ENDING = 0.2


def _threads() -> int:
    """Return the number of Numba's threads, at most one a core that this process may use.

    They are not started, which would also change PyTorch's.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    known: Any = numba  # has no type hints
    try:
        known.threading_layer()
    except ValueError:  # not started
        return min(int(known.config.NUMBA_NUM_THREADS), cores)
    return min(int(known.get_num_threads()), cores)


@lru_cache(1)
def _pool(size: int) -> ThreadPoolExecutor:
    """Return the process's pool of `size` threads."""
    return ThreadPoolExecutor(size, "superposition")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)  # a child has none of the threads


def parallel_map(work: Callable[[int], T], count: int, workers: int | None = None) -> list[T]:
    """Return [work(0), ..., work(count - 1)], by at most `workers` threads (None: one for each core).

    If calls raise errors, that of the smallest index is raised. After an error or an interrupt the other
    threads start no further call, and kernels that call `check_interrupt` end early.
    """
    most = _threads()
    threads = min(workers or most, most, count)
    if threads <= 1 or worker.is_stopped is not None:
        return [work(at) for at in range(count)]
    results: dict[int, T] = {}
    errors: dict[int, BaseException] = {}
    counter = itertools.count()  # `next` of it is one step of the interpreter
    stop = threading.Event()

    def run() -> None:
        """Call `work` with the next index, until none is left, an error occurs or the caller stops."""
        worker.is_stopped = stop.is_set
        try:
            while not stop.is_set() and (at := next(counter)) < count:
                try:
                    results[at] = work(at)
                except Cancelled:
                    return
                except BaseException as error:  # raised again below, in the caller's thread
                    errors[at] = error
                    stop.set()
        finally:
            worker.is_stopped = None

    others = [_pool(most - 1).submit(run) for _ in range(threads - 1)]
    try:
        run()
        for other in others:
            other.cancel()  # what has not begun finds nothing left to do
        is_interrupted = not all(isinstance(error, Exception) for error in errors.values())
        wait(others, _ENDING if is_interrupted else None)
    except BaseException:  # an interrupt, between two pieces of work
        stop.set()
        raise
    if errors:
        raise errors[min(errors)]
    return [results[at] for at in range(count)]


def parallel_concat(
    work: Callable[[slice], tuple[Any, ...]], count: int, workers: int | None = None, *, least: int = 1
) -> tuple[Any, ...]:
    """Return the arrays of work(slice), concatenated over slices that cover range(count), by threads.

    work(slice) returns a tuple of arrays with a row for each index in the slice. Slices have at least `least`
    indices; there are at most `workers` threads (None: one for each core).
    """
    threads = workers or _threads()
    most = min(_PIECES * threads, count // least)
    if threads == 1 or most <= 1:
        return work(slice(0, count))
    edges = np.linspace(0, count, most + 1).astype(int)
    pieces = parallel_map(lambda at: work(slice(edges[at], edges[at + 1])), most, workers)
    return tuple(map(np.concatenate, zip(*pieces, strict=True)))


class _BlasLimit:
    """State of `single_blas_thread`: the number of callers inside, and the limit that the last one undoes."""

    def __init__(self) -> None:
        self.lock, self.callers = threading.Lock(), 0
        self.limit: Any = None


_blas = _BlasLimit()


@lru_cache(1)
def _blas_controller() -> Any:
    """Return threadpoolctl's controller of all loaded BLAS libraries."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="blas")


@contextmanager
def single_blas_thread() -> Iterator[None]:
    """Limit BLAS to one thread inside this context, as suits the small matrices of toy models.

    More BLAS threads would mostly wait for each other and for those of this module, and the rounding of sums
    would depend on their number.
    """
    with _blas.lock:
        if not _blas.callers:
            _blas.limit = _blas_controller().limit(limits=1)
        _blas.callers += 1
    try:
        yield
    finally:
        with _blas.lock:
            _blas.callers -= 1
            if not _blas.callers:
                _blas.limit.restore_original_limits()
