"""Solving the atlas: descents from many starts, then from what neighbours found, until nothing improves."""

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ....solvers.minimise import Minimum, descend, minimise
from ....theory import validation
from ....theory.annotations import as_annotated
from ....theory.validation import FloatArray
from ...reference.files import (
    error_text,
    exclusive_folder,
    quoted_path,
    read_arrays,
    require_same_settings,
    write_arrays,
    write_text,
)
from ...runner.tasks import Pool, Task, dask_pool, run_tasks
from .grid import GRID, LARGEST, Problem, neighbours
from .store import hits, load, write

# Steps of each descent; rounds at most.
STEPS, ROUNDS = 3000, 100
# Sizes of the kicks that the best model known gets in a round, in units of its weights.
KICKS = (0.02, 0.1, 0.3)
# A best model that fewer starts than this have found is searched for again, so often at most.
HITS, DEEPER = 2, 4
# Improvements below this share of the loss of the zero model are rounding.
ROUNDING = 1e-12
# A further feature or neuron begins with weights of this size.
_STIR = 0.01

Found = Mapping[str, Any]


def _best_of_each(found: Minimum, **more: Any) -> dict[str, Any]:
    curvature = np.nan if found.curvature is None else found.curvature
    one = {name: getattr(found, name) for name in ("W_out", "W_in", "b", "loss", "gradient_norm")}
    return {**one, "curvature": curvature, **more}


def solve(problem: Problem, starts: int, seed: int, turn: int = 0) -> dict[str, Any]:
    """Return the least model from random and ordered starts."""
    found = minimise(
        problem.n_features,
        problem.n_hidden,
        problem.law,
        tied=problem.tied,
        largest=LARGEST,
        starts=starts,
        steps=STEPS,
        rng=problem.rng(seed, turn),
    )
    bound = found.certificate.lower_bound
    return _best_of_each(found, losses=found.losses, minima=len(found.minima), lower_bound=bound)


def search_longer(problem: Problem, known: Found, starts: int, seed: int, turn: int) -> dict[str, Any]:
    """Search once more, from other starts, and keep the better model and the ends of all starts."""
    found = solve(problem, starts, seed, turn)
    losses = np.concatenate([known["losses"], found["losses"]])
    improved = found["loss"] < known["loss"] - ROUNDING * problem.zero_loss
    return {**(found if improved else known), "losses": losses, "minima": known["minima"]}


def _packaged(problem: Problem) -> Found:
    """Return the model that came with the package as a search would: starts that ended higher at infinity."""
    one = load(problem.name)
    names = ("W_out", "W_in", "b", "loss", "gradient_norm", "minima", "lower_bound")
    losses = np.repeat([one.loss, np.inf], [one.hits, one.starts - one.hits])
    curvature = np.nan if one.curvature is None else one.curvature
    return {**{name: getattr(one, name) for name in names}, "curvature": curvature, "losses": losses}


def _fitted(found: Found, problem: Problem, rng: np.random.Generator) -> tuple[FloatArray, ...]:
    """Return a neighbour's model at this problem's size: its least part dropped, or one more."""
    n, m = problem.n_features, problem.n_hidden
    W_out, W_in, b = (np.array(found[name]) for name in ("W_out", "W_in", "b"))
    if len(b) > n:
        # The last feature weighs least where importances fall; where they do not, the shortest is least.
        least = len(b) - 1 if problem.importance != "equal" else int(np.argmin(np.square(W_in).sum(axis=0)))
        W_out, W_in, b = np.delete(W_out, least, 0), np.delete(W_in, least, 1), np.delete(b, least)
    elif len(b) < n:
        W_out = np.vstack([W_out, _STIR * rng.normal(size=W_out.shape[1])])
        W_in, b = np.hstack([W_in, _STIR * rng.normal(size=(len(W_in), 1))]), np.append(b, problem.p / 2)
    if len(W_in) > m:
        least = int(np.argmin(np.square(W_in).sum(axis=1)))
        W_out, W_in = np.delete(W_out, least, 1), np.delete(W_in, least, 0)
    elif len(W_in) < m:
        W_out = np.hstack([W_out, _STIR * rng.normal(size=(n, 1))])
        W_in = np.vstack([W_in, _STIR * rng.normal(size=n)])
    return W_out, W_in, b


def improve(problem: Problem, known: Found, others: Sequence[Found], seed: int, turn: int) -> dict[str, Any]:
    """Return the least end of descents from the model, from it after kicks, and from its neighbours'."""
    rng = problem.rng(seed, turn)
    best, size = dict(known), np.sqrt(np.mean(known["W_in"] ** 2))
    models = [_fitted(one, problem, rng) for one in (known, *others)]
    for kick in KICKS:
        apart = [kick * size * rng.normal(size=known[name].shape) for name in ("W_out", "W_in")]
        models.append((known["W_out"] + apart[0], known["W_in"] + apart[1], known["b"]))
    for W_out, W_in, b in models:
        W_out = np.clip(W_in.T if problem.tied else W_out, -LARGEST, LARGEST)
        W_in = W_out.T if problem.tied else np.clip(W_in, -LARGEST, LARGEST)
        end = descend(W_out, W_in, b, problem.law, tied=problem.tied, largest=LARGEST, steps=STEPS)
        if end.loss < best["loss"] - ROUNDING * problem.zero_loss:
            best.update(_best_of_each(end))
    return best


