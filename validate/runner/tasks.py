"""Tasks in parallel processes of one thread each, in an order that dependencies allow.

Two processes with a thread each share busy cores fairly; two threads that wait for each other at every matrix
product do not. Results do not depend on the number of processes.
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
    "Pool", "ProgressClock", "Task", "available_cores", "dask_pool", "dispatch", "inline_executor",
    "process_pool", "run_tasks",
]  # fmt: skip

_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")

# Seconds that processes have after an interrupt, before they are ended.
_SECONDS_TO_END = 3.0

# A context manager that gives an executor, and a function that returns how many tasks it takes at a time.
Pool = Callable[[], AbstractContextManager[tuple[Executor, Callable[[], int]]]]


@dataclass(frozen=True)
class Task:
    """A function call that may run in another process."""

    name: str
    """Unique among the tasks."""
    work: Callable[..., Any]
    """Function defined at the top of a module, so that it can be pickled."""
    arguments: tuple[Any, ...] = ()
    """Arguments of `work` that can be pickled."""
    dependencies: Sequence[str] = ()
    """Names of tasks that must be finished first; names of no task count as finished."""
    seconds: float = 1.0
    """Expected duration. Of the tasks that can start, the one that starts the longest chain is first."""


def available_cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@as_annotated
def run_tasks(
    tasks: Collection[Task],
    jobs: int,
    on_done: Callable[[Task, Any, float], str | None],
    pool: Pool | None = None,
    progress: Callable[[str], None] = lambda line: None,
) -> None:
    """Run all tasks, in an order that dependencies allow, in `jobs` processes; with 1, in this process.

    If a task raises an error, the running tasks are finished and no more are started. If a process ends
    abruptly, its tasks are started again, once, with a `RuntimeWarning`; the second time an OSError is
    raised.

    `on_done` is called in this process with each finished task, its result and its seconds. If it returns a
    line, `progress` is called with it and the time left. A `pool`, from `process_pool` or `dask_pool`, runs
    the tasks in place of these processes.
    """
    jobs = integer("jobs", jobs, 1)
    clock = ProgressClock(tasks, progress)
    waiting, unfinished = _longest_first(tasks), {task.name for task in tasks}

    def finish(task: Task, result: Any, seconds: float) -> None:
        """Mark a task as finished, pass its result and seconds to `on_done`, and report."""
        unfinished.discard(task.name)
        clock.mark_finished(task, on_done(task, result, seconds))

    local = process_pool(min(jobs, len(tasks))) if jobs > 1 else inline_executor
    dispatch(lambda: _take_ready(waiting, unfinished), finish, pool or local)


def _longest_first(tasks: Collection[Task]) -> list[Task]:
    """Return the tasks sorted by the expected seconds from their start to the end of all that depend on them.

    The longest are first.
    """
    weight = _longest_paths(tasks)
    return sorted(tasks, key=lambda task: -weight[task.name])


def _take_ready(waiting: list[Task], unfinished: Collection[str]) -> Task | None:
    """Remove and return the first waiting task that depends on none of the unfinished ones, or None."""
    for task in waiting:
        if not set(task.dependencies).intersection(unfinished):
            waiting.remove(task)
            return task
    return None


class WorkerLost(Exception):
    """Raised by a pool if a process ended before its task did."""


@as_annotated
def dispatch(
    next_task: Callable[[], Task | None], on_done: Callable[[Task, Any, float], None], pool: Pool
) -> None:
    """Run tasks as they become ready, as many at a time as the pool allows, until there are none.

    If a task raises an error, the running tasks are finished, no more are started, and it is raised. If a
    process ends abruptly, its tasks are started again, once; the second time an OSError is raised.

    `next_task` returns a task that can start, or None. `on_done` is called in this process with each finished
    task, its result and its seconds; it may make other tasks ready. The `pool` is a function whose context
    gives an executor and its size: `inline_executor` (this process), or one from `process_pool` or
    `dask_pool`.
    """
    interrupted: list[Task] = []
    restarted: set[str] = set()
    while True:
        running_tasks: dict[Future[Any], Task] = {}
        try:
            with pool() as (executor, size):
                while True:
                    while len(running_tasks) < size():
                        task = interrupted.pop(0) if interrupted else next_task()
                        if task is None:
                            break
                        running_tasks[executor.submit(_call_timed, task.work, task.arguments)] = task
                    if not running_tasks:
                        return
                    # With a timeout: a cluster may have grown.
                    for future in wait(running_tasks, 5.0, return_when=FIRST_COMPLETED).done:
                        result, seconds = future.result()
                        on_done(running_tasks.pop(future), result, seconds)
        except WorkerLost as error:
            names = [task.name for task in running_tasks.values()]
            message = f"{error}; begun were {', '.join(names)}"
            if restarted.intersection(names):
                raise OSError(f"{message}. It was the second time.") from error
            warnings.warn(f"{message}. They are begun again.", RuntimeWarning, stacklevel=2)
            restarted.update(names)
            interrupted += running_tasks.values()


def _longest_paths(tasks: Collection[Task]) -> dict[str, float]:
    """Return for each task the seconds from its start to the end of the last task that depends on it.

    Circular dependencies raise a ValueError.
    """
    followers = {task.name: [other for other in tasks if task.name in other.dependencies] for task in tasks}
    lengths: dict[str, float] = {}

    def length(task: Task, path: tuple[str, ...] = ()) -> float:
        """Return the seconds from a task's start to the end of the last one that depends on it.

        `path` has the names of the tasks before it, to detect circles.
        """
        if task.name in path:
            raise ValueError(f"`tasks` must not wait for each other; got the circle {path}.")
        if task.name not in lengths:
            rest = [length(follower, (*path, task.name)) for follower in followers[task.name]]
            lengths[task.name] = task.seconds + max(rest, default=0.0)
        return lengths[task.name]

    for task in tasks:
        length(task)
    return lengths


def _call_timed(work: Callable[..., Any], arguments: tuple[Any, ...]) -> tuple[Any, float]:
    """Return (result, seconds) of a call of `work` with `arguments`."""
    start = time.perf_counter()
    return work(*arguments), time.perf_counter() - start


class _InlineExecutor(Executor):
    """An executor that calls each function in this process when it is submitted."""

    def submit(self, work: Callable[..., Any], /, *arguments: Any, **keywords: Any) -> Future[Any]:
        """Call `work` now, and return a future that has its result."""
        future: Future[Any] = Future()
        future.set_result(work(*arguments, **keywords))
        return future


@contextmanager
def inline_executor() -> Iterator[tuple[Executor, Callable[[], int]]]:
    """Give an executor that runs tasks one by one in this process, and its size 1: a `Pool`."""
    yield _InlineExecutor(), lambda: 1


class _Interrupt:
    """Handler of Ctrl-C in a worker process: raises while a task runs, or else when the next one starts."""

    in_task = False
    is_pending = False

    def __call__(self, *_: Any) -> None:
        """Raise KeyboardInterrupt in a task; else note that Ctrl-C was pressed."""
        self.is_pending = True
        if self.in_task:
            raise KeyboardInterrupt


_interrupt = _Interrupt()


def _unpickle_and_call(call: bytes) -> Any:
    """Return the result of a pickled call in a worker process; Ctrl-C also interrupts the unpickling."""
    try:
        _interrupt.in_task = True
        if _interrupt.is_pending:
            raise KeyboardInterrupt
        work, arguments, keywords = pickle.loads(call)
        return work(*arguments, **keywords)
    finally:
        _interrupt.in_task = False


class _Processes(ProcessPoolExecutor):
    """A process pool whose workers start with Ctrl-C blocked, which a terminal sends to all of them."""

    def __init__(self, *settings: Any) -> None:
        super().__init__(*settings)
        self._unfinished: set[Future[Any]] = set()

    def submit(self, work: Callable[..., Any], /, *arguments: Any, **keywords: Any) -> Future[Any]:
        """Return the future of a call of `work` in a worker process."""
        call = pickle.dumps((work, arguments, keywords))
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

    def terminate(self) -> None:
        """Wait some seconds for running tasks to finish, for example a checkpoint; then end all processes."""
        processes: Any = list((getattr(self, "_processes", None) or {}).values())
        manager: Any = getattr(self, "_executor_manager_thread", None)
        self.shutdown(wait=False, cancel_futures=True)
        wait(list(self._unfinished), _SECONDS_TO_END)
        for process in processes:  # idle ones, too: Python takes a second to end them
            process.terminate()
        if manager is not None:  # it holds the queues
            manager.join(_SECONDS_TO_END)


@as_annotated
def process_pool(jobs: int) -> Pool:
    """Return a pool of `jobs` processes with one thread each.

    A pool is a function whose context gives (executor, function that returns the number of tasks at a time).
    If a process ends before its task, the pool raises `WorkerLost`.
    """

    # Fresh interpreters: a forked one may inherit locks of torch's or Numba's threads. Libraries read the
    # number of threads when they are loaded, so it has to be in the environment that the processes get.
    @contextmanager
    def pool() -> Iterator[tuple[Executor, Callable[[], int]]]:
        """Give an executor of worker processes and a function that returns their number."""
        environment = {name: os.environ.get(name) for name in _THREADS}
        os.environ.update(dict.fromkeys(_THREADS, "1"))
        executor = _Processes(max(jobs, 1), get_context("spawn"), _start_worker, (os.getpid(),))
        try:
            yield executor, lambda: jobs
        except KeyboardInterrupt:
            executor.terminate()
            raise
        except BrokenProcessPool as error:
            raise WorkerLost("a process was killed or ran out of memory") from error
        finally:
            executor.shutdown(wait=True, cancel_futures=True)
            for name in _THREADS:
                os.environ.pop(name, None)
            os.environ.update({name: value for name, value in environment.items() if value is not None})

    return pool


@as_annotated
def dask_pool(address: str, jobs: int | None = None, resources: Mapping[str, float] | None = None) -> Pool:
    """Return a pool that runs tasks on a Dask cluster.

    A pool is a function whose context gives (executor, function that returns the number of tasks at a time).
    `address` is that of the cluster's scheduler, such as ``"tcp://host:8786"``. `jobs` tasks run at a time;
    by default twice the number of threads of the workers. `resources` are those that a worker needs for a
    task, such as ``{"GPU": 1}``.
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
        """Give an executor on the cluster and a function that returns the number of tasks at a time."""
        try:
            client: Any = Client(address, set_as_default=False)  # type: ignore[no-untyped-call]
        except (OSError, ValueError) as error:
            raise OSError(f"no Dask scheduler answers at {address} ({error})") from error
        with client:
            # Each call is a task of its own, also where an earlier one had the same arguments.
            executor = client.get_executor(pure=False, resources=dict(resources or {}))
            try:
                yield executor, lambda: jobs or max(2 * sum(client.nthreads().values()), 1)
            except (CancelledError, KilledWorker) as error:
                raise WorkerLost("workers were killed, or the scheduler went away") from error
            finally:
                executor.shutdown(wait=False)  # running tasks are given up

    return pool


