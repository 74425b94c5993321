"""Experiments on the rug: each returns a dataset, nothing is drawn or written here."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import xarray as xr

from ...solvers import rug as solvers
from ...theory import arguments
from ...theory import rug as theory
from ..files import read_dataset
from ..stored import REFERENCE
from ..training import grid, train

__all__ = [
    "read_reference",
    "run_bias",
    "run_exact_against_samples",
    "run_finite_size",
    "run_rug",
    "run_theory",
    "run_trained",
    "with_theory",
]


# What is kept of a training run: enough for the figures and tables, without the loss histories.
KEPT = (
    "n_features",
    "n_hidden",
    "p",
    "seed",
    "steps",
    "loss",
    "loss_se",
    "diagonal_mean",
    "diagonal_sd",
    "bias_mean",
    "bias_sd",
    "lyapunov_max",
    "dropped",
)


def run_rug(n_features: int = 256, n_hidden: int = 40, seed: int = 0) -> xr.Dataset:
    """Make the matrix of Fig. 1.

    Parameters
    ----------
    n_features, n_hidden : int
        A power of two, and the rank.
    seed : int
        Which Hadamard rows are drawn.

    Returns
    -------
    xarray.Dataset
        ``rug`` (row, column), unit diagonal.
    """
    matrix = solvers.rug_matrix(n_features, n_hidden, seed).todense()
    return xr.Dataset({"rug": (("row", "column"), matrix)}, attrs={"n_hidden": n_hidden, "seed": seed})


def run_theory(p: npt.ArrayLike, ratio: npt.ArrayLike) -> xr.Dataset:
    """Compute the macroscopic optimum and the limits beside it on the product p × ratio.

    Returns
    -------
    xarray.Dataset
        ``loss``, ``a``, ``b``, ``sigma``, ``linear_loss``, ``asymptotic_loss`` (p, ratio);
        ``zero_ratio_loss``, ``crossover_ratio`` (p).
    """
    p, ratio = np.atleast_1d(p).astype(float), np.atleast_1d(ratio).astype(float)
    best = solvers.optimum(p[:, None], ratio)
    grid_axes = ("p", "ratio")
    return xr.Dataset(
        {
            "loss": (grid_axes, best.loss),
            "a": (grid_axes, best.a),
            "b": (grid_axes, best.b),
            "sigma": (grid_axes, best.sigma),
            "linear_loss": (grid_axes, theory.linear_loss(p[:, None], ratio)),
            "asymptotic_loss": (grid_axes, theory.asymptotic_loss(p[:, None], ratio)),
            "zero_ratio_loss": ("p", theory.zero_ratio_loss(p)),
            "crossover_ratio": ("p", solvers.crossover_ratio(p)),
        },
        {"p": p, "ratio": ratio},
    )


def run_bias(p: float, ratio: npt.ArrayLike, shift: npt.ArrayLike) -> xr.Dataset:
    """Profile of the macroscopic loss over the shift b/(a sigma), the scale optimal at each.

    Returns
    -------
    xarray.Dataset
        ``profile`` (ratio, shift), relative to the loss at ratio 0; ``best_shift``, ``best`` (ratio).
    """
    ratio, shift = np.atleast_1d(ratio).astype(float), np.atleast_1d(shift).astype(float)
    sigma = theory.sigma(p, ratio)[:, None]
    a = theory.optimal_scale(shift * sigma, sigma, p)
    zero = theory.zero_ratio_loss(p)
    best = solvers.optimum(p, ratio)
    return xr.Dataset(
        {
            "profile": (("ratio", "shift"), theory.loss(a, a * shift * sigma, sigma, p) / zero),
            "best_shift": ("ratio", best.b / (best.a * best.sigma)),
            "best": ("ratio", best.loss / zero),
        },
        {"ratio": ratio, "shift": shift},
        {"p": p},
    )


def run_finite_size(
    p: float, ratio: float, n_features: Sequence[int], draws: int = 4, samples: int = 2000, seed: int = 0
) -> xr.Dataset:
    """Loss of the rug at finite size: exact, and simulated through the operator.

    Scale and bias are those of the macroscopic optimum; the bias also takes up the mean of the
    interference, which is exactly known.

    Parameters
    ----------
    p, ratio : float
    n_features : sequence of int
        Powers of two.
    draws : int
        Rugs drawn at each size.
    samples : int
        Simulated inputs for each rug; every one gives n_features outputs.
    seed : int

    Returns
    -------
    xarray.Dataset
        ``exact``, ``error_estimate``, ``simulated``, ``simulated_se``, the ``macroscopic`` loss at the true
        ratio and the ``predicted`` one with its finite-size correction, all (n_features, draw).
    """
    shape = (len(n_features), draws)
    names = ("exact", "error_estimate", "simulated", "simulated_se", "macroscopic", "predicted")
    values = {name: np.empty(shape) for name in names}
    for i, n in enumerate(n_features):
        n_hidden = max(1, round(ratio * n))
        best = solvers.optimum(p, n_hidden / n)
        for draw in range(draws):
            rng = np.random.default_rng([seed, n, draw])
            matrix = solvers.rug_matrix(n, n_hidden, rng)
            rows = solvers.row_statistics(matrix, p)
            bias = best.b - best.a * rows.interference_mean
            # All rows are permutations of each other, so that one output has the loss of all.
            row = matrix.row(0)
            exact = solvers.row_loss(best.a * row, 0, bias, p)
            cubes, fourths = (float(np.sum(row[1:] ** k)) for k in (3, 4))
            correction = theory.finite_size_correction(best.a, best.b, best.sigma, p, cubes, fourths)
            x = rng.random((n, samples))
            x = np.where(x < p, x / p, 0.0)
            errors = np.mean((x - np.maximum(best.a * (matrix @ x) + bias, 0.0)) ** 2, axis=0)
            found = {
                "exact": exact.loss,
                "error_estimate": exact.error_estimate,
                "simulated": errors.mean(),
                "simulated_se": errors.std(ddof=1) / np.sqrt(samples),
                "macroscopic": best.loss,
                "predicted": best.loss + correction,
            }
            for name, value in found.items():
                values[name][i, draw] = value
    axes = ("n_features", "draw")
    return xr.Dataset(
        {name: (axes, array) for name, array in values.items()},
        {"n_features": list(n_features)},
        {"p": p, "ratio": ratio, "samples": samples, "seed": seed},
    )


def run_trained(
    n_features: int,
    p: Sequence[float],
    ratio: Sequence[float],
    seeds: Sequence[int],
    *,
    steps: int,
    evaluation_samples: int,
    init: str = "aligned",
    device: str = "auto",
    keep_weights: bool = False,
) -> xr.Dataset:
    """Train the models of the product p × ratio × seed and set the theory beside them.

    Returns
    -------
    xarray.Dataset
        Dimensions ``end`` ("stopping rule", "converged") and ``model``; see `with_theory`.
    """
    n_hidden, ps, all_seeds = grid(n_features, p, ratio, seeds)
    found = train(
        n_features,
        n_hidden,
        ps,
        all_seeds,
        steps=steps,
        evaluation_samples=evaluation_samples,
        init=init,
        device=device,
        keep_weights=keep_weights,
    )
    return with_theory(found, "this run")


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
    kept = [*KEPT, *weights]
    ds = trained[kept].load()
    p = arguments.real("p", ds["p"].values, 0, 1, brackets="(]")
    ratio = ds["n_hidden"].values / ds["n_features"].values
    best = solvers.optimum(p, ratio)
    sizes = np.broadcast_to(ds["n_features"].values, p.shape)
    ds = ds.assign(
        n_features=("model", sizes),
        ratio=("model", ratio),
        optimum=("model", best.loss),
        optimum_a=("model", best.a),
        optimum_b=("model", best.b),
        zero_ratio_loss=("model", theory.zero_ratio_loss(p)),
        origin=("model", np.full(p.size, origin)),
    )
    with np.errstate(divide="ignore", invalid="ignore"):  # at ratio 1 the optimum is 0
        ds["excess"] = ds["loss"] / ds["optimum"] - 1
        ds["excess_se"] = ds["loss_se"] / ds["optimum"]
    return ds


def read_reference(folder: str | Path = REFERENCE) -> tuple[xr.Dataset | None, list[dict[str, object]]]:
    """Read the reference runs that came with the project.

    Returns
    -------
    trained : xarray.Dataset or None
        All runs as one, in the form of `with_theory`; None if there are none.
    provenance : list of dict
        For each file its name, sizes, device, settings and wall time.
    """
    parts, provenance = [], []
    for path in sorted(Path(folder).glob("rug_n*.nc")):
        ds = read_dataset(path)
        parts.append(with_theory(ds, "reference"))
        facts = ("device_name", "torch_version", "steps", "batch_size", "wall_time_seconds", "finished")
        provenance.append(
            {
                "file": path.name,
                "n_features": int(ds["n_features"]),
                "models": ds.sizes["model"],
                **{name: ds.attrs[name] for name in facts},
            }
        )
    return (xr.concat(parts, "model", combine_attrs="drop") if parts else None), provenance


def run_exact_against_samples(trained: xr.Dataset) -> xr.Dataset:
    """Compute the exact finite-size loss of trained weights beside their loss on fresh samples.

    Parameters
    ----------
    trained : xarray.Dataset
        From `run_trained` with weights kept.

    Returns
    -------
    xarray.Dataset
        ``exact``, ``error_estimate``, ``sampled``, ``sampled_se``, ``z`` (model), at the converged end.
    """
    end = trained.isel(end=-1)
    exact, error = np.empty(end.sizes["model"]), np.empty(end.sizes["model"])
    for k in range(exact.size):
        model = end.isel(model=k)
        M = model["W_out"].values.astype(float) @ model["W_in"].values.astype(float)
        found = solvers.exact_loss(M, model["bias"].values, float(model["p"]))
        exact[k], error[k] = found.loss, found.error_estimate
    return xr.Dataset(
        {
            "n_features": end["n_features"],
            "n_hidden": end["n_hidden"],
            "p": end["p"],
            "exact": ("model", exact),
            "error_estimate": ("model", error),
            "sampled": end["loss"],
            "sampled_se": end["loss_se"],
            "z": (end["loss"] - exact) / end["loss_se"],
        }
    ).drop_vars("end")
