"""Figs. 4 to 7 of Cowsik et al. (2024): the statistics of stored models, and their change with size."""

from collections.abc import Mapping
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from ....solvers.rug import optimum
from ....solvers.statistics import LEVEL, Estimate, mean
from ....theory import rug
from ....theory.annotations import as_annotated
from ....theory.validation import FloatArray
from ...reference.read import read_runs, stored_facts
from ...runner.declarations import Figure, Run, Table, Topic, TopicContent
from ...training.schedule import BLOCK, STOPPING_RULE
from ..drawing import draw_means, finish_axes, plot_function, size_axis
from ..rug.grids import SIZES
from ..rug.models import RATIOS, mask_broken_phases, nearest_ratio

# The points of the plane at which several sizes were trained; with n_hidden whole, ratios are near these.
P = (0.01, 0.05, 0.1, 0.4)

CELLS = tuple((p, ratio) for p in P for ratio in RATIOS)

# Settings of stored runs: trained to the stopping rule and on, for one number of steps.
TRAINED = {"schedule": "both", "steps": 8000}

AVERAGED = 10  # blocks over which the fall of the loss is averaged

# The statistics of Figs. 4-7: name in the dataset, label.
STATISTICS = {
    "diagonal_sd": "s.d. of the diagonal (Fig. 4)",
    "bias_sd": "s.d. of the bias (Fig. 5)",
    "row_variance_spread": "s.d. / mean of row variances (Fig. 6)",
    "lyapunov_max": "Lyapunov ratio (Fig. 7)",
}

DRAWN_CELLS = ((0.01, 0.25), (0.05, 0.25), (0.1, 0.12), (0.1, 0.25), (0.1, 0.5))


def symmetry(trained: xr.Dataset) -> xr.Dataset:
    """Return statistics of trained models as in Figs. 4-7 of Cowsik et al. (2024), beside the rug's loss.

    `trained` is from `validate.training.train`. The dimension end has an entry for each phase of training:
    the stopping rule, further steps.

    Of (model): ``n_features``, ``p``, ``ratio``, ``seed``; ``optimum``, the loss of the rug in the limit of
    many features, and ``linear_loss``, that of the best affine model. Of (end, model): ``loss`` per feature,
    its standard error ``loss_se``, ``excess`` = loss/optimum - 1; with M = W_out W_in, ``diagonal_mean``,
    ``diagonal_sd``, ``bias_mean`` and ``bias_sd``, means and standard deviations of M_ii and b_i over
    features; ``row_variance_variance`` (Fig. 6), the variance over rows of the variance of a row's
    off-diagonal elements, and ``row_variance_spread``, its root over the mean of the row variances;
    ``lyapunov_max`` (Eq. 3), the largest sum_j |M_ij|³ / (sum_j M_ij²)^{3/2}, j ≠ i; ``dropped``, the share
    of features whose M_ii is below a tenth of the largest.

    After a phase that broke a model (`mask_broken_phases`) its entries are nan; ``broken`` (model) marks such
    models. ``fall`` (model) is the relative fall of the loss in 100 batches, averaged over a thousand shortly
    before the stopping rule; nan without a history of losses.
    """
    p, n = trained["p"].values, int(trained["n_features"])
    trained, all_ends = mask_broken_phases(trained), trained
    ratio = trained["n_hidden"].values / n
    best = optimum(p, ratio).loss
    statistics = ("loss", "loss_se", "diagonal_mean", "diagonal_sd", "bias_mean", "bias_sd", "lyapunov_max")
    columns = trained[["p", "seed", "n_hidden", "row_variance_variance", "dropped", *statistics]].load()
    return columns.assign(
        n_features=("model", np.full(p.size, n)),
        ratio=("model", ratio),
        optimum=("model", best),
        linear_loss=("model", rug.linear_loss(p, ratio)),
        excess=trained["loss"] / best - 1.0,
        row_variance_spread=np.sqrt(trained["row_variance_variance"]) / trained["row_variance_mean"],
        fall=("model", _final_falls(all_ends)),
        broken=("model", (all_ends["loss"].notnull() & trained["loss"].isnull()).any("end").values),
    )


def _final_falls(trained: xr.Dataset) -> FloatArray:
    """Return the share (models,) by which each model's loss fell in 100 batches near the end of training.

    The fall is averaged over ten blocks of 100 batches before the stopping rule, without the last two, which
    triggered it. It is nan with fewer blocks, or if `trained`, from `validate.training.train`, has no
    histories of losses.
    """
    falls = np.full(trained.sizes["model"], np.nan)
    if "history" in trained and STOPPING_RULE in trained["end"]:
        blocks = trained["steps"].sel(end=STOPPING_RULE).values // BLOCK
        for k, (losses, count) in enumerate(zip(trained["history"].values, blocks, strict=True)):
            if count > AVERAGED + 2:
                falls[k] = (losses[count - AVERAGED - 3] / losses[count - 3] - 1) / AVERAGED
    return falls