@as_annotated
def make(
    *,
    folder: str | Path,
    jobs: int = 1,
    starts: int = 8,
    seed: int = 0,
    problems: Sequence[Problem] = GRID,
    again: bool = False,
    scheduler: str | None = None,
    tell: Callable[[str], None] = print,
) -> Path:
    """Solve the atlas anew and write it; a stopped run that is in the folder is continued.

    Parameters
    ----------
    folder : path
        For `atlas.safetensors` and `atlas.json`, and a small file for each problem and round.
    jobs : int, optional
        Processes. The result does not depend on them.
    starts : int, optional
        Random starts of each problem; ordered ones are added.
    seed : int, optional
        Seed of all.
    problems : sequence of Problem, optional
        All by default.
    again : bool, optional
        Begin with the models that came with the package, and search once more for each; with another seed
        than theirs, whose starts would be the same.
    scheduler : str, optional
        Address of a Dask cluster that does the work in place of processes here, such as "tcp://host:8786".
    tell : callable, optional
        Gets a line for each problem that is solved.

    Returns
    -------
    Path
        The manifest, `atlas.json`.

    Raises
    ------
    ValueError
        If an argument is out of range, the folder cannot be written, or holds another run.

    Notes
    -----
    The first round searches from random starts. In further rounds each problem descends from its own model
    after kicks, and from the models of neighbours: the next p, one feature or neuron more or less, the other
    importances, the tied model of a free problem. A problem rests while neither it nor a neighbour improves.
    When all rest, those whose best model fewer than two starts have found are searched again from other
    random starts, four times at most; the atlas is finished when all rest after that.

    Examples
    --------
    >>> import tempfile
    >>> from superposition.validate.experiments.atlas import GRID
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     make(folder=folder, starts=2, problems=GRID[:1], tell=lambda line: None).name
    'atlas.json'
    """
    jobs = validation.integer("jobs", jobs, 1, 1024)
    settings = {
        "starts": validation.integer("starts", starts, 0, 10**6),
        "seed": validation.integer("seed", seed, 0, 2**32 - 1),
        "steps": STEPS,
        "rounds": ROUNDS,
        "kicks": list(KICKS),
        "hits": HITS,
        "deeper": DEEPER,
        "largest": LARGEST,
        "problems": [one.name for one in problems],
        **({"again": True} if again else {}),
    }
    pool = None if scheduler is None else dask_pool(scheduler)
    with exclusive_folder(folder, "folder") as place:
        _agree(place / "settings.json", settings)
        known = _solved(place, problems, settings, jobs, pool, tell)
        told = {**settings, "problems": len(problems)}
        return write(place, [(one, known[one.name]) for one in problems], told)


def _agree(path: Path, settings: Mapping[str, Any]) -> None:
    """Note the settings of a folder, or refuse those of another run."""
    if path.exists():
        try:
            before = dict(json.loads(path.read_text(encoding="utf-8")))
        except (ValueError, TypeError) as error:
            raise ValueError(
                f"`folder` must hold a run's settings; got {quoted_path(path)} ({error_text(error)})."
            ) from error
        rule = "empty or hold a run of the same settings"
        require_same_settings("folder", quoted_path(path.parent), before, settings, rule)
    write_text(path, json.dumps(settings) + "\n")


def _reached(place: Path, turn: int, found: dict[str, Found], task: Task, one: Found, seconds: float) -> str:
    write_arrays(place / f"{task.name}.{turn}.npz", one)
    found[task.name] = one
    share = float(one["loss"]) / task.arguments[0].zero_loss
    return f"round {turn}: {task.name} has {share:.9f} of the zero model's loss, {seconds:.1f} s"


def _solved(
    place: Path,
    problems: Sequence[Problem],
    settings: Mapping[str, Any],
    jobs: int,
    pool: Pool | None,
    tell: Callable[[str], None],
) -> dict[str, Found]:
    by_name = {one.name: one for one in problems}
    beside: dict[str, list[str]] = {}
    known: dict[str, Found] = {one.name: _packaged(one) for one in problems if "again" in settings}
    awake, deeper, seed = list(by_name), 0, settings["seed"]
    for turn in range(ROUNDS + 1):
        deep = not awake and deeper < DEEPER
        if deep:
            awake = [name for name, one in by_name.items() if hits(one, known[name]) < HITS]
            deeper += 1
        if not awake:
            break
        found: dict[str, Found] = {}
        tasks = []
        for name in awake:
            path, one = place / f"{name}.{turn}.npz", by_name[name]
            if path.exists():
                found[name] = read_arrays(path)
            elif not known:
                tasks.append(Task(name, solve, (one, settings["starts"], seed)))
            elif deep or turn == 0:
                tasks.append(Task(name, search_longer, (one, known[name], settings["starts"], seed, turn)))
            else:
                others = [known[other] for other in beside[name]]
                tasks.append(Task(name, improve, (one, known[name], others, seed, turn)))
        run_tasks(tasks, jobs, partial(_reached, place, turn, found), pool, tell)
        better = {name for name in found if turn == 0 or found[name]["loss"] < known[name]["loss"]}
        known.update(found)
        if turn == 0:
            beside = {one.name: [other.name for other in neighbours(one, problems)] for one in problems}
        awake = [name for name in by_name if name in better or better.intersection(beside[name])]
    return known
