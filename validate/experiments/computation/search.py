r"""The best networks of few features, by search: ReLU(x) with and without output bias, and \|x\|."""

import itertools
from collections.abc import Sequence

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from ....solvers.computation import best_network
from ....theory.annotations import as_annotated
from ....theory.features import Features
from ...runner.declarations import Figure, Run, Topic, TopicContent, from_rows, span
from ..drawing import finish_axes, plot_function
from .fans import Size, label_lower_bound, losses_over_p, size_label, with_sizes


@as_annotated
def run_search(
    p: Sequence[float] = (0.01, 0.1, 0.5, 1.0),
    sizes: Sequence[Size] = ((2, 1), (3, 2)),
    *,
    starts: int = 4,
    steps: int = 60,
    seed: int = 0,
) -> xr.Dataset:
    r"""Return losses of the best networks by search: ReLU(x) with and without output bias, and \|x\|.

    Parameters
    ----------
    p : sequence of float
        Probabilities that a feature is on, in (0, 1].
    sizes : sequence of (n_features, n_hidden)
        At most 5 of each.
    starts, steps, seed : int
        Of each search: number of starts, steps of each descent at most, and seed.

    Returns
    -------
    xarray.Dataset
        Of (task, size, p): losses per feature, divided by p, ``best`` with its ``error``, ``naive`` (of
        neurons that serve one feature each) and ``lower_bound``; ``hits``, the number of descents that ended
        at the best.

    Examples
    --------
    >>> ds = run_search([0.5], [(2, 1)], starts=1, steps=20)
    >>> bool((ds["best"] >= ds["lower_bound"] - ds["error"] - 1e-12).all())
    True
    """
    tasks = {"relu": ("relu", True), "relu without bias": ("relu", False), "abs": ("abs", True)}
    rows = []
    for (target, bias), (F, n), q in itertools.product(tasks.values(), sizes, p):
        law = Features(F, q, "symmetric")
        best = best_network(law, n, target, bias=bias, starts=starts, steps=steps, rng=seed)
        rows.append({**losses_over_p(best, q), "hits": best.hits})
    ds = from_rows(rows, task=list(tasks), size=len(sizes), p=list(p))
    return with_sizes(ds, sizes).assign_attrs(starts=starts)


@plot_function
def plot_search(ds: xr.Dataset, ax: Axes) -> Axes:
    """Draw the losses of the best networks and the lower bound, over the naive loss, against p.

    `ds` is from `run_search`; each task and size has a line.
    """
    for k, task in enumerate(ds["task"].values):
        for i in range(ds.sizes["size"]):
            at = ds.sel(task=task).isel(size=i)
            marker, label = "os^v"[i % 4], f"{task}, {size_label(at)}"
            ax.plot(ds["p"], at["best"] / at["naive"], marker + "-", color=f"C{k}", ms=4, label=label)
            ax.plot(ds["p"], at["lower_bound"] / at["naive"], marker + ":", color=f"C{k}", ms=2)
    lowest = float((ds["lower_bound"] / ds["naive"]).isel(p=0).min())
    label_lower_bound(ax, float(ds["p"][0]), lowest)
    return finish_axes(ax, xscale="log", xlabel="p", ylabel="loss / naive")


def _show_search(ds: xr.Dataset) -> TopicContent:
    """Return text and figure of the report's part "search", from `ds` of `run_search`.

    The figure has losses of the best small networks and the lower bound, over the naive loss, against p. The
    text has the shares of the naive loss that the best networks save, by task and size.
    """
    excess = float(((ds["best"] - ds["lower_bound"] + ds["error"]) / ds["naive"]).min())
    biased = ds.sel(task="relu")
    difference = np.abs(biased["best"] / biased["naive"] - 1)
    saved = 1 - ds["best"] / ds["naive"]
    shares = []
    for task in ds["task"].values[1:]:
        for i in range(ds.sizes["size"]):
            at = saved.sel(task=task).isel(size=i)
            shares.append(f"{task}, {size_label(at)}: {span(at, '.2g')}")
    text = (
        f"Descents on the exact loss, {ds.attrs['starts']} starts at each place. None is below the lower "
        f"bound: the least excess is {excess:.1g} of the naive loss, with its error. For ReLU with an output "
        f"bias the best networks are naive, to {float(difference.max()):.0e} of the loss. Shares saved "
        f"elsewhere: {'; '.join(shares)}. Without bias the neuron of a feature also receives another feature "
        "with a smaller weight, of the same sign, which saves a share of order p (0.15 p for two features on "
        "one neuron, derived)."
    )
    caption = "Solid: the best network found; dotted: the lower bound."
    figure = Figure("search", "The best networks of few features", caption, ds, plot_search)
    return TopicContent(text, [figure])


RUNS = {
    "search": Run(
        run_search,
        quick={"sizes": ((2, 1),), "starts": 3, "steps": 40},
        full={"sizes": ((2, 1), (3, 2), (4, 2), (4, 3)), "starts": 12, "steps": 200},
        seconds=20.0,
    )
}
TOPICS = [Topic("search", ["search"], _show_search)]
