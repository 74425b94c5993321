"""Which codes are best for features that differ: the envelope over widths, for power laws of frequencies."""

import itertools
from collections.abc import Sequence
from functools import partial

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from ....solvers.unequal import allocate, allocate_codes
from ....theory import validation
from ....theory.annotations import as_annotated
from ....theory.unequal import loss_bound, power_law, priority_loss
from ...runner.declarations import SUMS, Figure, ReproductionCheck, Run, Topic, TopicContent, from_rows, span
from ..drawing import finish_axes, plot_function
from .bracket import whole_widths

# Names of the envelope by kind; colours of all but the first (Okabe and Ito).
KINDS = {
    "dropped": ("dropped",),
    "rug": ("rug",),
    "priority": ("priority",),
    "pairs": ("pair", "skew pair"),
    "kept": ("identity",),
}
COLOURS = ("#D55E00", "#9467BD", "#56B4E9", "#0072B2")


@as_annotated
def run_codes(
    alpha: Sequence[float] = (0.0, 1.0, 2.0),
    ratio: Sequence[float] = tuple(np.geomspace(0.003, 0.8, 12)),
    number_on: Sequence[float] = (1.0, 10.0, 100.0),
    *,
    n_features: int = 1000,
) -> xr.Dataset:
    """Return the least loss of mixtures of codes for power laws of frequencies, with a lower bound.

    The dataset also has the exact loss of the priority code of the features; the bound holds for all models.

    Parameters
    ----------
    alpha : sequence of float
        Exponents of the frequencies, p_i proportional to i^-alpha.
    ratio : sequence of float
        n_hidden/n_features, ascending; each width is rounded to whole neurons.
    number_on : sequence of float
        Mean numbers of features that are on.
    n_features : int

    Returns
    -------
    xarray.Dataset
        Of (number_on, alpha, n_hidden), losses per feature: ``envelope``, the least of mixtures if each
        feature represents many of the same frequency, which share a code (`solvers.unequal.allocate_codes`);
        ``split``, the least without priority codes; ``code``, the exact loss of a priority code of these
        features, in which larger ones turn the outputs of smaller ones off; ``bound``, a lower bound for all
        models. Of (number_on, alpha, n_hidden, kind), in the envelope: ``share``, the fraction of the
        features whose code is of this kind, and ``neurons``, (its neurons) / n_features.

    Examples
    --------
    >>> ds = run_codes([1.0], [0.2], [1.0], n_features=40)
    >>> bool(ds["envelope"] < ds["split"]), float(ds["share"].sum().round(9))
    (True, 1.0)
    """
    n_features = validation.integer("n_features", n_features, 2)
    widths = whole_widths(ratio, n_features)
    rows = []
    for on, a, m in itertools.product(number_on, alpha, widths.tolist()):
        law = power_law(a, n_features, on)
        best = allocate_codes(law, m)
        kind = np.array([[name in names for name in best.names] for names in KINDS.values()])
        split = allocate(law, m, ("rug", "pairs", "skew pairs"))
        row = {
            "envelope": best.loss,
            "split": split.loss - split.gap,
            "code": priority_loss(law, m),
            "bound": loss_bound(law, m),
            "share": ("kind", kind @ best.share),
            "neurons": ("kind", kind @ best.neurons),
        }
        rows.append(row)
    ds = from_rows(rows, number_on=number_on, alpha=alpha, n_hidden=widths)
    return ds.assign_coords(kind=list(KINDS)).assign_attrs(n_features=n_features)


@plot_function
def plot_codes(ds: xr.Dataset, ax: Axes, number_on: float, alpha: float, *, legend: bool = True) -> Axes:
    """Draw the share of the neurons that each kind of code has against n_hidden/n_features.

    `ds` is from `run_codes`, `number_on` the mean number of features on, `alpha` the exponent of the power
    law of their probabilities; with `legend` codes are named.
    """
    at = ds.sel(number_on=number_on, alpha=alpha)
    ratio = at["n_hidden"] / ds.attrs["n_features"]
    parts = at["neurons"] / at["neurons"].sum("kind")
    coded = parts.drop_sel(kind="dropped")
    ax.stackplot(ratio, coded.T, labels=coded["kind"].values.tolist(), colors=COLOURS)
    ax.plot(ratio, at["share"].sel(kind="dropped"), "k--", label="features dropped")
    ax.grid(False)
    ax.set(xscale="log", ylim=(0, 1), title=f"alpha = {alpha:g}, {number_on:g} on")
    legend_style = {"loc": "lower left", "framealpha": 0.9} if legend else None
    return finish_axes(ax, legend_style, xlabel="ratio n_hidden / n_features", ylabel="share of the neurons")


def _show_codes(ds: xr.Dataset) -> TopicContent:
    """Return text and figure of the report's part "codes", from `ds` of `run_codes`.

    The figure has the share of the neurons that each code has in the best mixture, against the ratio; the
    text compares the losses of mixture, priority code and lower bound.
    """
    envelope = ds["envelope"]
    bracket = envelope / ds["bound"]
    rug_share = (ds["neurons"].sel(kind="rug") / ds["neurons"].sum("kind")).max(["alpha", "n_hidden"])
    rugs = [f"{float(share):.0%} with {float(share['number_on']):g} on" for share in rug_share]
    text = (
        "With one Lagrange multiplier for capacity, features of each frequency independently take the code "
        "that is best for them: dropped, kept, pairs, priority codes or the rug, for many copies of each "
        f"feature. For features that are alike this is the envelope of codes. Over {bracket.size} power laws "
        f"and widths (n = {ds.attrs['n_features']}) it loses {span(bracket, '.2g')} times the proved bound "
        f"of these features, their priority code {span(ds['code'] / envelope, '.3g')} times the envelope, "
        f"and without priority codes it would be {span(ds['split'] / envelope, '.3g')} times as high. Of the "
        f"neurons the rug has at most {', '.join(rugs)}."
    )
    pairs = [(float(on), float(a)) for on in ds["number_on"].values for a in ds["alpha"].values]
    figure = Figure(
        "codes",
        "Which code the neurons are spent on",
        "Colours: shares of the hidden neurons in the best mixture of codes. Dashed: share of the features "
        "that is dropped.",
        ds,
        [partial(plot_codes, number_on=on, alpha=a, legend=not k) for k, (on, a) in enumerate(pairs)],
        columns=3,
    )
    return TopicContent(text, [figure])


_CHECK = ReproductionCheck({"alpha": [1.0], "ratio": [0.003], "number_on": [1.0]}, (), 1e-6, SUMS)
RUNS = {"codes": Run.shipped("unequal_codes", "what the neurons are spent on", run_codes, check=_CHECK)}
TOPICS = [Topic("codes", ["codes"], _show_codes)]
