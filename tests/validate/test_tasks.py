"""Tasks over processes: every order that dependencies allow, the same results, and what goes wrong."""

import atexit
import os
import signal
import sys
import threading
import time
from concurrent.futures import Future
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from superposition.validate.runner import tasks as tasks_module
from superposition.validate.runner.tasks import Task, dask_pool, run_tasks


def square(value):
    return value**2


def fail(value):
    raise ValueError(f"`value` must be liked; got {value}.")


def write_then(path, text, wait=0.0):
    time.sleep(wait)
    with open(path, "a", encoding="utf-8") as file:
        file.write(text)
    return os.getpid()


def end_at_once(log, times):
    """End the process without a word, as one that is killed does, the first few times."""
    with open(log, "a", encoding="utf-8") as file:
        file.write("x")
    if os.path.getsize(log) <= times:
        os.kill(os.getpid(), signal.SIGKILL)
    return "done"


def sleep_at_exit(folder):
    """Note this process, and wait for what interrupts it; its end takes long."""
    atexit.register(time.sleep, 100.0)
    note_and_sleep(folder)


def note_and_sleep(folder):
    (folder / str(os.getpid())).touch()
    time.sleep(100.0)


@dataclass
class SlowToLoad:
    """An argument whose modules, as it were, take long to import."""

    folder: Path

    def __reduce__(self):
        return note_and_sleep, (self.folder,)


def done(tasks, jobs, pool=None):
    """Return what each task gave, in the order in which they were finished."""
    found = {}

    def reached(task, result, seconds):
        assert seconds >= 0
        assert task.name not in found
        found[task.name] = result

    run_tasks(tasks, jobs, reached, pool)
    return found


CHAIN = [
    Task("last", square, (4,), dependencies=["left", "right", "a name of no task"]),
    Task("left", square, (2,), dependencies=["first"]),
    Task("right", square, (3,), dependencies=["first"], seconds=9.0),
    Task("first", square, (1,)),
    Task("alone", square, (5,), seconds=30.0),
]
RESULTS = {"first": 1, "left": 4, "right": 9, "last": 16, "alone": 25}


@pytest.mark.parametrize("jobs", [1, 2])
def test_everything_is_done_after_what_it_waits_for(jobs):
    assert done([], jobs) == {}
    found = done(CHAIN, jobs)
    assert found == RESULTS
    order = list(found)
    for task in CHAIN:
        assert all(order.index(name) < order.index(task.name) for name in task.dependencies if name in order)


def test_of_tasks_that_can_start_the_longest_way_to_the_end_goes_first():
    """After c come 4 s in a row, after d three tasks of 2 s at a time, and nothing after a."""
    assert list(done(CHAIN, 1)) == ["alone", "first", "right", "left", "last"]
    seconds = {"a": 5.5, "b": 1.1, "c": 2.0, "d": 3.0, "c1": 1.0, "c2": 3.0, "d0": 2.0, "d1": 2.0, "d2": 2.0}
    waits = {"c1": ("c",), "c2": ("c1",), **dict.fromkeys(("d0", "d1", "d2"), ("d", "b"))}
    tasks = [Task(name, square, (1,), waits.get(name, ()), number) for name, number in seconds.items()]
    assert list(done(tasks, 1)) == ["c", "a", "d", "c1", "b", "c2", "d0", "d1", "d2"]
    assert tasks_module._take_ready(tasks[-1:], {"b"}) is None  # it waits for b as well as for d


def test_two_processes_are_others_than_this_one(tmp_path):
    tasks = [Task(str(k), write_then, (str(tmp_path / "log"), "x", 0.3)) for k in range(4)]
    workers = set(done(tasks, 2).values())
    assert 1 <= len(workers) <= 2
    assert os.getpid() not in workers
    assert set(done(tasks[:1], 1).values()) == {os.getpid()}


@pytest.mark.parametrize("jobs", [1, 2])
def test_after_an_error_nothing_more_is_started(jobs, tmp_path):
    log = tmp_path / "log"
    later = Task("needs it", write_then, (str(log), "no"), dependencies=["fails"])
    with pytest.raises(ValueError, match="`value` must be liked; got 7"):
        done([Task("fails", fail, (7,), seconds=9.0), later], jobs)
    assert not log.exists()