@as_annotated
def run_stored(where: Mapping[str, Any] = TRAINED, folder: str | Path = "") -> xr.Dataset:
    """Return losses and weight statistics of the models of stored training runs, all in one dataset.

    Parameters
    ----------
    where : mapping from str to object, optional
        Settings that select the runs, such as ``{"schedule": "both", "steps": 8000}``; a value may also be a
        list or a predicate (`read.read_runs`). All runs must have the same number of steps.
    folder : path, optional
        Where the files are, if not in ``validate/reference``.

    Returns
    -------
    xarray.Dataset
        Of (model) sizes and the rug's loss, and of (end of training, model) losses and statistics of weights
        and biases such as ``diagonal_sd``, as from `symmetry`. Attributes are ``steps`` and
        ``peak_learning_rate`` (of the converging phase, 0 if there was none), ``samples`` (number of inputs
        on which a loss was evaluated), ``stored_file``, ``stored_date`` and ``stored_device``.
    """
    datasets = list(read_runs("training", folder=folder, **where).values())
    steps = {int(dataset.attrs.get("steps", 0)) for dataset in datasets}
    if len(steps) > 1:
        raise ValueError(f"`where` must be of runs of one number of steps; got {sorted(steps)}.")
    samples = min(int(dataset.attrs["evaluation_samples"]) for dataset in datasets)
    facts = stored_facts("training.nc", [dataset.attrs for dataset in datasets])
    trained = xr.concat(map(symmetry, datasets), "model", combine_attrs="drop")
    peak = max(float(dataset.attrs.get("peak_learning_rate", 0)) for dataset in datasets)
    return trained.assign_attrs(steps=steps.pop(), samples=samples, peak_learning_rate=peak, **facts)


def by_cell(trained: xr.Dataset) -> xr.Dataset:
    """Return models from `run_stored` on the axes (p, ratio, n_features, seed) in place of ``model``.

    Only models of twelve points are kept: p = 0.01, 0.05, 0.1 and 0.4, with ratios within 5 % of 0.12, 0.25
    and 0.5. Combinations that were not trained are nan.
    """
    near = nearest_ratio(trained["ratio"])
    in_cell = np.flatnonzero(np.isfinite(near) & np.isin(trained["p"].values, P))
    models = trained.assign(ratio=("model", near)).isel(model=in_cell)
    return models.set_index(model=["p", "ratio", "n_features", "seed"]).unstack("model")


def change_with_size(values: xr.DataArray, small: int, large: int, level: float = LEVEL) -> Estimate:
    """Return the factor by which a positive statistic changes from `small` to `large`, two n_features.

    The ratio of geometric means, with Student's interval, at the confidence `level`, of the logarithms;
    `values` are of (n_features, seed), from `by_cell`, and only seeds that both sizes have are compared.

    Examples
    --------
    >>> at = {"n_features": [128, 256], "seed": [0, 1, 2]}
    >>> values = xr.DataArray([[1.0, 2.0, 1.0], [0.5, 1.0, 0.6]], at)
    >>> f"{change_with_size(values, 128, 256):.2f}"
    '0.53 [0.41, 0.69]'
    """
    factors = (values.sel(n_features=large) / values.sel(n_features=small)).dropna("seed")
    log_change = mean(np.log(factors.values), level)
    value, low, high = map(float, np.exp([log_change.value, log_change.low, log_change.high]))
    return Estimate(value, low, high, level, log_change.runs)


@plot_function
def plot_symmetry(ds: xr.Dataset, ax: Axes, name: str, label: str, legend: bool = False) -> Axes:
    """Draw means over seeds of the statistic `name` against n_features, a line for each of some (p, ratio).

    `ds` is from `run_stored`; open markers are values at the stopping rule, if there are later ends. `label`
    is the label of the y axis; with `legend` the lines are named.
    """
    cells = by_cell(ds)[name]
    for k, (p, ratio) in enumerate(DRAWN_CELLS):
        for end in ds["end"].values:
            line = cells.sel(end=end, p=p, ratio=ratio).transpose("n_features", "seed")
            last = end == ds["end"].values[-1]
            style: dict[str, Any] = {"color": f"C{k + 1}", "markerfacecolor": f"C{k + 1}" if last else "none"}
            style |= {"fmt": "o-" if last else "o:", "markersize": 3.6, "linewidth": 1, "capsize": 0}
            text = f"p = {p:g}, ratio {ratio:g}" if last else None
            draw_means(ax, line["n_features"], line, label=text, **style)
    sizes = np.unique(ds["n_features"])
    if name == "lyapunov_max":
        ax.plot(sizes, np.sqrt(8 / np.pi / sizes), color="0.5", linestyle="--", label="Gaussian rows, mean")
    size_axis(ax, sizes, yscale="log")
    return finish_axes(ax, {"fontsize": 7} if legend else None, ylabel=label)


