"""Tables of the part of the report on codes and symmetry."""

import numpy as np
import xarray as xr
from scipy import stats

from ..experiment import Table
from ..statistics import mean_and_error, power
from ..training import models_at
from .runs import CELLS, SHARES

__all__ = [
    "copies_table",
    "departure_table",
    "hessian_table",
    "loss_table",
    "polished_table",
    "structure_table",
    "trend_table",
]

TRENDS = ("diagonal_sd", "bias_sd", "row_variance_spread", "lyapunov_max")


def _cells(ds: xr.Dataset) -> list[tuple[float, float, np.ndarray]]:
    """Return p, ratio and models of each cell with more than one size."""
    found = [(p, ratio, models_at(ds, p, ratio)) for p, ratio in CELLS]
    return [one for one in found if np.unique(ds["n_features"].values[one[2]]).size > 1]


def loss_table(ds: xr.Dataset, known: xr.Dataset) -> Table:
    """Tabulate losses of the reference models in units of the rug's, beside the envelope and the bound."""
    rows = []
    at = list(zip(known["p"].values, known["ratio"].values, strict=True))
    for p in np.unique(ds["p"]):
        for n in np.unique(ds["n_features"]):
            here = (ds["p"].values == p) & (ds["n_features"].values == n)
            for ratio in np.unique(ds["ratio"].values[here]):
                mine = np.flatnonzero(here & (ds["ratio"].values == ratio))
                rug = ds["optimum"].values[mine]
                ends = [mean_and_error(values, ".1%") for values in ds["loss"].values[:, mine] / rug]
                point = known.isel(point=at.index((p, ratio)))
                beside = (float(point[name]) / rug[0] for name in ("balanced", "envelope", "lower_bound"))
                affine = float(ds["linear_loss"].values[mine[0]]) / rug[0]
                shown = [f"{value:.1%}" for value in (*beside, affine)]
                rows.append((f"{p:g}", f"{ratio:.3g}", int(n), mine.size, *ends, *shown))
    columns = (
        "p",
        "ratio",
        "n_features",
        "seeds",
        "at the stopping rule",
        "at convergence",
        "balanced codes",
        "all codes",
        "proved lower bound",
        "affine",
    )
    caption = (
        "In units of the rug's macroscopic loss; means over seeds ± standard error. Codes: the least loss "
        "among known ones and their mixtures, with features that are all alike or with weights of all "
        "sizes."
    )
    return Table("Loss of trained models relative to the rug", columns, rows, caption)


def copies_table(ds: xr.Dataset, longer: xr.Dataset | None = None) -> Table:
    """Set converged models beside copies of the smallest ones, side by side in blocks of their own.

    Parameters
    ----------
    ds : xarray.Dataset
        From `read_symmetry`.
    longer : xarray.Dataset, optional
        Converged models of one size, p and ratio that were trained for more steps, from `symmetry`, with the
        attribute ``steps``.
    """
    rows = []

    def add(p: float, ratio: float, names: list[str], losses: list[np.ndarray]) -> None:
        small, large = losses[0], losses[-1]
        gap = large.mean() / small.mean() - 1.0
        error = np.hypot(stats.sem(large) / large.mean(), stats.sem(small) / small.mean()) * (1.0 + gap)
        text = ", ".join(f"{loss.mean():.4g}" for loss in losses)
        rows.append((f"{p:g}", f"{ratio:g}", ", ".join(names), text, f"{gap:+.1%} ± {error:.1%}"))

    for p, ratio, models in _cells(ds):
        sizes = np.unique(ds["n_features"].values[models])
        if np.unique(ds["ratio"].values[models]).size > 1:
            continue  # no number of copies makes the larger model
        losses = [ds["loss"].values[-1, models_at(ds, p, ratio, n)] for n in sizes]
        add(p, ratio, [str(n) for n in sizes], losses)
        if longer is not None and (float(longer["p"][0]), float(longer["ratio"][0])) == (p, ratio):
            long = longer["loss"].values[-1]
            name = f"{int(longer['n_features'][0])} trained for {longer.attrs['steps']} steps"
            add(p, ratio, [str(sizes[0]), name], [losses[0], long])
    columns = ("p", "ratio", "n_features", "mean loss at convergence", "largest over copies of the smallest")
    caption = (
        "Copies of a model side by side, each with features and neurons of its own, have its loss per "
        "feature: the least loss at a ratio never rises from n_features to a multiple of it. Where the "
        "last column is above 0 the large models are not optimal, whatever their structure. Trained for "
        "8000 steps unless it is said. ± standard error over seeds."
    )
    return Table("What large models miss: copies of small ones", columns, rows, caption)


def trend_table(ds: xr.Dataset) -> Table:
    """Tabulate the powers of n_features with which the statistics of Figs. 4-7 change."""
    rows = []
    for p, ratio, models in _cells(ds):
        sizes = ds["n_features"].values[models]
        for end in range(ds.sizes["end"]):
            powers = []
            for name in TRENDS:
                slope = power(sizes, ds[name].values[end, models])
                powers.append(f"{slope.value:+.2f} ± {slope.high - slope.value:.2f}")
            rows.append((f"{p:g}", f"{ratio:g}", str(ds["end"].values[end]), *powers))
    columns = (
        "p",
        "ratio ≈",
        "end",
        "diagonal s.d.",
        "bias s.d.",
        "row variances, s.d./mean",
        "Lyapunov ratio",
    )
    caption = (
        "Slopes of log statistic against log n_features over all sizes and seeds of the reference runs, "
        "with 95 % intervals. -0.5 would be the Lyapunov ratio of Gaussian rows; 0 means that nothing "
        "changes."
    )
    return Table("Does symmetry emerge? Powers of n_features", columns, rows, caption)


