"""Higher powers of the error: the best neuron for two features beside the naive one."""

import itertools
from collections.abc import Sequence

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from ....solvers.computation import best_power
from ....theory.annotations import as_annotated
from ....theory.computation import shared_loss
from ...runner.declarations import Figure, Run, Topic, TopicContent, from_rows, span
from ..drawing import finish_axes, plot_function


@as_annotated
def run_powers(
    p: Sequence[float] = (1e-3, 1e-2, 0.1, 1.0),
    powers: Sequence[int] = (2, 4),
    *,
    starts: int = 1,
    seed: int = 0,
) -> xr.Dataset:
    """Return mean powers of the error of the best neuron that serves two features, for targets ReLU(x).

    The best neuron is found by searches from random starts.

    Parameters
    ----------
    p : sequence of float
        Probabilities that a feature is on, in (0, 1].
    powers : sequence of int
        Even powers of the error.
    starts, seed : int
        Random starts of each search.

    Returns
    -------
    xarray.Dataset
        Of (power, p): mean powers per feature, divided by p, ``best`` and ``naive`` (of a neuron for one
        feature alone); ``weight``, the smaller of the best neuron's two weights over the larger.

    Examples
    --------
    >>> ds = run_powers([0.1], [2, 4], starts=0)
    >>> (ds["best"] / ds["naive"]).round(2).values.ravel().tolist()
    [1.0, 0.57]
    """
    rows = []
    for power, q in itertools.product(powers, p):
        best = best_power(q, power=power, starts=starts, rng=seed)
        low, high = np.sort(np.abs(best.model.W_in[0]))
        rows.append({"best": best.loss / q, "naive": best.naive / q, "weight": low / high})
    return from_rows(rows, power=list(powers), p=list(p))


@plot_function
def plot_powers(ds: xr.Dataset, ax: Axes) -> Axes:
    """Draw (mean power of the error of the best neuron for two features) / (naive one's) against p.

    The naive neuron serves one feature; `ds` is from `run_powers`, with a line for each power.
    """
    for power in ds["power"].values:
        at = ds.sel(power=power)
        ax.plot(ds["p"], at["best"] / at["naive"], ".-", label=f"power {int(power)}")
    return finish_axes(ax, xscale="log", ylim=(0, 1.1), xlabel="p", ylabel="mean power of the error / naive")


def _show_powers(ds: xr.Dataset) -> TopicContent:
    """Return text and figure of the report's part "powers", from `ds` of `run_powers`.

    The figure has, against p, the mean square and fourth power of the error of the best neuron for two
    features, over those of a neuron for one feature. The text has the ranges of these ratios and their limit
    for small p.
    """
    ratio = ds["best"] / ds["naive"]
    ranges = [f"power {int(q)}: {span(ratio.sel(power=q), '.3f')}" for q in ds["power"].values]
    limit = shared_loss(2, 1)
    text = (
        "The bound is about the square. For higher powers of the error one large error costs more than two "
        "of half the size, and features that share a neuron cost less than one that is dropped. Two features "
        f"on one neuron, best over naive: {'; '.join(ranges)}. In the limit p to 0 sharing has "
        f"{limit.loss / limit.naive:.2f} of the naive fourth power (1 of the square): the bias of a dropped "
        "output helps until p is very small."
    )
    caption = "One neuron for ReLU of two features, hidden and output biases free; exact, by searches."
    return TopicContent(text, [Figure("powers", "Fourth powers favour sharing", caption, ds, plot_powers)])


RUNS = {"powers": Run(run_powers, quick={"starts": 0}, full={"starts": 8, "powers": (2, 4, 6)}, seconds=20.0)}
TOPICS = [Topic("powers", ["powers"], _show_powers, claims=["K3"])]
