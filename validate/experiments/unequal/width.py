"""The width law: the loss against the number of hidden neurons, for features with power-law frequencies."""

import itertools
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from ....solvers.statistics import LEVEL as CONFIDENCE
from ....solvers.statistics import line, student
from ....theory.annotations import as_annotated
from ....theory.validation import FloatArray
from ...runner.declarations import Figure, ReproductionCheck, Run, Table, Topic, TopicContent, from_rows, span
from ...runner.findings import Criterion, Finding, derived, post_hoc
from ..drawing import finish_axes, plot_function, plot_theory_vs_experiment
from .descents import NEAR_CODE, show_descents
from .models import PLACE_COLUMNS, measure_interference, source_law, train_models

ABOVE = Criterion("trained loss / proved bound", ">=", derived(1))
# What counts as level between two lengths of training, and as higher after more steps.
LEVEL = Criterion("|loss after fewer steps / after more - 1|", "<", post_hoc(0.05))
WORSE = Criterion("loss after fewer steps / after more - 1", "<", -post_hoc(0.05))
_DIMS = ("alpha", "tied", "weight_decay", "n_hidden", "steps", "seed")


@as_annotated
def run_width(
    alpha: Sequence[float] = (0.0, 1.0, 2.0),
    n_hidden: Sequence[int] = (1, 3, 10, 32, 100),
    *,
    n_features: int = 128,
    on: float = 1.0,
    tied: Sequence[int] = (0, 1),
    weight_decay: Sequence[float] = (0.0,),
    steps: Sequence[int] = (2000, 8000),
    seeds: Sequence[int] = range(2),
    batch: int = 512,
    device: str = "auto",
    folder: str = "",
) -> xr.Dataset:
    """Train models on features with power-law frequencies; return their exact losses and capacities.

    A capacity is a feature's share of a dimension (`theory.unequal.capacities`); the source is Liu et al.
    (2025). Training is by Adam, with a learning rate that falls from 1e-2 by half a cosine.

    Parameters
    ----------
    alpha : sequence of float
        Exponents of the frequencies, p_i proportional to i^-alpha.
    n_hidden : sequence of int
    n_features : int
    on : float
        Mean number of features that are on; values are uniform on [0, 2].
    tied : sequence of int
        1 for W_out = W_in', as in the source, 0 for free weights.
    weight_decay : sequence of float
        Each step multiplies weights by 1 - weight_decay * (learning rate); if it is negative, the lengths of
        encodings and decodings decay to 1 instead. The source has -1 to 1.
    steps : sequence of int
        Lengths of training, multiples of 100, each with its own schedule. How much losses fall from one to
        the next shows how far they are from convergence.
    seeds : sequence of int
        Seeds of first weights and data.
    batch : int
        Fresh samples in each step; 2048 in the source.
    device : {"auto", "cpu", "cuda"}
    folder : str, optional
        Where the state of training is kept, so that an interrupted run continues.

    Returns
    -------
    xarray.Dataset
        Of (alpha, tied, weight_decay, n_hidden, steps, seed): ``loss`` per feature, exact, and
        ``loss_error``; ``capacity``, the sum of capacities; ``normal``, the loss if interference with these
        capacities were normal; ``opposed``, the share of the variance of interference from weights M_ij with
        the opposite sign of M_ii.
    """
    # The models of one call of `train_models` have these axes, the loop has the others.
    models_axes = {"n_hidden": list(n_hidden), "seed": list(seeds)}
    axes: dict[str, Any] = {"alpha": alpha, "tied": tied, "weight_decay": weight_decay, "steps": steps}
    hidden, seed = (np.ravel(grid) for grid in np.meshgrid(*models_axes.values(), indexing="ij"))
    rows, facts = [], {}
    for exponent, is_tied, decay, length in itertools.product(*axes.values()):
        law = source_law(exponent, n_features, on)
        name = f"width_n{n_features}_on{on:g}_a{exponent:g}_t{is_tied}_d{decay:g}_s{length}_b{batch}"
        name += f"_m{'-'.join(map(str, n_hidden))}_r{'-'.join(map(str, seeds))}.ckpt"
        settings = {
            "tied": bool(is_tied),
            "weight_decay": decay,
            "device": device,
            "checkpoint": Path(folder) / name if folder else None,
        }
        ds, models = train_models(law, hidden, seed, length, batch, **settings)
        facts = ds.attrs
        losses = zip(ds["loss"].values, ds["loss_se"].values, models, strict=True)
        rows += [
            {"loss": loss, "loss_error": error, **measure_interference(W_out @ W_in, law)}
            for loss, error, (W_out, W_in, _) in losses
        ]
    ds = from_rows(rows, **axes, **models_axes).transpose(*_DIMS)
    return ds.assign_attrs({"n_features": n_features, "on": on, "batch": batch} | facts)


