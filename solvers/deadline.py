"""Deadlines for budgets of seconds, in which compiling does not count."""

import threading
import time
from math import inf
from typing import Any

from numba.core import event

from ..theory import validation

__all__ = ["Deadline", "DeadlineOver", "deadline_of", "work_seconds"]


class DeadlineOver(Exception):
    """The deadline of a computation is over; its caller returns the best result so far."""


class _CompileClock(event.Listener):
    """Sums the seconds in which Numba compiles kernels or loads compiled ones, in any thread.

    Numba passes an `event` at the start and the end of each kernel's compilation.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._depth, self._begun, self._total = 0, 0.0, 0.0

    def on_start(self, event: Any) -> None:
        """Start the clock unless it runs already: compilations may be nested. `event` is unused."""
        with self._lock:
            self._depth += 1
            if self._depth == 1:
                self._begun = time.perf_counter()

    def on_end(self, event: Any) -> None:
        """Stop the clock and count its seconds if no kernel is being compiled any more. `event` is unused."""
        with self._lock:
            self._depth -= 1
            if self._depth == 0:
                self._total += time.perf_counter() - self._begun

    def seconds(self) -> float:
        """Return the seconds spent compiling so far, including those of a kernel that is being compiled."""
        with self._lock:
            unfinished = time.perf_counter() - self._begun if self._depth else 0.0
            return self._total + unfinished


_compile_clock = _CompileClock()
_register: Any = event.register  # has no type hints
_register("numba:compiler_lock", _compile_clock)


def work_seconds() -> float:
    """Return `time.perf_counter()` minus all seconds spent so far on compiling or loading kernels.

    >>> work_seconds() <= work_seconds()
    True
    """
    return time.perf_counter() - _compile_clock.seconds()


class Deadline:
    """The end of a budget of seconds, in which compiling does not count.

    Parameters
    ----------
    seconds : float, optional
        From now on; no limit by default.

    Examples
    --------
    >>> Deadline(0.0).is_over(), Deadline().is_over()
    (True, False)
    >>> Deadline(10.0).part(0.5).seconds_left() <= 5.0
    True
    """

    def __init__(self, seconds: float = inf):
        self._end = inf if seconds == inf else work_seconds() + seconds

    def seconds_left(self) -> float:
        """Return the seconds left until the deadline: 0 if it is over, inf if there is no limit."""
        return max(self._end - work_seconds(), 0.0)

    def is_over(self) -> bool:
        """Return whether no time is left."""
        return self._end < inf and work_seconds() >= self._end

    def is_limit(self) -> bool:
        """Return whether this deadline is finite; `Deadline()` is not."""
        return self._end < inf

    def part(self, share: float) -> "Deadline":
        """Return a deadline after `share` of the seconds left; without limit if this one has none."""
        return Deadline(share * self.seconds_left()) if self._end < inf else Deadline()

    def check(self) -> None:
        """Raise `DeadlineOver` where no time is left."""
        if self.is_over():
            raise DeadlineOver


def deadline_of(seconds: float | Deadline | None) -> Deadline:
    """Return the `Deadline` so many `seconds` from now (None: no limit), or `seconds` if it is one.

    >>> deadline_of(None).is_limit(), deadline_of(0.0).is_over()
    (False, True)
    """
    if isinstance(seconds, Deadline):
        return seconds
    return Deadline() if seconds is None else Deadline(validation.number("seconds", seconds, 0.0))
