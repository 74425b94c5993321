"""The width law as a map: local exponents of loss against width, from a proved bound and an exact code."""

import itertools
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.colors import TwoSlopeNorm

from ....theory import validation
from ....theory.annotations import as_annotated
from ....theory.unequal import loss_bound, power_law, priority_loss
from ...runner.declarations import SUMS, Figure, ReproductionCheck, Run, Topic, TopicContent, from_rows, span
from ...runner.findings import Criterion, post_hoc
from ..drawing import DIVERGING, finish_axes, plot_function

# A bracket that is at most so wide says what the loss is; an exponent this close to 1 counts as the law 1/m.
NARROW = Criterion("code / bound", "<=", post_hoc(2.0))
NEAR_ONE = Criterion("|exponent - 1|", "<=", post_hoc(0.1))
LARGEST_COLOUR = 5.0  # exponent at which the colours end
LARGEST_ALPHA = 2.0  # up to which a region is stated


def whole_widths(ratio: Sequence[float], n_features: int) -> npt.NDArray[np.int64]:
    """Return the distinct numbers of neurons nearest to `ratio` times n_features, from 1 to n_features - 1.

    Examples
    --------
    >>> whole_widths([0.01, 0.04, 0.5, 1.0], 10)
    array([1, 5, 9])
    """
    widths = np.rint(n_features * validation.real("ratio", ratio, 0.0, 1.0, brackets="(]"))
    return np.unique(np.clip(widths, 1, n_features - 1).astype(np.int64))


@as_annotated
def run_bracket(
    alpha: Sequence[float] = tuple(np.linspace(0.0, 3.0, 13)),
    ratio: Sequence[float] = tuple(np.geomspace(0.003, 0.8, 10)),
    number_on: Sequence[float] = (0.1, 1.0, 10.0),
    *,
    n_features: int = 1000,
) -> xr.Dataset:
    """Return the lower bound and a priority code's loss over exponents of frequencies and widths.

    In a priority code larger features turn the outputs of smaller ones off (`theory.unequal.priority_loss`).

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
        Of (number_on, alpha, n_hidden): losses per feature, ``bound``, a lower bound for all models, and
        ``code``, the priority code's, an upper bound for the best model. Of (number_on, alpha, between):
        ``bound_exponent``, ``code_exponent``, the local exponents e of a loss that falls as n_hidden^-e, at
        the geometric means ``between`` of neighbouring widths.

    Examples
    --------
    >>> ds = run_bracket([0.0, 2.0], [0.1, 0.2], [1.0], n_features=100)
    >>> ds["code_exponent"].values.round(2)
    array([[[1.23],
            [3.16]]])
    """
    n_features = validation.integer("n_features", n_features, 2)
    widths = whole_widths(ratio, n_features)
    if len(widths) < 2:
        raise ValueError(
            f"`ratio` must have two different widths or more; got {validation.short_repr(ratio)}."
        )
    laws = [power_law(a, n_features, on) for on, a in itertools.product(number_on, alpha)]
    rows = [
        {"bound": loss_bound(law, int(m)), "code": priority_loss(law, int(m))}
        for law, m in itertools.product(laws, widths)
    ]
    ds = from_rows(rows, number_on=number_on, alpha=alpha, n_hidden=widths)
    step = np.diff(np.log(widths))
    for name in ("bound", "code"):
        ds[f"{name}_exponent"] = (("number_on", "alpha", "between"), -np.diff(np.log(ds[name])) / step)
    middles = np.sqrt(widths[1:] * widths[:-1])
    return ds.assign_coords(between=middles).assign_attrs(n_features=n_features)


