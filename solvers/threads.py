"""Threads that share compiled work.

Kernels release the interpreter's lock, so plain threads do. None uses ``numba.prange``: that takes four times
as long to compile, and its threads wait for each other where other programs use the processors too.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import numba
import numpy as np

__all__ = ["each", "together"]

T = TypeVar("T")
# Rows differ in cost: this many pieces for every thread let those share the rest that have finished.
_PIECES = 8


def _threads() -> int:
    """Return Numba's number of threads, without starting them: that would change PyTorch's number, too."""
    known: Any = numba  # has no type hints
    try:
        known.threading_layer()
    except ValueError:  # not started
        return int(known.config.NUMBA_NUM_THREADS)
    return int(known.get_num_threads())


def each(work: Callable[[int], T], count: int, workers: int | None = None) -> list[T]:
    """Return [work(0), ..., work(count - 1)], by `workers` threads (Numba's number where None)."""
    threads = min(workers or _threads(), count)
    if threads <= 1:
        return [work(at) for at in range(count)]
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(work, range(count)))


def together(
    work: Callable[[slice], tuple[Any, ...]], count: int, workers: int | None = None, *, least: int = 1
) -> tuple[Any, ...]:
    """Return the arrays that `work` gives for slices of `count` rows, `least` or more each, put together."""
    most = _PIECES * (workers or _threads())
    edges = np.linspace(0, count, max(min(most, count // least), 1) + 1).astype(int)
    found = each(lambda at: work(slice(edges[at], edges[at + 1])), edges.size - 1, workers)
    return tuple(np.concatenate(parts) for parts in zip(*found, strict=True))
