"""The loss of random rugs at finite size, exact and simulated, beside the macroscopic loss."""

from collections.abc import Sequence
from functools import partial

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from ....solvers import rug as solvers
from ....solvers.rug.rows import drawn_rug
from ....solvers.statistics import student
from ....theory import rug as theory
from ....theory.annotations import as_annotated
from ...runner.declarations import Figure, Run, Table, Topic, TopicContent, from_rows
from ..drawing import finish_axes, plot_function
from .models import format_mean


@as_annotated
def run_finite_size(
    p: float, ratio: float, n_features: Sequence[int], draws: int = 4, samples: int = 2000, seed: int = 0
) -> xr.Dataset:
    """Compute losses of rugs drawn at finite sizes, powers of two: exact, and from simulated outputs.

    Rugs are the random codes of Cowsik et al. (2024), `draws` at each size. Scale and bias are those of the
    macroscopic optimum, the best ones in the limit of many features; the bias also cancels the mean of the
    interference, which is exactly known. `ratio` is n_hidden/n_features, p the probability that a feature is
    on. Each of `samples` gives n_features outputs.

    Returns
    -------
    xarray.Dataset
        Losses per feature: ``exact``, its ``error_estimate``, ``simulated``, its standard error
        ``simulated_se`` and half its 95 % interval ``simulated_half``, the ``macroscopic`` loss at the true
        ratio and the ``predicted`` one with its finite-size correction, all (n_features, draw).
    """

    def losses_of_draw(n: int, draw: int) -> dict[str, float]:
        """Return exact and simulated loss of random rug number `draw` of n features, with errors, by name."""
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

    rows = [losses_of_draw(n, draw) for n in n_features for draw in range(draws)]
    ds = from_rows(rows, n_features=n_features, draw=draws)
    return ds.assign_attrs(p=p, ratio=ratio, samples=samples, seed=seed)


@plot_function
def plot_finite_size(ds: xr.Dataset, ax: Axes, case: int = 0) -> Axes:
    """Draw losses of random codes over the macroscopic loss against n_features: exact and simulated, by draw.

    `ds` has datasets from `run_finite_size` along the dimension ``case``, of which number `case` is drawn.
    """
    ds = ds.isel(case=case)
    for draw in range(ds.sizes["draw"]):
        rugs = ds.isel(draw=draw)
        # Side by side, so that bars do not overlap.
        x = ds["n_features"].values * (1 + 0.05 * (draw - (ds.sizes["draw"] - 1) / 2))
        names = ("simulated", "simulated_half", "exact")
        simulated, half, exact = (rugs[name] / rugs["macroscopic"] for name in names)
        labels = ("simulated", "exact, each draw") if draw == 0 else (None, None)
        ax.errorbar(x, simulated, half, fmt="o", color="C1", markersize=3, elinewidth=0.8, label=labels[0])
        ax.plot(x, exact, "_", color="C2", markersize=9, label=labels[1])
    ax.axhline(1, color="C0", label="macroscopic (n → ∞)")
    ax.set(xscale="log", xlabel="n_features", ylabel="rug's loss / macroscopic loss")
    return finish_axes(ax, title=f"p = {float(ds['p']):g}, ratio = {float(ds['ratio']):g}")


def _show_finite(*finite: xr.Dataset) -> TopicContent:
    """Return figure, table and headline of the report's part "finite": random codes ("rugs") of finite size.

    The figure has their losses, exact and simulated, over the macroscopic loss, against n_features; the table
    has means of their excess, exact, simulated and predicted. `finite` are datasets of `run_finite_size`,
    each at one p and ratio.
    """
    cases = [case_ds.assign(p=case_ds.attrs["p"], ratio=case_ds.attrs["ratio"]) for case_ds in finite]
    case = xr.concat(cases, "case", combine_attrs="drop")
    draws = finite[0].sizes["draw"]
    title = "The rug at finite size tends to the macroscopic loss"
    caption = (
        "Scale and bias from the macroscopic optimum, the bias corrected for the interference's exact mean; "
        f"{draws} random rugs at each size, each simulated (bars: 95 % interval) and exact."
    )
    panels = [partial(plot_finite_size, case=k) for k in range(len(cases))]
    figure = Figure("finite-size", title, caption, case, panels, size=(4.2, 3.2))
    frame = case.to_dataframe().reset_index()
    for name in ("exact", "predicted", "simulated"):
        frame[f"{name}, excess"] = frame[name] / frame["macroscopic"] - 1
    cells = frame.groupby(["p", "ratio", "n_features"])
    means = cells[[name for name in frame if name.endswith("excess")]].agg(format_mean)
    title = "The rug's exact loss tends to the macroscopic one"
    caption = (
        f"Means over {draws} random rugs with Student's 95 % interval; predicted: the first Edgeworth "
        "correction."
    )
    table = Table.of(title, means.assign(macroscopic=cells["macroscopic"].first()).reset_index(), caption)
    largest = frame[frame["n_features"] == frame["n_features"].max()].groupby(["p", "ratio"])["exact, excess"]
    means = largest.agg(partial(format_mean, digits="+.2%"))
    excess_texts = [f"{mean} (p = {p:g}, ratio {ratio:g})" for (p, ratio), mean in means.items()]
    headline = (
        f"At n_features = {frame['n_features'].max()} the rug's exact loss differs from the macroscopic "
        f"formula by {' and '.join(excess_texts)}."
    )
    return TopicContent("", [figure], [table], headline)


def _finite_run(p: float, ratio: float) -> Run:
    """Declare a call of `run_finite_size` at one p and ratio, at sizes from 64 features on."""
    case, sizes = {"p": p, "ratio": ratio}, (64, 256, 1024, 4096)
    full = {**case, "n_features": (*sizes, 16384), "samples": 4000}
    return Run(run_finite_size, {**case, "n_features": sizes}, full, seconds=4)


RUNS = {"finite_sparse": _finite_run(0.05, 0.25), "finite_dense": _finite_run(0.4, 0.5)}
TOPICS = [Topic("finite sizes", ["finite_sparse", "finite_dense"], _show_finite, claims=["C6"])]
