"""Experiments on the rug: each returns a dataset, nothing is drawn or written here."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from ....solvers import rug as solvers
from ....solvers.rug.rows import drawn_rug
from ....solvers.statistics import student
from ....theory import rug as theory
from ....theory import validation
from ....theory.annotations import as_annotated
from ....theory.validation import FloatArray
from ...reference.read import read_runs, stored_facts
from ...runner.declarations import from_rows
from ...training import grid, train
from ..drawing import plot_function

# What is kept of a training run: enough for the figures and tables, without the loss histories.
KEPT = ("n_features", "n_hidden", "p", "seed", "steps", "loss", "loss_se", "dropped", "lyapunov_max")
WEIGHTS = ("diagonal_mean", "diagonal_sd", "bias_mean", "bias_sd")
# Stored runs of the figures: from 128 features on, to the stopping rule and further, and, with seeds from 5
# on, trained on at a slower rate. Other seeds were trained to judge claims.
SHOWN: dict[str, Any] = {
    "experiment": "training.grid",
    "steps": [8000, 16_000],
    "n_features": lambda n_features: n_features >= 128,
    "seeds": lambda seeds: seeds[0] in (0, 5),
}
# At which losses of several sizes are compared; with n_hidden whole, those of models are near these.
RATIOS = (0.12, 0.25, 0.5)
# A phase of training after which the loss is more than this many times what it was has broken the model.
# Chosen when all stored models had been seen: their factors are below 1, or 1.49 and more.
BROKEN = 1.25


@as_annotated
def unbroken_lines(trained: xr.Dataset) -> xr.Dataset:
    """Leave out the ends of phases that broke a model, as nan: its loss rose there, by a quarter or more.

    A learning rate that is too large takes a model to where no output answers; weights and losses then say
    nothing of the phase before, nor of the optimum.

    Examples
    --------
    >>> ds = xr.Dataset({"loss": (("end", "model"), [[0.2, 0.2], [0.1, 0.9]])})
    >>> unbroken_lines(ds)["loss"].values.tolist()
    [[0.2, 0.2], [0.1, nan]]
    """
    kept = ~(trained["loss"] > BROKEN * trained["loss"].shift(end=1))
    floats = [name for name, one in trained.items() if "end" in one.dims and one.dtype.kind == "f"]
    return trained.assign({name: trained[name].where(kept) for name in floats})


def nearest_ratio(ratio: npt.ArrayLike) -> FloatArray:
    """Return which of `RATIOS` each of some ratios is within 5 % of, nan if none.

    Examples
    --------
    >>> nearest_ratio([0.117, 0.3])
    array([0.12,  nan])
    """
    off = np.abs(np.asarray(ratio)[:, None] / RATIOS - 1)
    return np.where(off.min(axis=1) < 0.05, np.array(RATIOS)[off.argmin(axis=1)], np.nan)


@as_annotated
def run_rug(n_features: int = 256, n_hidden: int = 40, seed: int = 0) -> xr.Dataset:
    """Make Fig. 1's matrix ``rug`` (row, column), of unit diagonal, from Hadamard rows drawn at random."""
    matrix = solvers.rug_matrix(n_features, n_hidden, seed).todense()
    return xr.Dataset({"rug": (("row", "column"), matrix)}, attrs={"n_hidden": n_hidden, "seed": seed})


@as_annotated
def run_theory(p: npt.ArrayLike, ratio: npt.ArrayLike) -> xr.Dataset:
    """Compute the macroscopic optimum and the limits beside it on the product p × ratio.

    Returns
    -------
    xarray.Dataset
        ``loss``, ``a``, ``b``, ``sigma``, ``linear_loss``, ``asymptotic_loss`` (p, ratio);
        ``zero_ratio_loss``, ``crossover_ratio`` (p).
    """
    p, ratio = validation.numbers_or_repeat("p", p), validation.numbers_or_repeat("ratio", ratio)
    best = solvers.optimum(p[:, None], ratio)
    both = {name: getattr(best, name) for name in ("loss", "a", "b", "sigma")}
    both["linear_loss"] = theory.linear_loss(p[:, None], ratio)
    both["asymptotic_loss"] = theory.asymptotic_loss(p[:, None], ratio)
    ds = xr.Dataset({name: (("p", "ratio"), values) for name, values in both.items()})
    return ds.assign(
        zero_ratio_loss=("p", theory.zero_ratio_loss(p)), crossover_ratio=("p", solvers.crossover_ratio(p))
    ).assign_coords(p=p, ratio=ratio)


