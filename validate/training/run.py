"""Training of many models of one n_features: arguments, phases and checkpoints."""

import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from ...theory import validation
from ...theory.annotations import as_annotated
from ...theory.features import Features, as_features
from ..reference.files import output_file
from . import checkpoint as checkpoints
from . import engine
from .data import Law
from .engine import ModelState
from .points import MOST_EVALUATION_SAMPLES, grid, model_points
from .results import dataset
from .schedule import CONVERGED, STOPPING_RULE, is_falling
from .settings import TrainingSettings

# The stopping rule fires by chance once the losses are level, so this is a guard, not a setting: the
# authors' published code stops there too (1500 epochs of 30 batches).
STOP_LIMIT = 45_000

# Elements of float32 that one stack of models on a GPU may take, about 8 GiB.
STACK_ELEMENTS = 2**31

CHECKPOINT_SECONDS = 60.0


@as_annotated
def train(
    n_features: int,
    n_hidden: npt.ArrayLike,
    p: npt.ArrayLike | Features,
    seed: npt.ArrayLike,
    *,
    tied: bool = False,
    init: str = "aligned",
    schedule: str = "both",
    steps: int = 10_000,
    most_steps: int | None = None,
    batch_size: int = 1024,
    learning_rate: float | None = None,
    peak_learning_rate: float | None = None,
    weight_decay: float = 0.0,
    evaluation_samples: int | None = 2**20,
    precision: str = "float32",
    cuda_graph: bool = False,
    device: str = "auto",
    threads: int | None = None,
    checkpoint: str | Path | None = None,
    keep_weights: bool = False,
    progress: bool = False,
) -> xr.Dataset:
    r"""Train models ReLU(W_out W_in x + b) of one n_features, many at once; return losses and statistics.

    The data are x_i = c_i u_i, c_i Bernoulli(p) and u_i uniform on [0, 1], all independent and always fresh;
    or they have any other law, which may weight the features' errors by importances. Adam minimises the
    squared error, summed over the features as in the source, which sets the size of Adam's epsilon and
    nothing else; every loss that is returned is *per feature*.

    Each model has random streams for its first weights, its training data and its evaluations: its numbers
    depend only on its sizes, p, seed and the settings. On a CPU they are the same, bit for bit, with any
    other models and number of threads.

    Parameters
    ----------
    n_features : int
        Number of features, at least 2.
    n_hidden, p, seed : scalar or (models,) array_like
        An entry for each model; they broadcast. ``1 <= n_hidden <= n_features``; p in (0, 1] is the
        probability that a feature is on (1 - S of other papers); seeds are not negative. See `grid`. In place
        of p a `theory.features.Features` is the law of the data of all models; samples of one with `exactly`
        are drawn on the CPU, all others on the device.
    tied, keep_weights, progress : bool
        Train with W_out = W_in'; return ``W_out`` and ``W_in`` too; show a progress bar.
    init : {"aligned", "linear", "normal"}
        First weights. "aligned": encodings uniform on the unit sphere, W_out = W_in' (only at the start
        unless tied), b = 0. "linear": U(±1/sqrt(fan_in)), as in ``torch.nn.Linear`` and the
        published code of the source. There half the diagonal of M = W_out W_in starts negative, and for small
        p many of these features never recover: see Notes. "normal": N(0, 1/n_hidden), biases N(0, 1), as in
        the public code of Liu et al. [2]_.
    schedule : {"both", "paper", "converged", "liu"}
        The ends to train to. "stopping rule" is the end of a phase with a constant learning rate that lasts
        as long as `is_falling` is true, checked every 100 batches, and at most 45 000 steps. "converged" is
        the end of a phase of `steps` steps with `learning_rates`. "both" runs the second phase from where the
        first stopped, Adam's moments included; models of a batch pass from phase to phase each at its own
        step. "liu" is "converged" as in the public code of Liu et al. [2]_: the rate rises over a tenth of
        the steps and falls to a twentieth of its peak, and Adam's epsilon is as for the mean over the
        features.
    steps, batch_size : int
        Length of the converging phase, a multiple of 100; samples in a batch.
    most_steps : int, optional
        Steps of all phases together, a multiple of 100: ends that are not reached by then have the status
        "step limit". The numbers are those of the first steps of a longer run.
    learning_rate, peak_learning_rate : float, optional
        Rate of the phase with the stopping rule, by default 3e-3 / sqrt(n_features) as in the published code
        of the source (the paper gives none); and the largest of the converging phase, by default 1e-2.
    weight_decay : float, optional
        Each step multiplies the weights by 1 - learning_rate * weight_decay. With a negative weight_decay it
        multiplies the distances from 1 of the lengths of encodings and decodings by
        1 - learning_rate * ``|weight_decay|`` instead, as in the public code of Liu et al. [2]_. Biases do
        not decay.
    evaluation_samples : int
        Fresh samples on which each final loss is evaluated. None: the exact loss instead, to 1e-6 (see
        `solvers.loss.exact_loss` for its domain and cost).
    precision : {"float32", "tf32", "bf16"}
        Precision of the factors of matrix products in a step: 23, 10 or 7 bits after the leading one; all
        else, sums and final losses included, is float32. On a GPU the shorter ones use its tensor cores; a
        CPU imitates them, slower, which shows their effect: see Notes.
    cuda_graph : bool
        Repeat a step as one CUDA graph, which saves the time of launching its operations one by one. For
        CUDA only, and not for a law with `exactly`.
    device : {"auto", "cpu", "cuda"}
        "auto" is CUDA if there is one.
    threads : int, optional
        Number of models that are trained at the same time on a CPU, each on one thread; by default the number
        of threads of torch.
    checkpoint : path, optional
        File to which the state is written every minute (more rarely where that takes seconds), at Ctrl-C and
        at the end, and from which training goes on if the file exists, on a CPU with the same numbers, bit
        for bit. It stays when training is done.

    Returns
    -------
    xarray.Dataset
        Of (model): ``n_hidden``, ``p`` (of a law the mean over the features), ``seed``. Of (end, model):
        ``status`` ("reached", "step limit", "diverged"), ``steps`` run up to this end, ``loss`` per feature
        with its standard error ``loss_se`` (of exact losses the error estimate), and `weight_statistics`,
        such as means and standard deviations of b and of the diagonal of M. Of (end, model, feature):
        ``diagonal`` of M, and ``bias``. Of (model, block): ``history``, mean losses over 100 batches, NaN
        after the last; the coordinate ``block`` is the number of its last batch. ``W_out`` (…, feature,
        hidden) and ``W_in`` (…, hidden, feature) are padded with zeros up to the largest n_hidden, which
        leaves M as it is. A law is given by ``law_p``, ``law_scale`` and ``law_importance`` (feature).
        Attributes are settings, device, torch version and wall time.

        A model whose loss or weights are no longer finite stops, has the status "diverged" at the ends that
        it did not reach, and NaN for their losses and statistics.

    Raises
    ------
    ValueError
        If an argument is out of range, no CUDA device is there, or `checkpoint` is truncated, foreign, from
        other settings or in a folder that cannot be written.

    Notes
    -----
    Arithmetic is float32, which changes losses by about 1e-6 of their size; what shorter factors change is
    measured by ``make bench``. On a CPU, 1000 steps of one model on one core took 0.7 s at (n_features,
    n_hidden) = (128, 32), 2.2 s at (256, 64) and 8 s at (512, 128), batches of 1024; on one H200, captured
    and with factors of tf32, 0.15 s at (512, 128) and 1.1 s at (8192, 2048).

    A phase of 8000 steps with the largest rate 5e-3 broke models of 4096 features and more, and some of 2048;
    16,000 steps with 6.25e-4 broke none up to 8192: give large models a smaller `peak_learning_rate`.

    Compare two budgets before calling a loss converged; ``validate/reference/README.md`` has measurements of
    budgets, of peaks of the learning rate and of both kinds of first weights.

    References
    ----------
    .. [1] Cowsik et al., "The Persian rug" (2024), §2; code at github.com/KfirD/PersianRug (whose window is
       200 batches, not the 100 of the text).
    .. [2] Liu, Liu and Gore, "Superposition yields robust neural scaling" (2025), §2.

    Examples
    --------
    >>> ds = train(8, n_hidden=4, p=0.1, seed=[0, 1], schedule="converged", steps=300)
    >>> bool((ds.loss < 0.1 / 3 - 0.1**2 / 4).all())  # better than the best constant
    True
    """
    settings = TrainingSettings(
        n_features=n_features,
        tied=tied,
        init=init,
        schedule=schedule,
        steps=steps,
        batch_size=batch_size,
        learning_rate=learning_rate,
        peak_learning_rate=peak_learning_rate,
        precision=precision,
        device=device,
        weight_decay=weight_decay,
        most_steps=most_steps,
    )
    law = _as_probability(p, settings.n_features)
    mean_p = float(np.mean(law.p)) if isinstance(law, Features) else law
    hidden, ps, seeds = model_points(settings.n_features, n_hidden, mean_p, seed)
    if evaluation_samples is not None:
        evaluation_samples = validation.integer(
            "evaluation_samples", evaluation_samples, 2, MOST_EVALUATION_SAMPLES
        )
    settings.check_memory(hidden)
    path = None if checkpoint is None else output_file(checkpoint, "checkpoint")
    torch = engine.load_torch()
    torch_device = engine.choose_device(torch, device)
    settings = replace(settings, device=torch_device.type)
    engine.check_precision(torch, precision, torch_device)
    if cuda_graph and (settings.device != "cuda" or getattr(law, "exactly", None) is not None):
        what = "a law with `exactly`" if settings.device == "cuda" else "the device 'cpu'"
        raise ValueError(f"`cuda_graph` must be False for {what}; got True.")
    threads = torch.get_num_threads() if threads is None else validation.integer("threads", threads, 1, 1024)
    law_digest = f"{engine.law_digest(law):016x}" if isinstance(law, Features) else None
    identity = {"n_hidden": hidden, "p": ps, "seed": seeds, "law": law_digest} | settings.as_dict()
    laws: list[Law] = [law] * len(ps) if isinstance(law, Features) else list(ps)
    shared: Any = settings.tied, settings.init, settings.weight_decay, settings.epsilon
    keys = zip(hidden, laws, seeds, strict=True)
    models = [engine.new_model(torch, torch_device, settings.n_features, *key, *shared) for key in keys]
    began = time.perf_counter()
    if path is not None and path.exists():
        began -= checkpoints.load(torch, path, identity, models)

    def save() -> None:
        """Write the checkpoint, if there is a path for it."""
        if path is not None:
            checkpoints.save(path, identity, models, time.perf_counter() - began)

    def measure(model: ModelState) -> dict[str, tuple[float, float]]:
        """Return (loss, error) of a model at each end of training it reached, by the end's name."""
        ends = [end for end in settings.ends if model.status[end] != "diverged"]
        return {
            end: engine.evaluate(torch, model, end, evaluation_samples, settings.batch_size) for end in ends
        }

    workers = one_thread_each(torch, threads if settings.device == "cpu" else 1)
    with workers as map_chunks, _progress_bar(progress, models) as show:
        _train_all(torch, models, settings, cuda_graph, map_chunks, save, show)
        # The exact loss has threads of its own.
        losses = list((map if evaluation_samples is None else map_chunks)(measure, models))
    attributes = {
        **settings.as_dict(),
        "tied": int(settings.tied),
        "evaluation_samples": evaluation_samples or 0,
        "threads": threads,
        **engine.provenance(torch, torch_device, began),
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    return dataset(models, losses, settings.ends, keep_weights, attributes)


@as_annotated
def run_grid(
    n_features: int,
    p: npt.ArrayLike,
    ratio: npt.ArrayLike,
    seeds: npt.ArrayLike = (0,),
    *,
    schedule: str = "both",
    steps: int = 10_000,
    most_steps: int | None = None,
    peak_learning_rate: float | None = None,
    evaluation_samples: int | None = 2**20,
    precision: str = "float32",
    cuda_graph: bool = False,
    device: str = "auto",
    checkpoint: str | Path | None = None,
) -> xr.Dataset:
    """Return the dataset of `train` for the models of the product p × ratio × seed.

    ``superposition run training.grid`` stores this dataset.

    Parameters
    ----------
    n_features, p, ratio, seeds
        Number of features, and sequences of p, the probability that a feature is on, of ratios n_hidden /
        n_features, and of seeds, as in `grid`.
    schedule : {"both", "paper", "converged", "liu"}
        Which ends to train to: of the stopping rule, of convergence, or both, as in `train`.
    steps, most_steps, peak_learning_rate
        Length of the converging phase, limit of steps of all phases, and largest rate of the converging
        phase, as in `train`.
    evaluation_samples : int
        Fresh samples on which each final loss is evaluated; None for the exact loss.
    precision, cuda_graph, device, checkpoint
        Precision of the factors of products; whether a step is repeated as one CUDA graph; "auto", "cpu" or
        "cuda"; file of the state, from which training goes on, all as in `train`.

    Returns
    -------
    xarray.Dataset
        The dataset of `train`: losses, standard errors, status and weight statistics by end and model.

    Examples
    --------
    >>> run_grid(4, [0.1], [0.5], schedule="converged", steps=100, evaluation_samples=2).sizes["model"]
    1
    """
    validation.whole_numbers("seeds", np.asarray(seeds), 0)
    return train(
        n_features,
        *grid(n_features, p, ratio, seeds),
        schedule=schedule,
        steps=steps,
        most_steps=most_steps,
        peak_learning_rate=peak_learning_rate,
        evaluation_samples=evaluation_samples,
        precision=precision,
        cuda_graph=cuda_graph,
        device=device,
        checkpoint=checkpoint,
    )


def _as_probability(p: npt.ArrayLike | Features, n_features: int) -> npt.ArrayLike | Features:
    """Return p or, if p is a law of `n_features` that is described by one probability, this number."""
    if not isinstance(p, Features):
        return p
    law = as_features(p, n_features, "p")
    is_number = law.has_equal_features and law.scale[0] == 1.0 and np.all(law.importance == 1.0)
    return float(law.p[0]) if is_number else law


@contextmanager
def one_thread_each(torch: Any, threads: int) -> Iterator[Callable[..., Iterator[Any]]]:
    """Yield a parallel `map` with `threads` workers; inside the context each torch operation uses one thread.

    Many models at a time with one thread each are faster than the reverse for models of this size, and make
    results independent of the number of threads. The number of threads is restored at the end.
    """
    previous = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with ThreadPoolExecutor(threads) as pool:
            yield pool.map
    finally:
        torch.set_num_threads(previous)


@contextmanager
def _defer_interrupt() -> Iterator[Callable[[], bool]]:
    """Yield a function that returns whether Ctrl-C was pressed; only a second Ctrl-C raises."""
    pressed = False

    def press(*_: Any) -> None:
        """Handle Ctrl-C."""
        nonlocal pressed
        if pressed:
            raise KeyboardInterrupt
        pressed = True

    alone = threading.current_thread() is not threading.main_thread()  # which gets no signals
    previous = None if alone else signal.signal(signal.SIGINT, press)
    try:
        yield lambda: pressed
    finally:
        if not alone:
            signal.signal(signal.SIGINT, previous)


@contextmanager
def _progress_bar(visible: bool, models: Sequence[ModelState]) -> Iterator[Callable[[], None]]:
    """Yield a function that updates a progress bar of `models` in training, if it is `visible`."""
    if not visible:
        yield lambda: None
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[note]}"))
    with Progress(*columns, TimeElapsedColumn()) as bar:
        task = bar.add_task(f"training, n_features = {models[0].n_features}", total=len(models), note="")

        def show() -> None:
            """Show how many models are done, and the latest step."""
            done = sum(model.finished for model in models)
            step = max(model.step for model in models)
            bar.update(task, completed=done, note=f"{done} of {len(models)} models done, step {step}")

        yield show


