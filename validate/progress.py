"""How far a long run is, and how long it may still take."""

import time
from collections.abc import Callable, Sequence

from .tasks import Task

__all__ = ["Clock"]


class Clock:
    """Tells of a run of many tasks, each line with its time, the count and an estimate of what is left.

    Parameters
    ----------
    tasks : sequence of Task
        With the seconds that each is expected to take on one core.
    tell : callable
        Called with each line.

    Notes
    -----
    What is left is scaled by how long the finished ones took against what was expected of them. Nothing is
    said of it before a tenth of all is finished.
    """

    def __init__(self, tasks: Sequence[Task], tell: Callable[[str], None]) -> None:
        self._left = {task.name: task.seconds for task in tasks}
        self._whole = sum(self._left.values())
        self._count, self._tell = len(self._left), tell
        self._start = time.perf_counter()

    @property
    def elapsed(self) -> float:
        """Seconds since the run began."""
        return time.perf_counter() - self._start

    def left(self) -> float | None:
        """Return an estimate of the seconds left, or None."""
        ahead = sum(self._left.values())
        done = self._whole - ahead
        return None if done < 0.1 * self._whole or not done else self.elapsed * ahead / done

    def finished(self, task: Task, line: str) -> None:
        """Note that a task is finished, and tell a line."""
        self._left.pop(task.name, None)
        left = self.left()
        estimate = "" if left is None or not self._left else f", about {_duration(left)} left"
        done = self._count - len(self._left)
        self._tell(f"[{self.elapsed:5.0f} s, {done} of {self._count}{estimate}] {line}")


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{max(round(seconds), 1)} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
