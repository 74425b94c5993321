"""How far a long run is, and how long it may still take."""

import time
from collections.abc import Callable, Mapping

__all__ = ["Clock"]


class Clock:
    """Tells of a run with several parts, each line with its time, its part and an estimate of what is left.

    Parameters
    ----------
    parts : mapping from str to float or None
        The parts in their order with the seconds that each took in an earlier run, None if there was none.
    tell : callable
        Called with each line.

    Notes
    -----
    A part that never ran is taken to be as long as the mean of the others. As parts differ a lot, nothing is
    said until half of them are known.
    """

    def __init__(self, parts: Mapping[str, float | None], tell: Callable[[str], None]) -> None:
        self._seconds = dict(parts)
        self._names = list(parts)
        self._tell = tell
        self._start = self._begun = time.perf_counter()
        self._current = 0

    @property
    def elapsed(self) -> float:
        """Seconds since the run began."""
        return time.perf_counter() - self._start

    @property
    def in_part(self) -> float:
        """Seconds since the current part began."""
        return time.perf_counter() - self._begun

    def begin(self, name: str) -> None:
        """Go on to a part."""
        self._current = self._names.index(name)
        self._begun = time.perf_counter()

    def end(self, seconds: float) -> None:
        """Finish the current part, which took so many seconds, now or in an earlier run."""
        self._seconds[self._names[self._current]] = seconds

    def left(self) -> float | None:
        """Return an estimate of the seconds left, or None."""
        known = [seconds for seconds in self._seconds.values() if seconds is not None]
        if 2 * len(known) < len(self._seconds):
            return None
        mean = sum(known) / len(known)
        ahead = [self._seconds[name] for name in self._names[self._current :]]
        now, *later = [mean if seconds is None else seconds for seconds in ahead]
        return max(now - self.in_part, 0.0) + sum(later)

    def __call__(self, line: str) -> None:
        """Tell a line."""
        left = self.left()
        estimate = "" if left is None else f", about {_duration(left)} left"
        self._tell(
            f"[{self.elapsed:5.0f} s, part {self._current + 1} of {len(self._names)}{estimate}] {line}"
        )


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{max(round(seconds), 1)} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