def test_what_a_killed_process_was_doing_is_begun_again(tmp_path):
    tasks = [Task("killed", end_at_once, (tmp_path / "log", 1), seconds=9.0), *CHAIN]
    with pytest.warns(RuntimeWarning, match="killed or ran out of memory; begun were .*killed"):
        found = done(tasks, 2)
    assert found == {"killed": "done", **RESULTS}


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
@pytest.mark.parametrize("work", [sleep_at_exit, square], ids=["in tasks", "before tasks"])
def test_an_interrupt_does_not_wait_for_processes(work, tmp_path, monkeypatch):
    monkeypatch.setattr(tasks_module, "_SECONDS_TO_END", 50.0)

    def interrupt():
        while len(found := list(tmp_path.iterdir())) < 2:
            time.sleep(0.05)
        for pid in [*(int(path.name) for path in found), os.getpid()]:
            os.kill(pid, signal.SIGINT)
        begun.append(time.perf_counter())

    begun = []
    threading.Thread(target=interrupt, daemon=True).start()
    argument = tmp_path if work is sleep_at_exit else SlowToLoad(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        done([Task(name, work, (argument,)) for name in ("first", "second")], 2)
    # Half of what they are given, and a quarter of what they take.
    assert time.perf_counter() - begun[0] < 25.0


def test_a_process_that_is_killed_again_is_an_error(tmp_path):
    tasks = [Task("killed", end_at_once, (tmp_path / "log", 2), seconds=9.0)]
    with (
        pytest.warns(RuntimeWarning, match="begun again"),
        pytest.raises(OSError, match=r"begun were killed\. It was the second time"),
    ):
        done(tasks, 2)


@pytest.mark.slow
def test_processes_that_are_killed_while_doing_different_tasks_are_no_error(tmp_path):
    first, second = (Task(name, end_at_once, (tmp_path / name, 1)) for name in "ab")
    with pytest.warns(RuntimeWarning, match="begun again"):
        assert done([first, replace(second, dependencies=["a"])], 2) == {"a": "done", "b": "done"}


class Scheduler:
    """Stands for `distributed`: a cluster whose worker is killed at the first tasks."""

    KilledWorker = type("KilledWorker", (Exception,), {})

    def __init__(self, kills):
        self.kills, self.nthreads = kills, lambda: {"one": 1, "other": 2}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def Client(self, address, set_as_default):
        if address.endswith(":1"):
            raise OSError("it took too long")
        return self

    def get_executor(self, pure, resources):
        assert resources == {"GPU": 1}
        return self

    def submit(self, work, *given):
        future, self.kills = Future(), self.kills - 1
        if self.kills >= 0:
            future.set_exception(self.KilledWorker())
        else:
            future.set_result(work(*given))
        return future

    def shutdown(self, wait):
        assert not wait


def test_a_cluster_whose_workers_are_killed_gets_the_tasks_once_more(monkeypatch):
    def on_cluster(kills, address="tcp://host:8786"):
        monkeypatch.setitem(sys.modules, "distributed", Scheduler(kills))
        return done(CHAIN, 1, dask_pool(address, resources={"GPU": 1}))

    assert on_cluster(0) == done(CHAIN, 1)
    for jobs, at_once in ((None, 6), (5, 5)):  # twice the three threads
        with dask_pool("tcp://host:8786", jobs, resources={"GPU": 1})() as (_, count):
            assert count() == at_once
    with pytest.warns(RuntimeWarning, match=r"workers were killed, .*; begun were alone, first"):
        assert on_cluster(2) == done(CHAIN, 1)
    with (
        pytest.warns(RuntimeWarning),
        pytest.raises(OSError, match=r"begun were .*\. It was the second time"),
    ):
        on_cluster(4)
    with pytest.raises(OSError, match=r"no Dask scheduler answers at tcp://host:1 \(it took too long\)"):
        on_cluster(0, "tcp://host:1")