@plot_function
def plot_bracket(ds: xr.Dataset, ax: Axes, number_on: float) -> Axes:
    """Draw the local exponents of a priority code's loss over (ratio, alpha).

    `ds` is from `run_bracket`, `number_on` a value of its coordinate, the mean number of features on. A
    contour shows where the loss is twice the lower bound.
    """
    at, n = ds.sel(number_on=number_on), ds.attrs["n_features"]
    look: dict[str, Any] = {"norm": TwoSlopeNorm(1.0, 0.0, LARGEST_COLOUR), "cmap": DIVERGING}
    look |= {"shading": "nearest", "rasterized": True}
    mesh = ax.pcolormesh(at["between"] / n, at["alpha"], at["code_exponent"], **look)
    ax.figure.colorbar(mesh, ax=ax, label="exponent e of loss ~ m^-e", extend="max")
    factor = (at["code"] / at["bound"]).values
    if NARROW.satisfied(factor).any() and not NARROW.satisfied(factor).all():
        ax.contour(
            at["n_hidden"] / n, at["alpha"], factor, levels=[float(NARROW.limit)], colors="k", linewidths=1.0
        )
    ax.grid(False)
    labels = {"xlabel": "ratio n_hidden / n_features", "ylabel": "alpha, of p ~ i^-alpha"}
    return finish_axes(ax, None, xscale="log", title=f"{number_on:g} on at a time", **labels)


def _show_bracket(ds: xr.Dataset) -> TopicContent:
    """Return text and figure of the report's part "bracket", from `ds` of `run_bracket`.

    The figure has the local exponents of a priority code's loss over (ratio, exponent of the frequencies), a
    panel for each mean number of features on; the text compares this loss with the proved lower bound.
    """
    factor = ds["code"] / ds["bound"]
    difference: xr.DataArray = abs(ds["code_exponent"] - ds["bound_exponent"])
    is_near: xr.DataArray = NEAR_ONE.satisfied(abs(ds["code_exponent"] - 1))
    near_places = []
    for on in ds["number_on"].values:
        alphas = ds["alpha"].values[is_near.sel(number_on=on).any("between").values]
        where = f"at some width for alpha = {span(alphas, 'g')}" if alphas.size else "at no width"
        near_places.append(f"{where} with {on:g} on")
    stated = factor.sel(alpha=slice(None, LARGEST_ALPHA))
    is_narrow = NARROW.satisfied(stated).all(["alpha", "number_on"]).values
    n_leading = int(np.flatnonzero(~is_narrow).max(initial=-1)) + 1
    narrow_widths = ds["n_hidden"].values[n_leading:]
    region = (
        f"at most {NARROW:g} from m = {narrow_widths[0]} on"
        if narrow_widths.size
        else f"more than {NARROW:g} somewhere at every width"
    )
    text = (
        f"The local exponent of loss against width for n = {ds.attrs['n_features']} features, from the code; "
        f"that of the bound differs from it by {float(difference.median()):.2g} in the median over all "
        f"places and by at most {float(difference.max()):.2g}. It is within {NEAR_ONE:g} of 1, the law 1/m, "
        f"{'; '.join(near_places)}. Elsewhere the exponent is its own. The bracket, code over bound, is "
        f"{span(factor, '.3g')} at all {factor.size} places; for alpha up to {LARGEST_ALPHA:g} it is "
        f"{region}."
    )
    figure = Figure(
        "bracket",
        "Where loss falls as 1/m",
        "White: exponent 1. Blue: the loss falls faster; orange: slower. Black line: the exact code has "
        "twice the proved bound; on its right side less.",
        ds,
        [partial(plot_bracket, number_on=float(on)) for on in ds["number_on"].values],
        columns=3,
    )
    return TopicContent(text, [figure])


_CHECK = ReproductionCheck(
    {"alpha": [1.5], "ratio": [0.003, 0.0056], "number_on": [1.0]}, ["bound", "code"], 1e-6, SUMS
)
RUNS = {"bracket": Run.shipped("unequal_bracket", "the width law as a map", run_bracket, check=_CHECK)}
TOPICS = [Topic("bracket", ["bracket"], _show_bracket, claims=["U2"])]