def exponents(loss: FloatArray, n_hidden: FloatArray) -> FloatArray:
    """Return least-squares exponents e of a loss ~ n_hidden^-e; n_hidden is the loss's first axis.

    Examples
    --------
    >>> exponents(np.array([[1.0, 2.0], [0.1, 0.02]]), np.array([1, 10])).round(12)
    array([1., 2.])
    """
    return -line(np.log(n_hidden), np.log(loss))[1]


@plot_function
def plot_width(ds: xr.Dataset, ax: Axes, alpha: float) -> Axes:
    """Draw trained losses against n_hidden at one alpha, beside three predictions.

    The predictions are the lower bound, the priority code and the best split of the hidden neurons. `ds`
    joins the datasets of `run_width` and `run_split`.
    """
    at = ds.sel(alpha=alpha)
    lines = [
        at[name].assign_attrs(label=label)
        for name, label in (
            ("bound", "proved bound"),
            ("priority", "priority code, exact"),
            ("split", "best split, normal interference"),
        )
    ]
    runs = at["loss"].isel(steps=-1, weight_decay=0).sel(tied=0).transpose("n_hidden", "seed", ...)
    plot_theory_vs_experiment(lines, runs, ax)
    labels = {"xlabel": "n hidden", "ylabel": "loss per feature", "title": f"alpha = {alpha:g}"}
    return finish_axes(ax, xscale="log", yscale="log", **labels)


def judge_width(ds: xr.Dataset, split: xr.Dataset, descended: xr.Dataset) -> list[Finding]:
    """Return two findings: trained models are above the bound, and exact descents end near the priority code.

    The numbers are (trained loss) / (lower bound) and |(best end of descents) / (code's loss) - 1|. `ds` is
    from `run_width` (trained models), `split` from `run_split` (the bound), `descended` from `run_descended`
    (descents and the code's loss).
    """
    free = ds["loss"].sel(tied=0, alpha=split["alpha"], n_hidden=split["n_hidden"])
    best = descended["loss"].min("begin")
    return [
        ABOVE.finding(free.isel(weight_decay=0, steps=-1) / split["bound"], origin=ds),
        NEAR_CODE.finding(abs(best / descended["priority"] - 1), origin=descended),
    ]


def _width_text(ds: xr.Dataset, split: xr.Dataset, ratio: xr.DataArray, drift: xr.DataArray) -> str:
    """Return text on trained models beside the lower bound, the priority code and the best split.

    `ds` is from `run_width` (trained models), `split` from `run_split` (predictions). `ratio` (alpha,
    n_hidden) is (mean loss of models with free weights) / (code's loss); `drift` (alpha, tied, n_hidden) is
    (loss after the shortest training) / (loss after the longest), a mean over seeds.
    """
    widths, n_features = split["n_hidden"].values, ds.attrs["n_features"]
    free = ds.isel(weight_decay=0, steps=-1).sel(tied=0, drop=True)
    slopes = []
    for a in split["alpha"].values:
        loss = free["loss"].sel(alpha=a).transpose("n_hidden", "seed").values
        mean, half = student(exponents(loss, widths))
        slopes.append(f"{mean:.2f} ± {half:.2f} at alpha = {a:g}")
    narrow = [m for m in widths if m < n_features / 2]
    shape = (free["loss"] / free["normal"]).sel(n_hidden=[m for m in narrow if m >= 10]).mean("seed")
    mean_loss = free["loss"].mean("seed")
    below = int((mean_loss < split["loss"]).sum())
    level, worse = int(LEVEL.satisfied(abs(drift - 1)).sum()), int(WORSE.satisfied(drift - 1).sum())
    times = [
        f"{span(ratio.sel(alpha=a, n_hidden=narrow), '.2g')} (alpha = {a:g})" for a in split["alpha"].values
    ]
    return (
        f"Models of {n_features} features, {ds.attrs['on']:g} on at a time on average, with free weights: "
        f"from {widths[0]} to {widths[-1]} hidden neurons the loss falls with the exponents "
        f"{', '.join(slopes)} (least squares over all widths, {CONFIDENCE:.0%} over {ds.sizes['seed']} "
        "seeds). The loss is not a power of the width.\n\nFew features are on at a time, and the "
        "interference is not normal. Trained models with free weights give up capacity to have nearly all of "
        "their interference negative, so that an output that is off stays off: from m = 10 to n/2 they lose "
        f"{span(shape, '.2f')} times what normal interference of the same capacities would cost, and at "
        f"{below} of {mean_loss.size} settings less than the best split of capacity. Even so they are not "
        "the best models: the loss of a priority code, in which larger features turn the outputs of smaller "
        f"ones off, has a closed form, and below n/2 trained models lose {'; '.join(times)} times as much. "
        "Both are exact losses; the code's is a limit of lengths that differ by many decades. Training has "
        f"not converged either: {level} of {int(drift.notnull().sum())} settings move by less than "
        f"{LEVEL:.0%} from {int(ds['steps'][0])} to {int(ds['steps'][-1])} steps, and {worse} end higher "
        "after more steps."
    )


