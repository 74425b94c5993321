"""A limit in seconds for sums over pairs of neurons, which stop early if they would take longer."""

from collections.abc import Callable
from math import inf
from typing import TypeVar

import numpy as np

from ...deadline import work_seconds
from ...parallel import parallel_map
from ...progress import status, time_left

__all__ = ["OutOfTime", "Stopwatch"]

T = TypeVar("T")
# By how much the time of all parts, estimated from so many of a kind, must exceed the limit to end the work.
_MARGINS = ((8, 1.25), (2, 5.0))
# Parts from which on their time is estimated where there is no limit.
_MANY = 200


class OutOfTime(Exception):
    """Work would exceed its limit; `seconds` estimates what all of it takes."""

    def __init__(self, seconds: float):
        super().__init__(f"about {seconds:.3g} seconds are needed, more than `time_limit`")
        self.seconds = seconds


class Stopwatch:
    """Timer of work in parts of several kinds, which raises `OutOfTime` if all would exceed a limit.

    The status line shows the remaining time if this is over a minute. Compilation is not counted, nor is the
    first part of each kind.

    Parameters
    ----------
    counts : int
        How many parts there are of each kind, in the order in which these are done.
    limit : float, optional
        Seconds; no limit by default.
    """

    def __init__(self, *counts: int, limit: float = inf):
        self._limit, self._left = limit, list(counts)
        self._spent, self._rates = 0.0, [0.0] * len(counts)

    def parallel_map(self, kind: int, work: Callable[[int], T], workers: int | None = None) -> list[T]:
        """Return [work(0), work(1), …] of all parts of one kind of work, computed by `workers` threads.

        `kind` is the index of the kind in `counts`, where counts[kind] is the number of parts. All threads
        work if `workers` is None. Raises OutOfTime as soon as the estimated time of all parts of all kinds
        exceeds the limit.
        """
        count = self._left[kind]
        if self._limit == inf and count < _MANY:
            return parallel_map(work, count, workers)
        # In random order: the first parts then tell how long all of them take.
        order = np.random.default_rng(0).permutation(count)
        spent_before, begun, done = self._spent, inf, 0

        def timed(at: int) -> T:
            """Return the result of the part in place `at` of the random order, and update the seconds."""
            nonlocal begun, done
            start = work_seconds()
            value = work(int(order[at]))
            now = work_seconds()
            begun = min(begun, now)  # the first part is not counted: it fills caches
            self._spent = spent_before + now - begun
            self._rates[kind] = (now - begun) / done if done else now - start
            done += 1
            self._left[kind] = count - done
            self._check(done)
            return value

        value = parallel_map(timed, count, workers)
        return [value[k] for k in np.argsort(order)]

    def _check(self, done: int) -> None:
        """Raise `OutOfTime` if the time spent, or that of all parts as projected, exceeds the limit.

        `done` is how many parts of this kind are done.
        """
        left = sum(rate * count for rate, count in zip(self._rates, self._left, strict=True))
        projected = self._spent + left
        hopeless = any(done > parts and projected > margin * self._limit for parts, margin in _MARGINS)
        if self._spent > self._limit or hopeless:
            raise OutOfTime(projected)
        if done > _MARGINS[0][0] and (remaining := time_left(left, 1, 2)):
            status(f"sums over pairs of neurons{remaining}")