def _train_all(
    torch: Any,
    models: Sequence[ModelState],
    settings: TrainingSettings,
    cuda_graph: bool,
    map_chunks: Callable[..., Iterator[Any]],
    save: Callable[[], None],
    show: Callable[[], None],
) -> None:
    """Train all models in place until all ends of the settings are reached: stopping rule, convergence.

    With `cuda_graph`, steps repeat a CUDA graph. `map_chunks` maps over stacks of models, `save` writes the
    checkpoint, `show` updates the progress bar. Checkpoints are saved about every minute, at Ctrl-C, which
    raises afterwards, and at the end.
    """

    def advance(chunk: Sequence[ModelState]) -> None:
        """Train a stack of models, `chunk`, for one block of batches."""
        rates = np.stack([settings.rates_of(model) for model in chunk], axis=1)
        size, precision = settings.batch_size, settings.precision
        losses = engine.run_block(torch, chunk, rates, size, precision, cuda_graph).mean(axis=0)
        for model, loss in zip(chunk, losses, strict=True):
            _record_block(model, float(loss), settings)

    saved, pause = time.perf_counter(), CHECKPOINT_SECONDS
    show()
    with _defer_interrupt() as pressed:
        while chunks := _stack_chunks([model for model in models if not model.finished], settings.batch_size):
            list(map_chunks(advance, chunks))
            show()
            if pressed() or time.perf_counter() - saved >= pause:
                began = time.perf_counter()
                save()
                saved = time.perf_counter()
                # Files of large models take seconds: they are to be a twentieth of the time at most.
                pause = max(CHECKPOINT_SECONDS, 20 * (saved - began))
            if pressed():
                raise KeyboardInterrupt
        save()


