"""Fig. 7 of Lecomte et al. (2024): the relative variance of the survivors between its bounds."""

import numpy as np
import numpy.typing as npt
import xarray as xr
from matplotlib.axes import Axes
from scipy.special import erfcinv

from ....solvers.sparsification import solve
from ....theory import sparsification
from ....theory.annotations import as_annotated
from ....theory.validation import FloatArray, check_fits, integer, number
from ...runner.declarations import Figure, Run, Topic, TopicContent
from ..drawing import finish_axes, plot_function
from .encodings import LAM, SCALE, M, describe_settings, flow_times, initial_weights, stack_results


def ideal_weights(m: int, scale: float) -> FloatArray:
    """Return m absolute weights at regular percentiles of the normal law of s.d. scale/sqrt(m), descending.

    The k-th weight has the tail probability (k - 1/2)/m. The source (App. B, Fig. 7) does not say which
    percentiles are regular.

    Examples
    --------
    >>> ideal_weights(3, 1).round(3)
    array([0.798, 0.389, 0.121])
    """
    check_fits("m", m, 4 * m)
    return np.asarray(scale * (2 / m) ** 0.5 * erfcinv((np.arange(m) + 0.5) / m))


@as_annotated
def run_fig7(
    m: int = M, lam: float = LAM, scale: float = SCALE, times: npt.ArrayLike | None = None, seed: int = 0
) -> xr.Dataset:
    """Follow the relative variance of the nonzero weights of one run, between its bounds.

    The relative variance is the variance of their absolute values over the squared mean, as in Fig. 7 of
    Lecomte et al. (2024), App. B. Its bounds, by the number of nonzero weights, are
    `theory.sparsification.relative_variance_bounds`.

    Parameters
    ----------
    m, lam, scale : int, float, float
        Number of weights, at least 8; strength of the l1 force, positive; initial length of the encoding.
    times : array_like of float, optional
        Flow times, sorted; some weights must remain at the last one. `default_times` if not given.
    seed : int
        The run is the first of `run_fig2` with this seed.

    Returns
    -------
    xarray.Dataset
        Over time: `nonzeros`, `relative_variance`, its bounds for the weights of the run (`lower`, `upper`)
        and for weights at regular percentiles (`ideal_lower`, `ideal_upper`) at the same number of survivors,
        and the limit for many weights (`limit`).

    Examples
    --------
    >>> ds = run_fig7(1000, 1e-3, times=[10, 1000])
    >>> bool(((ds["lower"] <= ds["relative_variance"]) & (ds["relative_variance"] <= ds["upper"])).all())
    True
    """
    m, scale = integer("m", m, 8), number("scale", scale, 0, brackets="()")
    t = flow_times(times, m, lam)
    w0 = initial_weights(m, scale, seed, 0)
    result = solve(w0, lam, t)
    left = result.nonzeros
    if left[-1] == 0:
        raise ValueError(f"`lam` must leave a weight to the end of `times`; got {lam}.")
    solved = stack_results(result)
    columns = {name: solved[name][0] for name in ("nonzeros", "relative_variance")}
    columns["lower"], columns["upper"] = sparsification.relative_variance_bounds(w0, left)
    ideal = ideal_weights(m, scale)
    columns["ideal_lower"], columns["ideal_upper"] = sparsification.relative_variance_bounds(ideal, left)
    columns["limit"] = sparsification.limiting_relative_variance(left / m)
    data = {name: ("time", values) for name, values in columns.items()}
    return xr.Dataset(data, {"time": t}, {"m": m, "lam": lam, "scale": scale, "seed": seed})


@plot_function
def plot_relative_variance(ds: xr.Dataset, ax: Axes) -> Axes:
    """Draw the relative variance of the nonzero weights between its bounds against time (Fig. 7).

    `ds` is from `run_fig7`.
    """
    several = ds.isel(time=ds["nonzeros"].values > 1)  # a weight alone has no variance
    for name, colour, style, label in (
        ("lower", "C2", "-", "bounds, these weights"),
        ("upper", "C2", "-", None),
        ("ideal_lower", "C4", "--", "bounds, ideal weights"),
        ("ideal_upper", "C4", "--", None),
    ):
        ax.plot(several["time"], several[name], color=colour, linestyle=style, linewidth=1, label=label)
    ax.plot(ds["time"], ds["limit"], color="C0", label="limit of many weights")
    variance = several["relative_variance"]
    ax.plot(several["time"], variance, "o", color="C1", markersize=2.5, label="exact run")
    high = np.nanmax(several["upper"]) if several.sizes["time"] else 1.0
    ax.set(xscale="log", ylim=(0, 1.05 * high))
    return finish_axes(ax, xlabel="time t", ylabel="relative variance of survivors")


def _show_variance(ds: xr.Dataset) -> TopicContent:
    """Return the figure of the report's part "variance", from `ds` of `run_fig7`.

    The figure has the variance of the nonzero absolute weights over their squared mean, between its bounds,
    against time.
    """
    caption = (
        f"{describe_settings(ds)}. Between drops the run moves from its lower to its upper bound; "
        "the limit begins at pi/2 - 1 and tends to 1."
    )
    title = "Fig. 7: how unequal the survivors are"
    return TopicContent("", [Figure("fig7", title, caption, ds, plot_relative_variance)])


RUNS = {"fig7": Run(run_fig7)}  # at the source's parameters in both profiles
TOPICS = [Topic("variance", ["fig7"], _show_variance, claims=["L11", "L13"])]