@as_annotated
def run_bias(p: float, ratio: npt.ArrayLike, shift: npt.ArrayLike) -> xr.Dataset:
    """Profile of the macroscopic loss over the shift b/(a sigma), the scale optimal at each.

    Returns
    -------
    xarray.Dataset
        ``profile`` (ratio, shift), relative to the loss at ratio 0; ``best_shift``, ``best`` (ratio).
    """
    ratio, shift = validation.numbers_or_repeat("ratio", ratio), validation.numbers_or_repeat("shift", shift)
    sigma = theory.sigma(p, ratio)[:, None]
    a = theory.optimal_scale(shift * sigma, sigma, p)
    zero = theory.zero_ratio_loss(p)
    best = solvers.optimum(p, ratio)
    columns = {
        "profile": (("ratio", "shift"), theory.loss(a, a * shift * sigma, sigma, p) / zero),
        "best_shift": ("ratio", best.b / (best.a * best.sigma)),
        "best": ("ratio", best.loss / zero),
    }
    return xr.Dataset(columns, {"ratio": ratio, "shift": shift}, {"p": p})


@as_annotated
def run_finite_size(
    p: float, ratio: float, n_features: Sequence[int], draws: int = 4, samples: int = 2000, seed: int = 0
) -> xr.Dataset:
    """Loss of rugs drawn at finite sizes, powers of two: exact, and simulated through the operator.

    Scale and bias are those of the macroscopic optimum; the bias also takes up the mean of the
    interference, which is exactly known. Every one of the samples gives n_features outputs.

    Returns
    -------
    xarray.Dataset
        ``exact``, ``error_estimate``, ``simulated``, its standard error ``simulated_se`` and half its 95 %
        interval ``simulated_half``, the ``macroscopic`` loss at the true ratio and the ``predicted`` one with
        its finite-size correction, all (n_features, draw).
    """

    def one(n: int, draw: int) -> dict[str, float]:
        rng = np.random.default_rng([seed, n, draw])
        best, matrix, bias = drawn_rug(p, n, max(1, round(ratio * n)), rng)
        # All rows are permutations of each other, so that one output has the loss of all.
        row = matrix.row(0)
        exact = solvers.row_loss(best.a * row, 0, bias, p)
        cubes, fourths = (float(np.sum(row[1:] ** k)) for k in (3, 4))
        correction = theory.edgeworth_correction(best.a, best.b, best.sigma, p, cubes, fourths)
        x = rng.random((n, samples))
        x = np.where(x < p, x / p, 0.0)
        errors = np.mean((x - np.maximum(best.a * (matrix @ x) + bias, 0.0)) ** 2, axis=0)
        mean, half = student(errors)
        return {
            "exact": exact.loss,
            "error_estimate": exact.error_estimate,
            "simulated": float(mean),
            "simulated_se": float(errors.std(ddof=1) / np.sqrt(samples)),
            "simulated_half": float(half),
            "macroscopic": float(best.loss),
            "predicted": float(best.loss + correction),
        }

    rows = [one(n, draw) for n in n_features for draw in range(draws)]
    ds = from_rows(rows, n_features=n_features, draw=draws)
    return ds.assign_attrs(p=p, ratio=ratio, samples=samples, seed=seed)


@as_annotated
def run_trained(
    n_features: int,
    p: Sequence[float],
    ratio: Sequence[float],
    seeds: Sequence[int],
    *,
    steps: int,
    evaluation_samples: int | None = None,
    init: str = "aligned",
    schedule: str = "both",
    device: str = "auto",
    keep_weights: bool = False,
) -> xr.Dataset:
    """Train the models of the product p × ratio × seed and set the theory beside them.

    Settings are those of `superposition.validate.training.train`; losses are exact unless
    `evaluation_samples` are asked for.

    Returns
    -------
    xarray.Dataset
        Dimensions ``end`` (those of the schedule) and ``model``; see `with_theory`.
    """
    settings: dict[str, Any] = {"init": init, "steps": steps, "evaluation_samples": evaluation_samples}
    settings |= {"schedule": schedule, "device": device, "keep_weights": keep_weights}
    found = train(n_features, *grid(n_features, p, ratio, seeds), **settings)
    return with_theory(found, "this run")


