"""Experiments on the symmetry of trained weights and on the rug as a minimum; nothing is drawn here."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import xarray as xr

from ...solvers import rug as solvers
from ...solvers.codes import envelopes
from ...theory import rug as theory
from ..files import read_dataset
from ..stored import REFERENCE
from ..training import grid, train
from .structure import normality, structure

__all__ = [
    "read_symmetry",
    "run_known",
    "run_structure",
    "symmetry",
]

# The points of the plane at which several sizes were trained; with n_hidden whole, ratios are near these.
P = (0.01, 0.05, 0.1, 0.4)
RATIOS = (0.12, 0.25, 0.5)
CELLS = tuple((p, ratio) for p in P for ratio in RATIOS)
SHARES = ("alone", "paired", "blocked", "remainder", "dropped")


def symmetry(trained: xr.Dataset) -> xr.Dataset:
    """Set the statistics of Figs. 4-7 of trained weights beside the rug's loss.

    Parameters
    ----------
    trained : xarray.Dataset
        From `superposition.validate.training.train`.

    Returns
    -------
    xarray.Dataset
        Of (model): ``n_features``, ``p``, ``ratio``, ``seed``, ``optimum``, ``linear_loss``. Of (end, model):
        ``loss``, ``loss_se``, ``excess`` = loss/optimum - 1, ``diagonal_mean``, ``diagonal_sd``,
        ``bias_mean``, ``bias_sd``, ``bias_effective`` (with the mean of the interference, which the rug's b
        leaves out), ``row_variance_variance`` (Fig. 6), ``row_variance_spread`` = its root over the mean of
        the row variances, ``lyapunov_max`` (Eq. 3), ``lyapunov_scaled`` = sqrt(n_features) times the mean
        over rows, ``dropped``.
    """
    p, n = trained["p"].values, int(trained["n_features"])
    ratio = trained["n_hidden"].values / n
    best = solvers.optimum(p, ratio).loss
    same = (
        "loss",
        "loss_se",
        "diagonal_mean",
        "diagonal_sd",
        "bias_mean",
        "bias_sd",
        "lyapunov_max",
        "dropped",
    )
    found = trained[["p", "seed", "n_hidden", "row_variance_variance", *same]].load()
    return found.assign(
        n_features=("model", np.full(p.size, n)),
        ratio=("model", ratio),
        optimum=("model", best),
        linear_loss=("model", theory.linear_loss(p, ratio)),
        excess=trained["loss"] / best - 1.0,
        bias_effective=trained["bias_mean"] + trained["p"] / 2 * (n - 1) * trained["row_mean_mean"],
        row_variance_spread=np.sqrt(trained["row_variance_variance"]) / trained["row_variance_mean"],
        lyapunov_scaled=np.sqrt(n) * trained["lyapunov_mean"],
    )


def read_symmetry(folder: str | Path = REFERENCE) -> xr.Dataset | None:
    """Read `symmetry` of the reference runs, all sizes and seeds as one; None if there are none."""
    paths = [path for stem in ("rug", "codes") for path in sorted(Path(folder).glob(f"{stem}_n*.nc"))]
    parts = [symmetry(read_dataset(path)) for path in paths]
    return xr.concat(parts, "model", combine_attrs="drop") if parts else None


def run_known(folder: str | Path = REFERENCE) -> xr.Dataset:
    """Compute the envelope of codes and the lower bound where the reference models stand.

    Parameters
    ----------
    folder : path, optional
        Where the reference runs are.

    Returns
    -------
    xarray.Dataset
        Of (point): ``p``, ``ratio``, ``rug``, ``balanced`` and ``envelope`` (the least loss of known codes in
        models "balanced" and "free") and ``lower_bound``.

    Raises
    ------
    ValueError
        If there are no reference runs.
    """
    trained = read_symmetry(folder)
    if trained is None:
        raise ValueError(f"`folder` must hold reference runs rug_n*.nc or codes_n*.nc; got {str(folder)!r}.")
    points = np.unique(np.stack([trained["p"].values, trained["ratio"].values]), axis=1)
    found = envelopes(points[0], points[1])
    free = found["free"]
    columns = {
        "rug": free.rug,
        "balanced": found["balanced"].loss,
        "envelope": free.loss,
        "lower_bound": free.lower_bound,
    }
    known = {"p": points[0], "ratio": points[1], **columns}
    return xr.Dataset({name: ("point", values) for name, values in known.items()})


def run_structure(
    n_features: int,
    p: Sequence[float],
    ratio: Sequence[float],
    seeds: Sequence[int],
    *,
    schedule: str = "both",
    steps: int = 4000,
    evaluation_samples: int = 2**17,
    samples: int = 4000,
    device: str = "auto",
) -> xr.Dataset:
    """Train the models of p × ratio × seed and identify the code of each.

    Parameters
    ----------
    n_features : int
    p, ratio : sequence of float
    seeds : sequence of int
    schedule : {"both", "paper", "converged"}
        Which ends to train to.
    steps : int
        Of the converging phase.
    evaluation_samples, samples : int
        Inputs for the losses, and for the test of normality.
    device : {"auto", "cpu", "cuda"}

    Returns
    -------
    xarray.Dataset
        What `symmetry` gives, and of (end, model): the shares ``dropped``, ``alone``, ``paired``,
        ``blocked``, ``remainder`` of the features, ``skew`` of the pairs, ``kurtosis`` (median over rows of
        the exact excess kurtosis of the interference), ``rejected`` (share of rows that are not normal by the
        Kolmogorov-Smirnov test); the weights ``W_out``, ``W_in``, ``bias``.
    """
    n_hidden, ps, all_seeds = grid(n_features, p, ratio, seeds)
    trained = train(
        n_features,
        n_hidden,
        ps,
        all_seeds,
        schedule=schedule,
        steps=steps,
        evaluation_samples=evaluation_samples,
        device=device,
        keep_weights=True,
    )
    names = (*SHARES, "skew", "kurtosis", "rejected")
    values = {name: np.empty((trained.sizes["end"], ps.size)) for name in names}
    M = trained["W_out"].values.astype(float) @ trained["W_in"].values.astype(float)
    for end, model in np.ndindex(M.shape[:2]):
        code = structure(M[end, model])
        law = normality(M[end, model], float(ps[model]), samples=samples, rng=0)
        here = {name: getattr(code, name) for name in (*SHARES, "skew")}
        here |= {"kurtosis": float(np.median(law.excess_kurtosis)), "rejected": law.rejected}
        for name, value in here.items():
            values[name][end, model] = value
    axes = ("end", "model")
    weights = trained[["W_out", "W_in", "bias"]]
    return xr.merge([symmetry(trained).drop_vars("dropped"), weights]).assign(
        {name: (axes, value) for name, value in values.items()}
    )
