"""A deadline that compiling does not bring nearer: budgets of seconds are for the work itself."""

import threading
import time
from math import inf
from typing import Any

from numba.core import event

from ..theory import validation

__all__ = ["Deadline", "DeadlineOver", "deadline_of", "work_seconds"]


class DeadlineOver(Exception):
    """Raised inside a computation whose deadline is over; its caller returns what it has by then."""


class _CompileClock(event.Listener):
    """Sums the seconds in which Numba compiles kernels or loads compiled ones, in whatever thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._depth, self._begun, self._total = 0, 0.0, 0.0

    def on_start(self, event: Any) -> None:
        """Start at the outermost kernel: those that it calls are compiled within."""
        with self._lock:
            self._depth += 1
            if self._depth == 1:
                self._begun = time.perf_counter()

    def on_end(self, event: Any) -> None:
        """Stop where the outermost kernel is ready."""
        with self._lock:
            self._depth -= 1
            if self._depth == 0:
                self._total += time.perf_counter() - self._begun

    def seconds(self) -> float:
        """Return the seconds so far, with those of a kernel that is being compiled."""
        with self._lock:
            running = time.perf_counter() - self._begun if self._depth else 0.0
            return self._total + running


_compile_clock = _CompileClock()
_register: Any = event.register  # has no type hints
_register("numba:compiler_lock", _compile_clock)


def work_seconds() -> float:
    """Return a clock that stands still while kernels are compiled or loaded.

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
        self._end = work_seconds() + seconds

    def seconds_left(self) -> float:
        """Return the seconds that are left, 0 where it is over."""
        return max(self._end - work_seconds(), 0.0)

    def is_over(self) -> bool:
        """Return whether no time is left."""
        return self._end < inf and work_seconds() >= self._end

    def is_limit(self) -> bool:
        """Return whether there is a limit at all."""
        return self._end < inf

    def part(self, share: float) -> "Deadline":
        """Return the end of a share of the time that is left."""
        return Deadline(share * self.seconds_left()) if self._end < inf else Deadline()

    def check(self) -> None:
        """Raise `DeadlineOver` where no time is left."""
        if self.is_over():
            raise DeadlineOver


def deadline_of(seconds: float | Deadline | None) -> Deadline:
    """Return the deadline that an argument `seconds` means.

    >>> deadline_of(None).is_limit(), deadline_of(0.0).is_over()
    (False, True)
    """
    if isinstance(seconds, Deadline):
        return seconds
    return Deadline() if seconds is None else Deadline(validation.number("seconds", seconds, 0.0))
