"""A sweep from the grid to the dataset: what is not stored yet is done."""

import warnings
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import xarray as xr

from ...theory.arguments import flag, integer, shown
from ..annotations import called
from ..files import named
from ..tasks import Clock, Task, cluster, cores, here, processes, spread
from .points import do, make_plan
from .store import machine, place_of, prepared
from .store import open as open_store

# Chunks that a task has at most; a worker gives back those that it did not get to in a second.
_MOST = 32


def run(
    work: Callable[..., Any] | str,
    grid: Mapping[str, Sequence[Any]],
    *,
    store: str | Path,
    settings: Mapping[str, Any] | None = None,
    keep: Sequence[str] = (),
    together: str | None = None,
    batch: int | None = None,
    jobs: int | None = None,
    scheduler: str | None = None,
    gpu: bool = False,
    retry: bool = False,
    tell: Callable[[str], None] | None = None,
) -> xr.Dataset:
    """Call a function at each point of a grid, and store what it returns.

    Points that the store already has are skipped. A run may be killed at any moment, and the next one goes
    on: the final store is the same, byte by byte, whatever was killed and however many processes there were.

    Parameters
    ----------
    work : str or callable
        A run, such as ``"collisions.fig3"``; a public function, such as ``"solvers.rug.optimum"`` or
        ``"validate.training.train"``; or a function of a module that workers can import. It returns a
        dataset, a result of a solver, a mapping, or one value. Kept are its arrays of numbers and of text,
        which must have the same names and sizes at all points; dimensions of length 1 of a dataset are
        dropped, and so are attributes.
    grid : mapping from str to sequence
        For some arguments the values they take: numbers, text, or lists of these. Each is a dimension.
    store : path or str
        A folder, or a URL that fsspec understands, which one run at a time may write to.
    settings : mapping from str to object, optional
        Other arguments, the same at all points.
    keep : sequence of str, optional
        Arrays that are kept; all by default.
    together : str, optional
        The function takes a list for each argument of the grid, which are the points of a chunk, and returns
        a dataset in which they run along this dimension: a batch of models for a GPU.
    batch : int, optional
        Points of a chunk at most; by default as many as make about a thousand chunks. A task is as many
        chunks as take a second or more.
    jobs : int, optional
        Processes of one thread each; as many as there are cores if not given. 0 does all in this process.
        With a scheduler: tasks under way at a time, twice the workers' threads if not given.
    scheduler : str, optional
        Address of a Dask scheduler, such as ``"tcp://host:8786"``. Workers send what they find to this
        process, which alone needs the store.
    gpu : bool, optional
        Give tasks only to workers that have the resource GPU, one each.
    retry : bool, optional
        Try again what failed in earlier runs.
    tell : callable, optional
        Gets a line for each chunk, with the time left, and for what was damaged in the store. Without it the
        latter are warnings.

    Returns
    -------
    xarray.Dataset
        As :func:`open` returns it. ``point_state`` and ``point_error`` say what failed.

    Raises
    ------
    ValueError
        If an argument is out of range, or the store holds something else, another sweep, or one with other
        settings, which the message names.
    ImportError
        If Zarr, Dask or a library that the function needs is not installed.
    OSError
        If the disk is full, no scheduler answers, or a process ends abruptly twice at the same task.

    Notes
    -----
    The attributes of the group ``provenance`` say when, where and with what versions each run was made.

    Examples
    --------
    >>> import tempfile
    >>> grid = {"p": [0.05, 0.2], "importance": [0.5, 1.0]}
    >>> given = {"starts": 50, "rng": 0}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ds = run("solvers.relu.pair_basins", grid, store=folder, settings=given, jobs=0).load()
    >>> ds["fraction"].dims, ds["W"].sizes["W_0"]
    (('p', 'importance'), 50)
    """
    gpu, retry, address = flag("gpu", gpu), flag("retry", retry), place_of(store)
    if tell is not None:
        called("tell", tell)
    if scheduler is not None and not isinstance(scheduler, str):
        raise ValueError(f"`scheduler` must be text; got {shown(scheduler)}.")
    if gpu and scheduler is None:
        raise ValueError("`gpu` must go with a `scheduler`, whose workers have the resource GPU; got none.")
    plan = make_plan(work, grid, {} if settings is None else settings, keep, together, batch)
    jobs = None if jobs is None else integer("jobs", jobs, 0, 10_000)
    if scheduler is not None:
        pool = cluster(scheduler, jobs or None, {"GPU": 1} if gpu else None)
    else:
        jobs = cores() if jobs is None else jobs
        pool = processes(jobs) if jobs else here
    url = address.removeprefix("file://")
    with prepared(url, plan, lambda line: _damaged(f"{named(url)}: {line}", tell)) as place:
        todo = place.todo(retry)
        waiting = deque(todo)
        sizes = {number: Task(f"chunk {number}", do, seconds=count) for number, count in todo.items()}
        clock = Clock([*sizes.values()], tell or (lambda line: None))

        def following(size: int) -> Task | None:
            most = 1 if place.waits else _MOST
            count = min(max(len(waiting) // (4 * size), 1), most, len(waiting))
            numbers = [waiting.popleft() for _ in range(count)]
            chunks = [(number, place.points(number)) for number in numbers]
            return Task(f"chunk {numbers[0]}", do, (plan, chunks)) if numbers else None

        def finish(task: Task, found: Any, seconds: float) -> None:
            rest = [number for number, _ in task.arguments[1][len(found) :]]
            waiting.extendleft(reversed(rest))
            for one in found:
                for number, points in place.add(*one):
                    failed = sum(isinstance(point, str) for point in points.values())
                    said = f"{len(points)} points" + (f", {failed} of them failed" if failed else "")
                    clock.finished(sizes[number], f"{sizes[number].name}: {said}")

        facts = {**machine(), "jobs": jobs, "scheduler": scheduler, "chunks": len(todo)}
        if todo:
            place.note(**facts)
            spread(following, finish, pool)
            place.note(**facts, seconds=round(clock.elapsed, 3), failed_points=place.failures())
    return open_store(url)


def _damaged(line: str, tell: Callable[[str], None] | None) -> None:
    if tell is None:
        warnings.warn(line, RuntimeWarning, stacklevel=2)
    else:
        tell(line)