def _stack_chunks(models: Sequence[ModelState], batch_size: int) -> list[list[ModelState]]:
    """Return the models grouped into stacks that are trained together, of equal n_hidden, largest first.

    On a CPU each model is a stack, which keeps its batch of `batch_size` samples in the cache.
    """
    chunks: list[list[ModelState]] = []
    for model in sorted(models, key=lambda model: -model.n_hidden):
        elements = 6 * model.parameters.numel() + 4 * batch_size * model.n_features
        limit = 1 if model.parameters.device.type == "cpu" else max(1, STACK_ELEMENTS // elements)
        if chunks and len(chunks[-1]) < limit and chunks[-1][0].n_hidden == model.n_hidden:
            chunks[-1].append(model)
        else:
            chunks.append([model])
    return chunks


def _record_block(model: ModelState, loss: float, settings: TrainingSettings) -> None:
    """Add a block's mean loss to a model's history, and store the ends of training that it reaches.

    A block is 100 batches (`schedule.BLOCK`). Ends, those in `settings.ends`, are "stopping rule", where the
    loss no longer falls at a constant learning rate, and "converged", after ``settings.steps`` steps of the
    schedule that ends at small rates. Each gets a status: "reached", or "step limit" if the steps ran out
    before. If the loss or weights are not finite, training ends, and ends not reached are "diverged".
    """
    model.history.append(loss)
    ends = [end for end in settings.ends if end not in model.status]
    if not (np.isfinite(loss) and bool(model.parameters.isfinite().all())):
        for end in ends:
            reach_end(model, end, "diverged")
        model.finished = True
        return
    if ends[0] == STOPPING_RULE:
        if not is_falling(model.history):
            reach_end(model, STOPPING_RULE, "reached")
        elif model.step >= STOP_LIMIT:
            reach_end(model, STOPPING_RULE, "step limit")
    elif model.step - model.end_steps.get(STOPPING_RULE, 0) == settings.steps:
        reach_end(model, CONVERGED, "reached")
    if model.step == settings.most_steps:
        for end in (end for end in ends if end not in model.status):
            reach_end(model, end, "step limit")
    model.finished = len(model.status) == len(settings.ends)


def reach_end(model: ModelState, end: str, status: str) -> None:
    """Store a model's status, step and a copy of its weights at `end`, "stopping rule" or "converged"."""
    model.status[end] = status
    model.end_steps[end] = model.step
    model.ends[end] = model.parameters.cpu().numpy().copy()
