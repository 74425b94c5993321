"""Tables of the rug's part of the report."""

import numpy as np
import xarray as xr

from ..experiment import Table
from ..statistics import mean_and_error
from ..training import models_at

__all__ = [
    "PANELS",
    "RATIOS",
    "checked_table",
    "excess_table",
    "finite_table",
    "init_table",
    "provenance_table",
    "weights_table",
]

# The six panels of Fig. 2, and the ratios at which the loss is drawn against p.
PANELS = (0.001, 0.01, 0.05, 0.1, 0.4, 0.6)
RATIOS = (0.12, 0.25, 0.5)


def excess_table(trained: xr.Dataset) -> Table:
    """Tabulate how far trained models lie above or below the rug."""
    rows = []
    sizes = np.unique(trained["n_features"])
    for p in PANELS:
        for ratio in RATIOS:
            for n in sizes:
                mine = models_at(trained, p, ratio, n)
                if mine.size:
                    ends = [mean_and_error(trained["excess"].values[end, mine]) for end in (0, -1)]
                    lowest = trained["excess"].values[-1, mine].min()
                    rows.append((f"{p:g}", f"{ratio:g}", int(n), mine.size, *ends, f"{lowest:+.1%}"))
    columns = ("p", "ratio ≈", "n_features", "seeds", "at the stopping rule", "at convergence", "lowest seed")
    caption = (
        "loss / rug's macroscopic optimum at the true ratio, less 1: mean over seeds ± its standard error. "
        "Sizes may differ in training budget, see the provenance table."
    )
    return Table("Relative excess of trained models over the rug", columns, rows, caption)


def weights_table(trained: xr.Dataset) -> Table:
    """Tabulate diagonal, bias and Lyapunov ratio of the largest trained models beside the rug's."""
    rows = []
    n = int(np.unique(trained["n_features"])[-1])
    for p in PANELS:
        for ratio in RATIOS:
            mine = models_at(trained, p, ratio, n)
            if not mine.size:
                continue
            some = trained.isel(model=mine)
            for end in range(trained.sizes["end"]):
                at = some.isel(end=end)
                rows.append(
                    (
                        f"{p:g}",
                        f"{ratio:g}",
                        str(trained["end"].values[end]),
                        f"{float(at['diagonal_mean'].mean()):.3f} ± {float(at['diagonal_sd'].mean()):.3f}",
                        float(some["optimum_a"].mean()),
                        f"{float(at['bias_mean'].mean()):.3f} ± {float(at['bias_sd'].mean()):.3f}",
                        float(some["optimum_b"].mean()),
                        f"{float(at['lyapunov_max'].mean()):.3f}",
                        f"{float(at['dropped'].mean()):.1%}",
                    )
                )
    columns = ("p", "ratio ≈", "end", "diagonal", "rug's a", "bias", "rug's b", "Lyapunov ratio", "dropped")
    caption = (
        "Means over seeds; after ± the standard deviation over the features of a model. The rug's b is for "
        "interference of mean zero. The Lyapunov ratio (Eq. 3) is the maximum over rows; for Gaussian rows "
        f"of this length it is about {np.sqrt(8 / (np.pi * n)):.3f}, and 1 means that one other feature "
        "makes all the interference: an antipodal pair."
    )
    return Table(f"What trained weights look like, n_features = {n}", columns, rows, caption)


def init_table(aligned: xr.Dataset, linear: xr.Dataset) -> Table:
    """Tabulate what models become from the two kinds of first weights."""
    n = int(linear["n_features"][0])
    rows = []
    for p in np.unique(linear["p"]):
        for ratio in np.unique(linear["ratio"]):
            for name, ds in (("W_out = W_in'", aligned), ("independent (source)", linear)):
                mine = models_at(ds, p, ratio, n)
                excess = ds["excess"].values[:, mine]
                dropped = ds["dropped"].values[:, mine].mean(axis=1)
                ends = [(mean_and_error(excess[end]), f"{dropped[end]:.1%}") for end in (0, -1)]
                rows.append((f"{p:g}", f"{ratio:g}", name, *ends[0], *ends[1]))
    columns = (
        "p",
        "ratio",
        "first weights",
        "excess at the stopping rule",
        "dropped",
        "excess at convergence",
        "dropped",
    )
    caption = (
        f"n_features = {n}, trained in this run; means over seeds ± standard error. With independent first "
        "weights half of the diagonal starts negative; the columns `dropped` give the share of features that "
        "end with a diagonal below a tenth of the largest one."
    )
    return Table("What the first weights decide", columns, rows, caption)


def finite_table(finite: list[xr.Dataset]) -> Table:
    """Tabulate exact, predicted and simulated losses of the rug at finite size."""
    rows = []
    for ds in finite:
        for n in ds["n_features"].values:
            at = ds.sel(n_features=n)
            exact, predicted = ((at[k] / at["macroscopic"] - 1).values for k in ("exact", "predicted"))
            simulated = (at["simulated"] / at["macroscopic"] - 1).values
            z = ((at["simulated"] - at["exact"]) / at["simulated_se"]).values
            rows.append(
                (
                    f"{ds.attrs['p']:g}",
                    f"{ds.attrs['ratio']:g}",
                    int(n),
                    float(at["macroscopic"].mean()),
                    mean_and_error(exact),
                    f"{predicted.mean():+.1%}",
                    mean_and_error(simulated),
                    f"{np.abs(z).max():.1f}",
                    float((at["error_estimate"] / at["macroscopic"]).max()),
                )
            )
    columns = (
        "p",
        "ratio",
        "n_features",
        "macroscopic loss",
        "exact, excess",
        "predicted excess",
        "simulated, excess",
        "largest |z|",
        "error estimate",
    )
    caption = (
        "Means over four random rugs ± standard error over them; predicted: the first Edgeworth correction. "
        "z is the difference of simulation and exact loss in standard errors, the largest of four. The error "
        "estimate of the exact loss is relative."
    )
    return Table("The rug's exact loss tends to the macroscopic one", columns, rows, caption)


def checked_table(checked: xr.Dataset) -> Table:
    """Tabulate exact losses of trained models beside samples."""
    rows = [
        (
            int(model["n_features"]),
            int(model["n_hidden"]),
            f"{float(model['p']):g}",
            f"{float(model['exact']):.9g}",
            f"{float(model['error_estimate']):.1e}",
            f"{float(model['sampled']):.9g} ± {float(model['sampled_se']):.1e}",
            f"{float(model['z']):+.2f}",
        )
        for model in (checked.isel(model=k) for k in range(checked.sizes["model"]))
    ]
    columns = ("n_features", "n_hidden", "p", "exact loss", "error estimate", "10⁷ fresh samples", "z")
    caption = "Trained in this run; the samples' float32 arithmetic errs by about 1e-7 relative."
    return Table("Exact loss of trained models against samples", columns, rows, caption)


def provenance_table(provenance: list[dict[str, object]]) -> Table:
    """Tabulate where the reference runs come from."""
    rows = [
        (
            str(fact["file"]),
            int(str(fact["n_features"])),
            int(str(fact["models"])),
            str(fact["device_name"]),
            int(str(fact["steps"])),
            float(str(fact["wall_time_seconds"])) / 60,
            str(fact["finished"]),
        )
        for fact in provenance
    ]
    return Table(
        "Reference runs",
        ("file", "n_features", "models", "device", "steps to converge", "minutes", "finished"),
        rows,
        "Trained beforehand with `superposition train`; validate/reference/README.md gives the commands.",
    )