def structure_table(ds: xr.Dataset) -> Table:
    """Tabulate which codes trained models use."""
    rows = []
    for k in range(ds.sizes["model"]):
        for end in range(ds.sizes["end"]):
            at = ds.isel(model=k, end=end)
            shares = [f"{float(at[name]):.0%}" for name in SHARES]
            skew = float(at["skew"])
            rows.append(
                (
                    f"{float(at['p']):g}",
                    f"{float(at['ratio']):g}",
                    int(at["seed"]),
                    str(ds["end"].values[end]),
                    f"{float(at['excess']):+.1%} ± {float(at['loss_se'] / at['optimum']):.1%}",
                    *shares,
                    "" if np.isnan(skew) else f"{skew:.2f}",
                    f"{float(at['kurtosis']):.2f}",
                    f"{float(at['rejected']):.0%}",
                )
            )
    columns = (
        "p",
        "ratio",
        "seed",
        "end",
        "excess",
        *SHARES,
        "skew of pairs",
        "excess kurtosis",
        "not normal",
    )
    caption = (
        f"n_features = {int(ds['n_features'][0])}. Skew: median over pairs of the larger of -M_ij, -M_ji; "
        "3 is best for small p. Excess kurtosis of the interference, exact, median over rows; `not "
        "normal`: share of rows for which the Kolmogorov-Smirnov test on 4000 inputs rejects a normal law "
        "(1 % for all rows together)."
    )
    return Table("The codes of trained models", columns, rows, caption)


def hessian_table(ds: xr.Dataset) -> Table:
    """Tabulate the exact Hessian at the rug."""
    rows = []
    for c in range(ds.sizes["case"]):
        for i, n in enumerate(ds["n_features"].values):
            at = ds.isel(case=c, n_features=i)
            rows.append(
                (
                    f"{float(at['p']):g}",
                    f"{float(at['ratio']):g}",
                    int(n),
                    f"{float(at['relative_loss']):.3f}",
                    f"{float(at['lowest']):+.4f} ± {float(at['error']):.0e}",
                    f"{int(at['negative'])} of {int(at['modes'])}",
                    f"{float(at['symmetric']):+.4f}",
                    f"{float(at['diagonal_share']):.2f}",
                    f"{float(at['bias_share']):.2f}",
                    f"{float(at['skew_share']):.2f}",
                )
            )
    columns = (
        "p",
        "ratio",
        "n_features",
        "loss / macroscopic",
        "least curvature / p",
        "negative",
        "least, all features alike",
        "on the diagonal",
        "on the bias",
        "antisymmetric",
    )
    caption = (
        "At the critical point beside a random rug, which has the least loss among matrices that depend "
        "on i XOR j alone, near it. Steps on matrices of rank n_hidden and biases, of unit length; the "
        "last three columns are shares of the squared length of the step of least curvature."
    )
    return Table("Exact Hessian at the rug", columns, rows, caption)


def departure_table(ds: xr.Dataset) -> Table:
    """Tabulate where descent from the rug ends."""
    rows = [
        (
            f"{float(at['p']):g}",
            f"{float(at['ratio']):g}",
            f"{float(at['start']):.3f}",
            f"{float(at['end']):.3f}",
            f"{float(at['moved']):.2f}",
            *(f"{float(at[name]):.0%}" for name in SHARES),
            f"{float(at['largest']):.2f}",
            f"{float(at['slope']):.1e}",
        )
        for at in (ds.isel(case=c) for c in range(ds.sizes["case"]))
    ]
    columns = (
        "p",
        "ratio",
        "loss at the rug",
        "at the end",
        "change of M",
        *SHARES,
        "largest beside",
        "slope / p",
    )
    caption = (
        f"n_features = {ds.attrs['n_features']}. Weights of the critical point beside the rug, each moved "
        f"by a normal number of standard deviation {ds.attrs['kick']:g}, then L-BFGS on the exact loss. "
        "Losses in units of the macroscopic rug's. `largest beside`: largest |M_ij| off the diagonal."
    )
    return Table("Started at the rug, does it stay?", columns, rows, caption)


def polished_table(ds: xr.Dataset) -> Table:
    """Tabulate descents on the exact loss from trained weights."""
    rows = [
        (
            f"{float(at['p']):g}",
            f"{float(at['ratio']):g}",
            int(at["n_features"]),
            f"{float(at['before'] / at['optimum']):.5f}",
            f"{float(at['after'] / at['optimum']):.5f}",
            f"{float(at['slope']):.1e}",
            f"{float(at['lowest']):+.1e} ± {float(at['lowest_error']):.0e}",
            int(at["negative"]),
            *(f"{float(at[name]):.0%}" for name in SHARES),
        )
        for at in (ds.isel(model=k) for k in range(ds.sizes["model"]))
    ]
    columns = (
        "p",
        "ratio",
        "n_features",
        "trained",
        "polished",
        "slope / p",
        "least curvature / p",
        "negative",
        *SHARES,
    )
    caption = (
        "Exact losses in units of the macroscopic rug's. No negative curvature beyond its error, no "
        "slope: a local minimum."
    )
    return Table("Trained models on the exact loss", columns, rows, caption)
