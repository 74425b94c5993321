"""Execution of a sweep: points that are not stored yet are computed."""

from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

import xarray as xr

from ....theory.annotations import as_annotated
from ..tasks import ProgressClock, Task, available_cores, dask_pool, dispatch, inline_executor, process_pool
from .points import Results, compute_points, make_plan
from .store import open as open_store
from .store import open_for_writing


@as_annotated
def run(
    work: Callable[..., Any] | str,
    grid: Mapping[str, Any],
    *,
    store: str | Path,
    settings: Mapping[str, Any] | None = None,
    keep: Collection[str] = (),
    batch_dim: str | None = None,
    batch: int | None = None,
    jobs: int | None = None,
    scheduler: str | None = None,
    gpu: bool = False,
    retry: bool = False,
    progress: Callable[[str], None] | None = None,
) -> xr.Dataset:
    """Return the results of a function at each point of a grid, which a store keeps.

    Points that the store already has are skipped. A sweep may be killed at any moment, and the next call
    continues it. The numbers depend neither on that nor on the number of processes.

    Parameters
    ----------
    work : str or callable
        A run, such as ``"collisions.fig3"``; a public function, such as ``"solvers.rug.optimum"`` or
        ``"validate.training.train"``; or a function of a module that workers can import. It returns a
        dataset, a result of a solver, a mapping, or one value. Its arrays of numbers and of text are stored,
        without dimensions of length 1 of a dataset; names and sizes must be the same at all points.
    grid : mapping from str to sequence
        Values of some arguments: numbers, text, or lists of these. Each argument is a dimension.
    store : path or str
        A folder that is empty or has a store of this sweep, or a URL that fsspec understands.
    settings : mapping from str to object, optional
        Other arguments, the same at all points.
    keep : collection of str, optional
        Arrays that are stored; all by default.
    batch_dim : str, optional
        With it, one call computes all points of a chunk, such as a batch of models on a GPU: the function
        takes a list of values for each argument of the grid, and returns a dataset with the points along this
        dimension.
    batch : int, optional
        Most points of a chunk, which one task computes; by default there are about a thousand chunks.
    jobs : int, optional
        Processes of one thread each, by default as many as there are cores; with 0 all is done in this
        process. With a scheduler: tasks that run at a time, by default twice the workers' threads.
    scheduler : str, optional
        Address of a Dask scheduler, such as ``"tcp://host:8786"``. This process alone needs the store.
    gpu : bool, optional
        Give tasks only to workers with the resource GPU, one task to each.
    retry : bool, optional
        Compute points again that failed in earlier runs.
    progress : callable, optional
        Called with a line for each chunk, with the time left.

    Returns
    -------
    xarray.Dataset
        The dataset of :func:`open`. ``point_state`` and ``point_error`` tell which points failed.

    Notes
    -----
    The attributes of the group ``provenance`` have date, system and versions of each run.

    Examples
    --------
    >>> import tempfile
    >>> grid = {"p": [0.05, 0.2], "importance": [0.5, 1.0]}
    >>> settings = {"starts": 50, "rng": 0}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ds = run("solvers.relu.pair_basins", grid, store=folder, settings=settings, jobs=0).load()
    >>> ds["fraction"].dims, ds["W"].sizes["W_0"]
    (('p', 'importance'), 50)
    """
    if gpu and scheduler is None:
        raise ValueError("`gpu` must go with a `scheduler`, whose workers have the resource GPU; got none.")
    plan = make_plan(work, grid, settings or {}, keep, batch_dim, batch)
    if scheduler is not None:
        pool = dask_pool(scheduler, jobs or None, {"GPU": 1} if gpu else None)
    else:
        jobs = available_cores() if jobs is None else jobs
        pool = process_pool(jobs) if jobs else inline_executor
    url = str(store).removeprefix("file://")
    with open_for_writing(url, plan) as sweep:
        missing = sweep.missing_points(retry)
        tasks = {
            n: Task(f"chunk {n}", compute_points, (plan, points), (), len(points))
            for n, points in missing.items()
        }
        numbers = {task.name: number for number, task in tasks.items()}
        waiting, n_running = list(reversed(missing)), 0
        clock = ProgressClock([*tasks.values()], progress or (lambda line: None))

        def next_task() -> Task | None:
            """Return the task of a waiting chunk; None if none waits, or all wait for the first result."""
            nonlocal n_running
            # The first successful grid point defines the arrays: until then one chunk at a time.
            if not waiting or (n_running and not sweep.results):
                return None
            n_running += 1
            return tasks[waiting.pop()]

        def store_chunk(task: Task, results: Results, seconds: float) -> None:
            """Store the results of a chunk, `task`, and report on it with its seconds."""
            nonlocal n_running
            n_running -= 1
            sweep.write(numbers[task.name], results)
            failed = sum(isinstance(result, str) for result in results.values())
            failures = f", {failed} of them failed" if failed else ""
            clock.mark_finished(task, f"{task.name}: {len(results)} points{failures}")

        if missing:
            sweep.add_provenance(jobs=jobs, scheduler=scheduler, chunks=len(missing))
            dispatch(next_task, store_chunk, pool)
    return open_store(url)
