"""Independent work spread over processes, one thread each, in an order that dependencies allow.

Two processes with a thread each share busy cores fairly; two threads that wait for each other at every matrix
product do not. Results do not depend on the number of processes: a task is the same wherever it runs.
"""

import os
import pickle
import re
import signal
import threading
import time
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, Executor, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Any

from ...theory.annotations import as_annotated
from ...theory.validation import integer, short_repr

__all__ = [
    "Pool",
    "ProgressClock",
    "Task",
    "available_cores",
    "dask_pool",
    "dispatch",
    "inline_executor",
    "process_pool",
    "run_tasks",
]

_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")

# Seconds that processes have after an interrupt, before they are ended.
_LEAVE = 3.0

# Gives what does the tasks, and a function that tells how many it takes at a time.
Pool = Callable[[], AbstractContextManager[tuple[Executor, Callable[[], int]]]]


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
        About how long it takes: of the tasks that can start, the one with the longest chain of tasks after it
        is first.
    """

    name: str
    work: Callable[..., Any]
    arguments: tuple[Any, ...] = ()
    after: Sequence[str] = ()
    seconds: float = 1.0


def available_cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@as_annotated
def run_tasks(
    tasks: Collection[Task],
    jobs: int,
    reached: Callable[[Task, Any, float], str | None],
    pool: Pool | None = None,
    tell: Callable[[str], None] = lambda line: None,
) -> None:
    """Do all tasks.

    With one of the `jobs`, which are processes, all is done in this one. `reached` is called in this process
    with each task, what it returned and the seconds it took, as it is finished; what it says of that is told,
    with the time left. If a process ends abruptly, what was running is begun again, once, with a
    `RuntimeWarning`. A `pool` does the work in place of processes.

    Raises
    ------
    ValueError
        If `jobs` is not a positive integer, or tasks wait for each other.
    OSError
        If the process of a task ends abruptly a second time.
    Exception
        Whatever a task raises; what is running then is waited for, and nothing more is started.
    """
    jobs = integer("jobs", jobs, 1)
    queue, clock = _Queue(tasks), ProgressClock(tasks, tell)

    def finish(task: Task, found: Any, seconds: float) -> None:
        queue.finished(task.name)
        clock.finished(task, reached(task, found, seconds))

    local = process_pool(min(jobs, len(tasks))) if jobs > 1 else inline_executor
    dispatch(lambda _: queue.following(), finish, pool or local)


class _Queue:
    """What is to be done, the longest way to the end first, and not before what it waits for."""

    def __init__(self, tasks: Collection[Task]) -> None:
        weight = _longest_paths(tasks)
        self._waiting = sorted(tasks, key=lambda task: -weight[task.name])
        self._open = {task.name for task in tasks}

    def following(self) -> Task | None:
        for task in self._waiting:
            if not self._open.intersection(task.after):
                self._waiting.remove(task)
                return task
        return None

    def finished(self, name: str) -> None:
        self._open.discard(name)


class WorkerLost(Exception):
    """A process ended before its task did."""


@as_annotated
def dispatch(
    following: Callable[[int], Task | None], finish: Callable[[Task, Any, float], None], pool: Pool
) -> None:
    """Do the tasks that are given one after the other, many at a time.

    Parameters
    ----------
    following : callable
        Is told how many run at a time, and returns a task that can begin; None if there is none now.
    finish : callable
        Gets each task in this process, what it returned and the seconds it took. There may be more to
        do after it.
    pool : callable
        `inline_executor`, or what `process_pool` or `dask_pool` returns.

    Raises
    ------
    OSError
        If the process of a task ends abruptly a second time.
    Exception
        Whatever a task raises.
    """
    again: list[Task] = []
    before: set[str] = set()
    while True:
        running: dict[Future[Any], Task] = {}
        try:
            with pool() as (executor, size):
                while True:
                    while len(running) < size():
                        task = again.pop(0) if again else following(size())
                        if task is None:
                            break
                        running[executor.submit(_call_timed, task.work, task.arguments)] = task
                    if not running:
                        return
                    # Not for ever: a cluster may have grown.
                    for future in wait(running, 5.0, return_when=FIRST_COMPLETED).done:
                        found, seconds = future.result()
                        finish(running.pop(future), found, seconds)
        except WorkerLost as error:
            begun = [task.name for task in running.values()]
            said = f"{error}; begun were {', '.join(begun)}"
            if before.intersection(begun):
                raise OSError(f"{said}. It was the second time.") from error
            warnings.warn(f"{said}. They are begun again.", RuntimeWarning, stacklevel=2)
            before.update(begun)
            again += running.values()


def _longest_paths(tasks: Collection[Task]) -> dict[str, float]:
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


def _call_timed(work: Callable[..., Any], arguments: tuple[Any, ...]) -> tuple[Any, float]:
    start = time.perf_counter()
    return work(*arguments), time.perf_counter() - start


class _InlineExecutor(Executor):
    """Does each task at once, in this process."""

    def submit(self, work: Callable[..., Any], /, *given: Any, **named: Any) -> Future[Any]:
        done: Future[Any] = Future()
        done.set_result(work(*given, **named))
        return done


@contextmanager
def inline_executor() -> Iterator[tuple[Executor, Callable[[], int]]]:
    """Do tasks one by one in this process."""
    yield _InlineExecutor(), lambda: 1


class _Interrupt:
    """Ctrl-C in a process of `process_pool`: raised while a task is done, else noted for the next one."""

    in_task = False
    noted = False

    def __call__(self, *_: Any) -> None:
        self.noted = True
        if self.in_task:
            raise KeyboardInterrupt


_interrupt = _Interrupt()


def _unpickle_and_call(call: bytes) -> Any:
    """Do a task in a process of `process_pool`; Ctrl-C ends it, and the import of what it needs before."""
    try:
        _interrupt.in_task = True
        if _interrupt.noted:
            raise KeyboardInterrupt
        work, arguments, named = pickle.loads(call)
        return work(*arguments, **named)
    finally:
        _interrupt.in_task = False


class _Processes(ProcessPoolExecutor):
    """Processes that start with Ctrl-C blocked, which a terminal sends to all of them (`_start_worker`)."""

    def __init__(self, *settings: Any) -> None:
        super().__init__(*settings)
        self._unfinished: set[Future[Any]] = set()

    def submit(self, work: Callable[..., Any], /, *arguments: Any, **named: Any) -> Future[Any]:
        """Submit a task; a process that is started for it inherits the mask of signals."""
        call = pickle.dumps((work, arguments, named))
        has_mask = hasattr(signal, "pthread_sigmask")  # not on Windows
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT}) if has_mask else None
        try:
            future = super().submit(_unpickle_and_call, call)
        finally:
            if mask is not None:
                signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        self._unfinished.add(future)
        future.add_done_callback(self._unfinished.discard)
        return future

    def leave(self) -> None:
        """Give the tasks some seconds to end what they do, as a checkpoint; then end the processes."""
        running: Any = list((getattr(self, "_processes", None) or {}).values())
        manager: Any = getattr(self, "_executor_manager_thread", None)
        self.shutdown(wait=False, cancel_futures=True)
        wait(list(self._unfinished), _LEAVE)
        for (
            process
        ) in running:  # those that have nothing left to do, too: Python takes a second to clear away
            process.terminate()
        if manager is not None:  # it holds the queues, which are to be cleared away
            manager.join(_LEAVE)


@as_annotated
def process_pool(jobs: int) -> Pool:
    """Return what does so many tasks at a time, each in a process of its own with one thread."""

    # Fresh interpreters: a forked one may inherit locks of torch's or Numba's threads. Libraries read the
    # number of threads when they are loaded, so it has to be in the environment that the processes get.
    @contextmanager
    def pool() -> Iterator[tuple[Executor, Callable[[], int]]]:
        before = {name: os.environ.get(name) for name in _THREADS}
        os.environ.update(dict.fromkeys(_THREADS, "1"))
        made = _Processes(max(jobs, 1), get_context("spawn"), _start_worker, (os.getpid(),))
        try:
            yield made, lambda: jobs
        except KeyboardInterrupt:
            made.leave()
            raise
        except BrokenProcessPool as error:
            raise WorkerLost("a process was killed or ran out of memory") from error
        finally:
            made.shutdown(wait=True, cancel_futures=True)
            for name in _THREADS:
                os.environ.pop(name, None)
            os.environ.update({name: value for name, value in before.items() if value is not None})

    return pool


@as_annotated
def dask_pool(address: str, jobs: int | None = None, resources: Mapping[str, float] | None = None) -> Pool:
    """Return what does tasks on a Dask cluster.

    Parameters
    ----------
    address : str
        Of the scheduler, such as ``"tcp://host:8786"``.
    jobs : int, optional
        Tasks that are under way at a time; twice the threads that the workers have, if not given.
    resources : mapping from str to float, optional
        What a worker must have to take a task, such as ``{"GPU": 1}``.
    """
    if not re.fullmatch(r"[a-z]+://[^\s/]+:\d+", address):
        rule = "the address of a Dask scheduler, such as tcp://host:8786"
        raise ValueError(f"`scheduler` must be {rule}; got {short_repr(address)}.")
    try:
        from distributed import Client, KilledWorker
    except ImportError as error:
        raise ImportError("`scheduler` needs Dask: pip install -e '.[sweep]' in the checkout.") from error

    @contextmanager
    def pool() -> Iterator[tuple[Executor, Callable[[], int]]]:
        try:
            client: Any = Client(address, set_as_default=False)  # type: ignore[no-untyped-call]
        except (OSError, ValueError) as error:
            raise OSError(f"no Dask scheduler answers at {address} ({error})") from error
        with client:
            # Each call is a task of its own, also where an earlier one had the same arguments.
            made = client.get_executor(pure=False, resources=dict(resources or {}))
            try:
                yield made, lambda: jobs or max(2 * sum(client.nthreads().values()), 1)
            except (CancelledError, KilledWorker) as error:
                raise WorkerLost("workers were killed, or the scheduler went away") from error
            finally:
                made.shutdown(wait=False)  # what is under way is given up

    return pool


def _start_worker(parent: int) -> None:
    """Prepare a process: Ctrl-C ends its tasks alone, and it ends when the one that made it has gone."""
    signal.signal(signal.SIGINT, _interrupt)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1.0)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


class ProgressClock:
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

    def __init__(self, tasks: Collection[Task], tell: Callable[[str], None]) -> None:
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

    def finished(self, task: Task, line: str | None) -> None:
        """Note that a task is finished, and tell a line, if there is one."""
        self._left.pop(task.name, None)
        left = self.left()
        estimate = "" if left is None or not self._left else f", about {_duration(left)} left"
        done = self._count - len(self._left)
        if line:
            self._tell(f"[{self.elapsed:5.0f} s, {done} of {self._count}{estimate}] {line}")


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{max(round(seconds), 1)} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
