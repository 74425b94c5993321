"""Independent work spread over processes, one thread each, in an order that dependencies allow.

Two processes with a thread each share busy cores fairly; two threads that wait for each other at every matrix
product do not. Results do not depend on the number of processes: a task is the same wherever it runs.
"""

import os
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Any

from ..theory.arguments import integer

__all__ = ["Clock", "Task", "cores", "perform"]

_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


@dataclass(frozen=True)
class Task:
    """A piece of work.

    Parameters
    ----------
    name : str
        Unique.
    work : callable
        A function of a module; called with `arguments`, in this process or another one.
    arguments : tuple
        What can be sent to another process.
    after : sequence of str, optional
        Tasks that must be finished before; names that are no task's count as finished.
    seconds : float, optional
        About how long it takes: of those that can start, the one with the longest way to the end is first.
    """

    name: str
    work: Callable[..., Any]
    arguments: tuple[Any, ...] = ()
    after: Sequence[str] = ()
    seconds: float = 1.0


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def perform(tasks: Sequence[Task], jobs: int, reached: Callable[[Task, Any, float], None]) -> None:
    """Do all tasks.

    With one of the `jobs`, which are processes, all is done in this one. `reached` is called in this process
    with each task, what it returned and the seconds it took, as it is finished. If a process ends abruptly,
    what was running is begun again, once, with a `RuntimeWarning`.

    Raises
    ------
    ValueError
        If `jobs` is not a positive integer, or tasks wait for each other.
    OSError
        If a process ends abruptly a second time.
    Exception
        Whatever a task raises; what is running then is waited for, and nothing more is started.
    """
    jobs = integer("jobs", jobs, 1)
    weight = _ways(tasks)
    waiting = sorted(tasks, key=lambda task: -weight[task.name])
    open_names = {task.name for task in tasks}

    def next_ready() -> Task | None:
        for task in waiting:
            if not open_names.intersection(task.after):
                waiting.remove(task)
                return task
        return None

    def finish(task: Task, found: tuple[Any, float]) -> None:
        open_names.discard(task.name)
        reached(task, *found)

    if jobs == 1:
        while (task := next_ready()) is not None:
            finish(task, _timed(task.work, task.arguments))
        return
    begun: dict[str, Task] = {}
    for last in (False, True):
        try:
            return _together(min(jobs, max(len(tasks), 1)), next_ready, finish, begun)
        except BrokenProcessPool as error:
            said = f"a process was killed or ran out of memory; begun were {', '.join(begun)}"
            if last:
                raise OSError(f"{said}. It was the second time.") from error
            warnings.warn(f"{said}. They are begun again.", RuntimeWarning, stacklevel=2)
            waiting[:0] = begun.values()
            begun.clear()


def _together(
    jobs: int,
    next_ready: Callable[[], Task | None],
    finish: Callable[[Task, tuple[Any, float]], None],
    begun: dict[str, Task],
) -> None:
    """Do all that is ready in so many processes; `begun` holds what is not finished."""
    with _pool(jobs) as pool:
        running: dict[Future[Any], Task] = {}
        while True:
            while len(running) < jobs and (task := next_ready()) is not None:
                begun[task.name] = task
                running[pool.submit(_timed, task.work, task.arguments)] = task
            if not running:
                return
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                found = future.result()
                finished = running.pop(future)
                del begun[finished.name]
                finish(finished, found)


def _ways(tasks: Sequence[Task]) -> dict[str, float]:
    """Return the seconds from the start of each task to the end of the last that waits for it."""
    followers = {task.name: [one for one in tasks if task.name in one.after] for task in tasks}
    found: dict[str, float] = {}

    def way(task: Task, above: tuple[str, ...] = ()) -> float:
        if task.name in above:
            raise ValueError(f"`tasks` must not wait for each other; got the circle {above}.")
        if task.name not in found:
            later = [way(one, (*above, task.name)) for one in followers[task.name]]
            found[task.name] = task.seconds + max(later, default=0.0)
        return found[task.name]

    for task in tasks:
        way(task)
    return found


def _timed(work: Callable[..., Any], arguments: tuple[Any, ...]) -> tuple[Any, float]:
    start = time.perf_counter()
    return work(*arguments), time.perf_counter() - start


@contextmanager
def _pool(jobs: int) -> Iterator[ProcessPoolExecutor]:
    # Fresh interpreters: a forked one may inherit locks of torch's or Numba's threads. Libraries read the
    # number of threads when they are loaded, so it has to be in the environment that the processes get.
    before = {name: os.environ.get(name) for name in _THREADS}
    os.environ.update(dict.fromkeys(_THREADS, "1"))
    pool = ProcessPoolExecutor(jobs, get_context("spawn"), _alone, (os.getpid(),))
    try:
        yield pool
    except BaseException:
        pool.shutdown(wait=True, cancel_futures=True)
        raise
    finally:
        pool.shutdown()
        for name in _THREADS:
            os.environ.pop(name, None)
        os.environ.update({name: value for name, value in before.items() if value is not None})


def _alone(parent: int) -> None:
    """End this process when the one that made it has gone, even if it was killed."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1.0)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


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