@plot_function
def with_theory(trained: xr.Dataset, origin: str) -> xr.Dataset:
    """Reduce a training run to what the figures need, and add the macroscopic optimum.

    Parameters
    ----------
    trained : xarray.Dataset
        From `superposition.validate.training.train`.
    origin : str
        Where the run was made, "this run" or "reference".

    Returns
    -------
    xarray.Dataset
        The kept variables, weights if there are any, and per model ``ratio``, ``optimum``, ``optimum_a``,
        ``optimum_b``, ``zero_ratio_loss``, ``origin``; per end and model ``excess`` = loss/optimum - 1 and
        ``excess_se``, the standard error of the evaluation alone.
    """
    weights = ("W_out", "W_in", "bias") if "W_out" in trained else ()
    ds = unbroken_lines(trained[[*KEPT, *WEIGHTS, *weights]].load())
    p = validation.real("p", ds["p"].values, 0, 1, brackets="(]")
    ratio = ds["n_hidden"].values / ds["n_features"].values
    best = solvers.optimum(p, ratio)
    ds = ds.assign(
        n_features=("model", np.broadcast_to(ds["n_features"].values, p.shape)),
        ratio=("model", ratio),
        optimum=("model", best.loss),
        optimum_a=("model", best.a),
        optimum_b=("model", best.b),
        zero_ratio_loss=("model", theory.zero_ratio_loss(p)),
        origin=("model", np.full(p.size, origin)),
    )
    with np.errstate(divide="ignore", invalid="ignore"):  # at ratio 1 the optimum is 0
        return ds.assign(excess=ds["loss"] / ds["optimum"] - 1, excess_se=ds["loss_se"] / ds["optimum"])


@as_annotated
def run_reference(folder: str | Path = "") -> xr.Dataset:
    """Read stored models of 128 features and more, all as one, of the project or of a folder.

    Those that were trained on from the stopping rule have no end by it, where their numbers are nan.

    Returns
    -------
    xarray.Dataset
        In the form of `with_theory`. The attribute ``provenance`` (JSON) has for each run its name, sizes,
        device, settings and wall time; ``stored_file``, ``stored_date``, ``stored_device`` are those of all.
    """
    read = read_runs("training", folder=folder, **SHOWN)
    facts = ("device_name", "torch_version", "steps", "batch_size", "wall_time_seconds", "finished")
    provenance = [
        {"run": name, "n_features": int(ds["n_features"]), "models": ds.sizes["model"]}
        | {fact: ds.attrs[fact] for fact in facts}
        for name, ds in read.items()
    ]
    each = [with_theory(ds, "reference") for ds in read.values()]
    ends = list(dict.fromkeys(end for ds in each for end in ds["end"].values))
    trained = xr.concat(each, "model", join="outer", combine_attrs="drop").sel(end=ends).drop_encoding()
    plain = json.dumps(provenance, default=lambda number: number.item())
    return trained.assign_attrs(provenance=plain, **stored_facts("training.nc", provenance))


@as_annotated
def run_checked(
    n_features: int,
    p: Sequence[float],
    ratio: Sequence[float],
    seeds: Sequence[int],
    steps: int = 1000,
    samples: int = 2**21,
) -> xr.Dataset:
    """Train models, and compute the exact finite-size loss beside that on fresh samples.

    Returns
    -------
    xarray.Dataset
        ``exact``, ``error_estimate``, ``sampled``, ``sampled_se``, ``z`` (model), at the converged end.
    """
    settings: dict[str, Any] = {"schedule": "converged", "keep_weights": True}
    trained = run_trained(n_features, p, ratio, seeds, steps=steps, evaluation_samples=samples, **settings)
    return beside_samples(trained).assign_attrs(samples=samples)


def beside_samples(trained: xr.Dataset) -> xr.Dataset:
    """Return exact losses beside those on samples, of `run_trained` with its weights."""
    end = trained.isel(end=-1)
    M = end["W_out"].values.astype(float) @ end["W_in"].values.astype(float)
    found = [solvers.exact_loss(*model) for model in zip(M, end["bias"].values, end["p"].values, strict=True)]
    exact = np.array([one.loss for one in found])
    columns = {name: end[name] for name in ("n_features", "n_hidden", "p")}
    columns |= {"sampled": end["loss"], "sampled_se": end["loss_se"]}
    errors = [one.error_estimate for one in found]
    ds = xr.Dataset(columns).assign(exact=("model", exact), error_estimate=("model", errors))
    ds["z"] = (ds["sampled"] - ds["exact"]) / ds["sampled_se"]
    return ds.drop_vars("end")