def _start_worker(parent: int) -> None:
    """Prepare a worker process: Ctrl-C interrupts only its tasks, and it exits after its parent."""
    signal.signal(signal.SIGINT, _interrupt)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})

    def watch() -> None:
        """Exit this process when its parent has ended."""
        while os.getppid() == parent:
            time.sleep(1.0)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


class ProgressClock:
    """A clock that prefixes lines on finished tasks with the time, their number, and the time left."""

    def __init__(self, tasks: Collection[Task], progress: Callable[[str], None]) -> None:
        self._unfinished = {task.name: task.seconds for task in tasks}
        self._total = sum(self._unfinished.values())
        self._count, self._progress = len(self._unfinished), progress
        self._start = time.perf_counter()

    @property
    def elapsed(self) -> float:
        """Seconds since the run began."""
        return time.perf_counter() - self._start

    def seconds_left(self) -> float | None:
        """Return the expected seconds left; None until a tenth of the expected work is finished.

        The result is elapsed * (expected seconds of unfinished tasks) / (expected seconds of finished ones).
        """
        unfinished = sum(self._unfinished.values())
        finished = self._total - unfinished
        return None if finished < 0.1 * self._total or not finished else self.elapsed * unfinished / finished

    def mark_finished(self, task: Task, line: str | None) -> None:
        """Count a task as finished, and report its line, if there is one, with the time left."""
        self._unfinished.pop(task.name, None)
        left = self.seconds_left()
        estimate = "" if left is None or not self._unfinished else f", about {format_duration(left)} left"
        done = self._count - len(self._unfinished)
        if line:
            self._progress(f"[{self.elapsed:5.0f} s, {done} of {self._count}{estimate}] {line}")


def format_duration(seconds: float) -> str:
    """Return seconds as text in seconds, minutes or hours."""
    if seconds < 90:
        return f"{max(round(seconds), 1)} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