def _show_width(ds: xr.Dataset, split: xr.Dataset, descended: xr.Dataset) -> TopicContent:
    """Return text, figure and tables of the report's part "width": loss against the number of neurons.

    Figure and first table have losses of trained models, lower bound, priority code and best split; the
    second table has exact descents. `ds` is from `run_width` (trained models), `split` of `run_split` (bounds
    and codes), `descended` of `run_descended` (exact descents).
    """
    ds = ds.sel(alpha=split["alpha"], n_hidden=split["n_hidden"])
    trained = ds.isel(weight_decay=0, steps=-1)
    free = trained.sel(tied=0, drop=True)
    ratio = free["loss"].mean("seed") / split["priority"]
    drift = (ds["loss"].isel(weight_decay=0, steps=0) / trained["loss"]).mean("seed")
    caption = (
        f"Mean losses over {ds.sizes['seed']} seeds after {int(ds['steps'][-1])} steps. Split: the least "
        "loss if interference is normal. Shorter: loss after fewer steps over that, free weights. Shape: the "
        "loss over that of normal interference of the same capacities, and the share of its variance that is "
        "negative."
    )
    descents_text, descents_table = show_descents(descended)
    loss = trained["loss"].mean("seed")
    means = {"tied" if t else "free": loss.sel(tied=t, drop=True) for t in ds["tied"].values}
    columns = PLACE_COLUMNS | {"bound": "{bound:.3g}", "code": "{priority:.3g}", "split": "{loss:.3g}"}
    columns |= {name: f"{{{name}:.3g}}" for name in means}
    columns |= {"shorter": "{shorter:.2f}", "shape": "{shape:.2f}", "negative": "{negative:.0%}"}
    means |= {
        "shorter": drift.sel(tied=0, drop=True),
        "shape": (free["loss"] / free["normal"]).mean("seed"),
        "negative": free["opposed"].mean("seed"),
    }
    rows = split.drop_dims("kind").assign(means)
    table = Table.formatted("Theory and training over the widths", rows, columns, caption)
    merged = split.rename(loss="split").merge(ds[["loss"]])
    merged.attrs = dict(ds.attrs)
    figure = Figure(
        "width",
        "Loss against width",
        f"Trained models with free weights, {CONFIDENCE:.0%} intervals, beside theory without a "
        "fitted constant.",
        merged,
        [partial(plot_width, alpha=float(a)) for a in split["alpha"].values],
        columns=3,
    )
    n_features = ds.attrs["n_features"]
    narrow = [m for m in split["n_hidden"].values if m < n_features / 2]
    return TopicContent(
        f"{_width_text(ds, split, ratio, drift)}\n\n{descents_text}",
        [figure],
        [table, descents_table],
        f"The least loss of n = {n_features} features is known within a factor of "
        f"{float((split['priority'] / split['bound']).max()):.1f} at every width, and gradient descent stays "
        f"up to {float(ratio.sel(n_hidden=narrow).max()):.1f} times above a code whose loss is exact (m < "
        "n/2).",
    )


def exact_check(n_hidden: int, **settings: Any) -> ReproductionCheck:
    """Declare a check that retrains the models of one width, `n_hidden`: results must agree to 1e-6.

    `settings` are further ones of `run_width` that select what is trained.
    """
    reason = "exact losses are computed to 1e-6, by code that has changed"
    return ReproductionCheck({"n_hidden": [n_hidden], **settings}, (), 1e-6, reason)


def stored_run(purpose: str, settings: Mapping[str, Any] | None = None, **options: Any) -> Run:
    """Declare a stored run of `run_width` with these settings.

    `purpose` is a line on its purpose; `options` are fields of `Run`, such as `check`.
    """
    return Run.shipped("unequal_width", purpose, run_width, settings, torch=True, **options)


# Five seeds that nothing has used.
_FRESH = {"alpha": [1], "n_hidden": [10, 32], "tied": [0], "steps": [8000], "seeds": [6, 7, 8, 9, 10]}
RUNS = {
    "width": stored_run(
        "the width law",
        check=exact_check(3, tied=[0], steps=[2000], seeds=[0]),
        split_by=[{"alpha": [0]}, {"alpha": [1]}, {"alpha": [2]}],
        concat_dim="alpha",
    ),
    "fresh": stored_run(
        "the width law, seeds that were not seen when U2 was worded",
        _FRESH,
        check=exact_check(10, seeds=[6]),
    ),
}
TOPICS = [
    Topic("width", ["width", "split", "descended"], _show_width, claims=["U1", "U2"], judge=judge_width),
]