INTERVALS = f"Intervals are Student's over seeds, {LEVEL:.0%}"


def describe_ends(trained: xr.Dataset) -> str:
    """Return a sentence on the two ends of training: the stopping rule, and a number of further steps.

    The number is the attribute ``steps`` of `trained`, from `run_stored`.
    """
    return (
        f"Ends: the stopping rule of the source, and a further phase of {trained.attrs['steps']} steps with "
        "a falling learning rate (`converged` in the data)"
    )


def _show_symmetry(trained: xr.Dataset, pair: xr.Dataset) -> TopicContent:
    """Return text, figure and tables of the report's part "symmetry": features alike, by size.

    The figure has four statistics against n_features: standard deviations of the diagonal and the bias,
    spread of row variances, Lyapunov ratio. One table has the factors by which they change from each size to
    the next, the other the statistics of the best model of two features on one neuron (`pair`, from
    `run_pair`). `trained` is from `run_stored`.
    """
    cells, rows = by_cell(trained), []
    for p, ratio in CELLS:
        for end in cells["end"].values:
            sizes = cells[[*STATISTICS]].sel(p=p, ratio=ratio, end=end).dropna("n_features", how="all")
            for small, large in pairwise(sizes["n_features"].values):
                if sizes["lyapunov_max"].sel(n_features=[small, large]).notnull().all("n_features").sum() < 2:
                    continue  # fewer than two seeds have both sizes
                factor_texts = [f"{change_with_size(sizes[name], small, large):.2f}" for name in STATISTICS]
                rows.append((f"{p:g}", f"{ratio:g}", end, f"{small} to {large}", *factor_texts))
    text = (
        f"{describe_ends(trained)}. At ratio 1/2 the best model that is known is made of pairs, copies of "
        "one model of two features and one neuron. Its properties are computed without training and do not "
        "depend on n_features."
    )
    title = "Figs. 4-7: does symmetry emerge as models grow?"
    caption = (
        f"Stored models, means over seeds; {INTERVALS[0].lower()}{INTERVALS[1:]}. Open and dotted at the "
        "stopping rule of the source, filled after the further phase."
    )
    panels = [
        partial(plot_symmetry, name=name, label=label, legend=name == "diagonal_sd")
        for name, label in STATISTICS.items()
    ]
    figure = Figure("symmetry", title, caption, trained, panels, size=(4.2, 3.3))
    factors = Table(
        "Does symmetry emerge? Factors from one size to its double",
        ("p", "ratio ≈", "end", "n_features", *STATISTICS.values()),
        rows,
        f"Ratios of geometric means. {INTERVALS}. For Gaussian rows the Lyapunov ratio changes by a factor "
        "of 0.71.",
    )
    columns = {
        "p": "{p:g}",
        "loss / rug at ratio 1/2": "{relative_loss:.4f}",
        "s.d. of the diagonal": "{diagonal_sd:.2g}",
        "s.d. of the bias": "{bias_sd:.2g}",
        "s.d. / mean of row variances": "{row_variance_spread:.4f}",
        "gradient": "{gradient_norm:.0e}",
    }
    caption = "The exact loss minimised from many starts; the same for any number of such pairs."
    optimum = Table.formatted("The optimum of two features on one neuron", pair, columns, caption)
    return TopicContent(text, [figure], [factors, optimum])


def stored_models(**where: Any) -> Run:
    """Declare a call of `run_stored` that selects training runs by these settings, such as steps=8000."""
    settings = {"where": where}
    return Run(run_stored, settings, settings)


RUNS = {
    "symmetry": Run(run_stored),
    "large": stored_models(**TRAINED, n_features=list(SIZES)),
    "later": stored_models(schedule="converged", steps=16_000),
    "published": stored_models(experiment="training.published"),
    "fig3": stored_models(schedule="both", steps=4000),
}
TOPICS = [
    Topic("symmetry", ["symmetry", "pair"], _show_symmetry, claims=["C28", "C29", "C30", "C31", "C33", "C34"])
]
