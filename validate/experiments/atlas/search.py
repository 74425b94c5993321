"""Solving the atlas: descents from many starts, then from neighbours' solutions, until no loss improves."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
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
from ...runner.tasks import Task, dask_pool, run_tasks
from .grid import GRID, LARGEST, Problem, neighbours
from .store import Entry, hits, load, write

DESCENT_STEPS = 3000
LARGEST_ROUNDS = 100
# Standard deviations of the noise added to the best model known in a round, in units of its weights.
KICKS = (0.02, 0.1, 0.3)
# A problem whose best model fewer starts than this have found is searched again, in so many rounds at most.
SUFFICIENT_HITS = 2
LARGEST_DEEPER = 4
# Improvements below this share of the loss of the zero model are rounding.
ROUNDING = 1e-12
# A further feature or neuron begins with weights of this size.
_NOISE_SIZE = 0.01

RunTasks = Callable[[list[Task], Callable[[Task, Any, float], str]], None]
Solution = Mapping[str, Any]  # of a problem: the model, its loss, and the losses of all starts


def _model_fields(model: Minimum | Entry) -> dict[str, Any]:
    """Return a dictionary of W_out, W_in, b, loss, gradient_norm and curvature of a minimum.

    The loss is per feature. gradient_norm and curvature belong to loss / (loss of the zero model): curvature
    is the least eigenvalue of its Hessian, apart from the zeros due to symmetries; nan if unknown.
    """
    curvature = np.nan if model.curvature is None else model.curvature
    names = ("W_out", "W_in", "b", "loss", "gradient_norm")
    return {**{name: getattr(model, name) for name in names}, "curvature": curvature}


def solve(problem: Problem, starts: int, seed: int, round_number: int = 0) -> dict[str, Any]:
    """Return the best model of a problem over random and ordered starts, with the losses of all starts.

    `starts` random starts are drawn from `seed` and `round_number`, the round of search; ordered starts are
    added. The dictionary has W_out, W_in, b, their loss, gradient_norm and curvature, the losses of all
    starts, minima (the number of different ones), and the lower_bound of the loss.
    """
    minimum = minimise(
        problem.n_features,
        problem.n_hidden,
        problem.law,
        tied=problem.tied,
        largest=LARGEST,
        starts=starts,
        steps=DESCENT_STEPS,
        rng=problem.rng(seed, round_number),
    )
    return {
        **_model_fields(minimum),
        "losses": minimum.losses,
        "minima": len(minimum.minima),
        "lower_bound": minimum.certificate.lower_bound,
    }


def search_longer(
    problem: Problem, known: Solution, starts: int, seed: int, round_number: int
) -> dict[str, Any]:
    """Return the better of a known model and one from new starts, with the losses of old and new starts.

    `known` and the result are solutions of `problem`, dictionaries as from `solve`. `starts` is the number of
    new random starts, which are drawn from `seed` and `round_number`.
    """
    solution = solve(problem, starts, seed, round_number)
    losses = np.concatenate([known["losses"], solution["losses"]])
    is_better = solution["loss"] < known["loss"] - ROUNDING * problem.zero_loss
    return {**(solution if is_better else known), "losses": losses, "minima": known["minima"]}


def _packaged_solution(problem: Problem) -> Solution:
    """Return a problem's packaged model as a solution, a dictionary as from `solve`.

    Losses of single starts are not packaged: those that did not end in the model count as inf.
    """
    entry = load(problem.name)
    losses = np.repeat([entry.loss, np.inf], [entry.hits, entry.starts - entry.hits])
    rest = {"losses": losses, "minima": entry.minima, "lower_bound": entry.lower_bound}
    return {**_model_fields(entry), **rest}


def _resize(solution: Solution, problem: Problem, rng: np.random.Generator) -> tuple[FloatArray, ...]:
    """Return weights (W_out, W_in, b) of a solution, resized to the sizes of `problem`.

    Sizes may differ by one feature and one neuron at most. The feature removed is the one of the shortest
    encoding if importances are equal, else the last; the neuron removed has the shortest row of W_in. Added
    weights are small, drawn from `rng`; an added feature has the bias p/2.
    """
    n, m = problem.n_features, problem.n_hidden
    W_out, W_in, b = (np.array(solution[name]) for name in ("W_out", "W_in", "b"))
    if len(b) > n:
        # The last feature weighs least where importances fall; where they do not, the shortest is least.
        least = len(b) - 1 if problem.importance != "equal" else int(np.argmin(np.square(W_in).sum(axis=0)))
        W_out, W_in, b = np.delete(W_out, least, 0), np.delete(W_in, least, 1), np.delete(b, least)
    elif len(b) < n:
        W_out = np.vstack([W_out, _NOISE_SIZE * rng.normal(size=W_out.shape[1])])
        W_in = np.hstack([W_in, _NOISE_SIZE * rng.normal(size=(len(W_in), 1))])
        b = np.append(b, problem.p / 2)
    if len(W_in) > m:
        least = int(np.argmin(np.square(W_in).sum(axis=1)))
        W_out, W_in = np.delete(W_out, least, 1), np.delete(W_in, least, 0)
    elif len(W_in) < m:
        W_out = np.hstack([W_out, _NOISE_SIZE * rng.normal(size=(n, 1))])
        W_in = np.vstack([W_in, _NOISE_SIZE * rng.normal(size=n)])
    return W_out, W_in, b


def improve_from_neighbours(
    problem: Problem, known: Solution, others: Sequence[Solution], seed: int, round_number: int
) -> dict[str, Any]:
    """Return the best of a known model and of descents from it, from it with noise, and from `others`.

    `known` and the result are solutions of `problem`, dictionaries as from `solve`; `others` are solutions of
    neighbouring problems. Noise is drawn from `seed` and `round_number`.
    """
    rng = problem.rng(seed, round_number)
    best, size = dict(known), np.sqrt(np.mean(known["W_in"] ** 2))
    models = [_resize(solution, problem, rng) for solution in (known, *others)]
    for kick in KICKS:
        noise = [kick * size * rng.normal(size=known[name].shape) for name in ("W_out", "W_in")]
        models.append((known["W_out"] + noise[0], known["W_in"] + noise[1], known["b"]))
    for decoder, encoder, b in models:
        W_out = np.clip(encoder.T if problem.tied else decoder, -LARGEST, LARGEST)
        W_in = W_out.T if problem.tied else np.clip(encoder, -LARGEST, LARGEST)
        end = descend(W_out, W_in, b, problem.law, tied=problem.tied, largest=LARGEST, steps=DESCENT_STEPS)
        if end.loss < best["loss"] - ROUNDING * problem.zero_loss:
            best.update(_model_fields(end))
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
    progress: Callable[[str], None] = print,
) -> Path:
    """Solve the atlas anew and write it; a stopped run that is in the folder is continued.

    Parameters
    ----------
    folder : path
        Folder of `atlas.safetensors` and `atlas.json`, and of a small file for each problem and round.
    jobs : int, optional
        Processes. The result does not depend on them.
    starts : int, optional
        Random starts of each problem; ordered ones are added.
    seed : int, optional
        Seed of all random numbers.
    problems : sequence of Problem, optional
        All by default.
    again : bool, optional
        Begin with the packaged models, and search once more for each. Pass another seed than that of their
        search, or the same starts are repeated.
    scheduler : str, optional
        Address of a Dask cluster that does the work in place of processes here, such as "tcp://host:8786".
    progress : callable, optional
        Gets a line for each problem that is solved.

    Returns
    -------
    Path
        The manifest, `atlas.json`.

    Notes
    -----
    The first round searches from random starts. In further rounds each problem descends from its own model
    with noise, and from the models of neighbours: the next p, one feature or neuron more or less, the other
    importances, the tied model of a free problem. A round leaves out problems for which, in the round before,
    neither they nor a neighbour improved. When none is left, problems are searched again from new random
    starts if fewer than two starts have found their best model, four times at most. The atlas is finished
    when none is left after that.

    Examples
    --------
    >>> import tempfile
    >>> from superposition.validate.experiments.atlas import GRID
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     make(folder=folder, starts=2, problems=GRID[:1], progress=lambda line: None).name
    'atlas.json'
    """
    jobs = validation.integer("jobs", jobs, 1, 1024)
    settings = {
        "starts": validation.integer("starts", starts, 0, 10**6),
        "seed": validation.integer("seed", seed, 0, 2**32 - 1),
        "steps": DESCENT_STEPS,
        "rounds": LARGEST_ROUNDS,
        "kicks": list(KICKS),
        "hits": SUFFICIENT_HITS,
        "deeper": LARGEST_DEEPER,
        "largest": LARGEST,
        "problems": [problem.name for problem in problems],
        **({"again": True} if again else {}),
    }
    pool = None if scheduler is None else dask_pool(scheduler)
    with exclusive_folder(folder, "folder") as run_folder:
        _check_settings(run_folder / "settings.json", settings)
        known = {problem.name: _packaged_solution(problem) for problem in problems} if again else {}
        rounds = _Rounds(run_folder, {problem.name: problem for problem in problems}, settings, known)
        rounds.run(lambda tasks, on_done: run_tasks(tasks, jobs, on_done, pool, progress))
        pairs = [(problem, rounds.known[problem.name]) for problem in problems]
        return write(run_folder, pairs, {**settings, "problems": len(problems)})


def _check_settings(path: Path, settings: Mapping[str, Any]) -> None:
    """Write settings to the file `path`; if it exists, ValueError unless it holds the same settings."""
    if path.exists():
        try:
            stored_settings = dict(json.loads(path.read_text(encoding="utf-8")))
        except (ValueError, TypeError) as error:
            raise ValueError(
                f"`folder` must hold a run's settings; got {quoted_path(path)} ({error_text(error)})."
            ) from error
        rule = "empty or hold a run of the same settings"
        require_same_settings("folder", quoted_path(path.parent), stored_settings, settings, rule)
    write_text(path, json.dumps(settings) + "\n")


@dataclass
class _Rounds:
    """Rounds of searches over problems by name, with a file for each problem and round."""

    folder: Path
    problems: Mapping[str, Problem]
    settings: Mapping[str, Any]
    known: dict[str, Solution]
    """The best solutions of all problems so far; of none before the first round."""

    def run(self, run: RunTasks) -> None:
        """Search all problems until none improves and enough starts found each best model.

        The best solutions are written to `self.known`, by the problem's name. `run(tasks, on_done)` executes
        tasks and calls `on_done` with each finished task, its solution and the seconds it took.
        """
        problems = list(self.problems.values())
        adjacent = {
            name: [other.name for other in neighbours(problem, problems)]
            for name, problem in self.problems.items()
        }
        active, n_deeper = list(self.problems), 0
        for round_number in range(LARGEST_ROUNDS + 1):
            is_deeper = not active and n_deeper < LARGEST_DEEPER
            if is_deeper:
                active = [
                    name
                    for name, problem in self.problems.items()
                    if hits(problem, self.known[name]) < SUFFICIENT_HITS
                ]
                n_deeper += 1
            if not active:
                break
            others = {name: None if is_deeper or round_number == 0 else adjacent[name] for name in active}
            better = self._run_round(round_number, others, run)
            active = [name for name in self.problems if name in better or better.intersection(adjacent[name])]

    def _run_round(
        self, round_number: int, others: Mapping[str, Sequence[str] | None], run: RunTasks
    ) -> set[str]:
        """Search problems once; return the names of those whose loss fell (in round 0 of all searched).

        `others` maps the name of each problem to search to the names of neighbours, from whose best solutions
        it descends, or to None for random starts. `self.known`, the best solutions by name, is updated.
        `run(tasks, on_done)` executes the searches. Solutions that a stopped run left on file are read
        instead.
        """
        solutions: dict[str, Solution] = {}
        tasks = []
        for name, other_names in others.items():
            path = self._path(name, round_number)
            if path.exists():
                solutions[name] = read_arrays(path)
            else:
                tasks.append(self._task(name, round_number, other_names))

        def on_done(task: Task, solution: Solution, seconds: float) -> str:
            """Store a task's solution; return a line about its loss and its seconds."""
            write_arrays(self._path(task.name, round_number), solution)
            solutions[task.name] = solution
            share = float(solution["loss"]) / self.problems[task.name].zero_loss
            return (
                f"round {round_number}: {task.name} has {share:.9f} of the zero model's loss, {seconds:.1f} s"
            )

        run(tasks, on_done)
        better = {
            name
            for name, solution in solutions.items()
            if round_number == 0 or solution["loss"] < self.known[name]["loss"]
        }
        self.known.update(solutions)
        return better

    def _path(self, name: str, round_number: int) -> Path:
        """Return the file of the solution of the problem `name` in round `round_number`."""
        return self.folder / f"{name}.{round_number}.npz"

    def _task(self, name: str, round_number: int, others: Sequence[str] | None) -> Task:
        """Return the search of the problem `name` in a round, as a task to execute.

        It starts from the best solutions of the problems named in `others`, or from random weights if None.
        """
        problem, starts, seed = self.problems[name], self.settings["starts"], self.settings["seed"]
        if not self.known:
            return Task(name, solve, (problem, starts, seed))
        if others is None:
            return Task(name, search_longer, (problem, self.known[name], starts, seed, round_number))
        solutions = [self.known[other] for other in others]
        return Task(name, improve_from_neighbours, (problem, self.known[name], solutions, seed, round_number))
