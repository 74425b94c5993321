"""One picture for each phenomenon, theory's lines beside experiment's dots, as the README shows them."""

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import xarray as xr

from ..theory.arguments import choice, integer
from . import codes, collisions, files, linear, noise, relu, rug, sparsification
from .drawing import svg
from .experiment import Figure
from .statistics import student
from .stored import stored
from .training.engine import load_torch

__all__ = ["GALLERY", "over_seeds", "write_gallery"]

# Inches: as wide as a page of text on the web, so that letters keep their size there.
WIDTH = 8.6
SINGLE = (WIDTH, 4.3)
PAIR = (WIDTH / 2, 3.6)
TRIPLE = (WIDTH / 3, 3.0)


def _can_train() -> bool:
    try:
        load_torch()
    except ImportError:
        return False
    return True


def over_seeds(ds: xr.Dataset) -> xr.Dataset:
    """Put means over seeds with Student's 95 % intervals in place of single models.

    Parameters
    ----------
    ds : xarray.Dataset
        From `validate.rug.loss_curves`.

    Returns
    -------
    xarray.Dataset
        With one model for each size, p and ratio; what else its models have is left out.
    """
    names = ("n_features", "model_p", "model_ratio")
    kinds, which = np.unique(np.stack([ds[name] for name in names], axis=1), axis=0, return_inverse=True)
    runs = [ds["trained"].transpose("end", "model").values[:, which == k] for k in range(len(kinds))]
    mean, half = (np.stack(part, axis=1) for part in zip(*map(student, runs), strict=True))
    return ds.drop_dims("model").assign(
        trained=(("end", "model"), mean),
        trained_half=(("end", "model"), half),
        n_features=("model", kinds[:, 0].astype(int)),
        model_p=("model", kinds[:, 1]),
        model_ratio=("model", kinds[:, 2]),
    )


def _rug(seed: int) -> Figure:
    trained, _ = rug.read_reference()
    if trained is None:
        trained = rug.run_trained(64, rug.PANELS, (0.125, 0.25, 0.5), range(seed, seed + 2), steps=2000)
    return Figure(
        "rug",
        "Loss of trained ReLU autoencoders against their compression ratio, beside the Persian rug's optimum",
        "",
        over_seeds(rug.loss_curves(trained)),
        [
            partial(rug.plot_loss_against_ratio, p=p, legend=k == len(rug.PANELS) - 1)
            for k, p in enumerate(rug.PANELS)
        ],
        columns=3,
        size=(WIDTH / 3, 2.4),
    )


def _codes(seed: int) -> Figure:
    trained = codes.read_symmetry()
    plane = stored("codes_envelope.nc", lambda: codes.run_envelope(24))
    if trained is None:
        return replace(codes.envelope_figure(plane), draw=codes.plot_bracket, size=SINGLE)
    marks = codes.run_marks(trained, stored("codes_known.nc", codes.run_known))
    return replace(codes.map_figure(plane, marks), size=SINGLE)


def _sparsification(seed: int) -> Figure:
    return Figure(
        "sparsification",
        "Weights of one encoding that are left under the l1 force, against time: limit law and exact runs",
        "",
        sparsification.run_fig2(runs=32, seed=seed),
        (sparsification.plot_nonzeros, sparsification.plot_deviation),
        size=PAIR,
    )


def _collisions(seed: int) -> Figure:
    ds = stored("collisions_fig3.nc", lambda: collisions.run_fig3(runs=40, seed=seed))
    return Figure(
        "collisions",
        "Polysemantic neurons against hidden neurons: predictions and runs of the flow",
        "",
        ds,
        (collisions.plot_fig3, collisions.plot_ratio),
        size=PAIR,
    )


def _linear(seed: int) -> Figure:
    return Figure(
        "linear",
        "Loss of linear autoencoders from small weights: saddles, exact flows and trained models",
        "",
        linear.run_plateaus(rate=0.004, seed=seed, trained=_can_train()),
        (linear.plot_plateaus, linear.plot_escape),
        size=PAIR,
    )


def _relu(seed: int) -> Figure:
    ds = stored("relu_phases.nc", lambda: relu.run_phases(40, 12))
    panels = [partial(relu.plot_phases, model=model) for model in range(len(relu.MODELS))]
    with suppress(ImportError):  # without PyTorch nothing can be trained in place of a missing file
        trained = stored("relu_trained.nc", lambda: relu.run_trained(seeds=16, steps=500, seed=seed))
        panels.append(lambda _, ax: relu.plot_reached(trained, ax))
    return Figure(
        "relu",
        "The best models of two features in one dimension, and how often training finds the best model",
        "",
        ds,
        panels,
        columns=3,
        size=TRIPLE,
    )


def _noise(seed: int) -> Figure:
    return Figure(
        "noise",
        "Sparsification by hidden noise against the learning rate and against the noise's excess kurtosis",
        "",
        stored("noise_mechanism.nc", lambda: noise.run_mechanism(runs=8, lone_runs=2, seed=seed)),
        (noise.plot_rates, noise.plot_kurtosis),
        size=PAIR,
    )


GALLERY: dict[str, Callable[[int], Figure]] = {
    "rug": _rug,
    "codes": _codes,
    "sparsification": _sparsification,
    "collisions": _collisions,
    "linear": _linear,
    "relu": _relu,
    "noise": _noise,
}


def write_gallery(
    out: str | Path,
    only: Iterable[str] | None = None,
    seed: int = 0,
    progress: Callable[[str], None] = lambda line: None,
) -> list[Path]:
    """Draw one picture for each phenomenon, from reference runs or from runs of seconds.

    Parameters
    ----------
    out : str or Path
        Folder; made if it does not exist. Each ``<phenomenon>.svg`` in it is replaced whole or not at all.
    only : iterable of str, optional
        Names in `GALLERY`; all of them if not given.
    seed : int, optional
        Seed of everything random that is not stored; not negative. The same seed gives the same bytes.
    progress : callable, optional
        Called with a line of text for each picture.

    Returns
    -------
    list of Path

    Raises
    ------
    ValueError
        If an argument is out of range or the folder cannot be written.
    """
    names = [choice("only", name, tuple(GALLERY)) for name in (GALLERY if only is None else only)]
    seed = integer("seed", seed, 0)
    folder = files.output_folder(out)
    written = []
    for name in names:
        path = folder / f"{name}.svg"
        progress(f"gallery: {name}")
        files.write_text(path, svg(GALLERY[name](seed)))
        written.append(path)
    return written
