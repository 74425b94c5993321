"""When interference acts: the count if interference ended at each time of the flow."""

from collections.abc import Sequence

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from ....solvers import collisions as solvers
from ....solvers.collisions.displaced import first_weights
from ....solvers.statistics import mean
from ....theory import validation
from ....theory.annotations import as_annotated
from ....theory.collisions import expected_polysemantic
from ...runner.declarations import Figure, Run, Topic, TopicContent, from_rows
from ..drawing import finish_axes, plot_function
from .fig3 import RTOL, SCALE
from .labels import INTERVALS, draw_runs

# In 1/lam: from the end of the first conflict, which takes a time of order 1, to one-hot.
TIMES = (0.0, 0.03, 0.1, 0.2, 0.3, 0.5, 0.8, 1.2, 2.0, 6.0)


@as_annotated
def run_course(
    n_features: int = 32,
    n_hidden: int = 64,
    runs: int = 64,
    lam: float = 3e-3,
    times: Sequence[float] = TIMES,
    *,
    seed: int = 0,
) -> xr.Dataset:
    """Stop the gradient flow at several times, and count polysemantic neurons as if interference ended there.

    The flow is that of encodings with an l1 term. The count gives each feature in turn, largest weight first,
    the neuron of its largest weight whose sign no other feature has taken there
    (:func:`superposition.solvers.collisions.assign`). If the count at a time is already the final one,
    interference has no effect after that time.

    Parameters
    ----------
    n_features, n_hidden, runs : int
        n, at least 2, and m, at least n/2; number of initialisations, at least 2.
    lam, seed : float, int
        l1 strength, positive, in the flow dW_i/dt = (1 - |W_i|^2) W_i - sum_{j != i} ReLU(W_i.W_j) W_j - lam
        sign(W_i), the normal form of Lecomte et al. (2024); seed of the first weights, normal of standard
        deviation 0.9/sqrt(m), the same as those of `run_fig3`.
    times : sequence of float
        Sorted flow times in units of 1/lam, not negative.

    Returns
    -------
    xarray.Dataset
        Over (time, run): ``count``, polysemantic neurons if interference ends then; ``held``, share of the
        pairs of features whose overlap is positive, so that interference pushes them apart; ``nonzeros``,
        mean number of nonzero weights of an encoding. Attribute ``expected``: the count if chance alone
        decides.

    Examples
    --------
    >>> ds = run_course(8, 8, runs=4, lam=0.02)
    >>> ds["count"].dims, ds["count"].shape
    (('time', 'run'), (10, 4))
    """
    n, runs = validation.integers(n_features=(n_features, 2), runs=(runs, 2))
    m = validation.integer("n_hidden", n_hidden, (n + 1) // 2)
    lam = validation.number("lam", lam, 0.0, brackets="(]")
    stops = validation.vector("times", validation.real("times", times, 0.0))
    if np.any(np.diff(stops) < 0):
        raise ValueError(f"`times` must be sorted; got {stops.tolist()}.")
    W, t, is_pair = first_weights(n, m, runs, SCALE, seed), 0.0, ~np.eye(n, dtype=bool)
    rows = []
    for stop in stops:
        if stop > t:
            W, t = solvers.flow(W, lam, (stop - t) / lam, tol=RTOL).W, stop
        values = {
            "count": solvers.assign(W).polysemantic.astype(float),
            "held": np.mean((W @ W.mT)[:, is_pair] > 1e-9, axis=1),
            "nonzeros": np.mean(np.sum(W != 0, axis=2), axis=1),
        }
        rows.append({name: ("run", row) for name, row in values.items()})
    ds = from_rows(rows, time=stops).assign_coords(run=range(runs))
    expected = float(np.asarray(expected_polysemantic(n, m)))
    return ds.assign_attrs(n_features=n, n_hidden=m, lam=lam, scale=SCALE, seed=seed, expected=expected)


@plot_function
def plot_course(ds: xr.Dataset, ax: Axes) -> Axes:
    """Draw two curves against time: the count over its value by chance, and the share of positive overlaps.

    The count is of polysemantic neurons if interference ended at that time; overlaps are W_i.W_j of pairs of
    features. `ds` is from `run_course`.
    """
    ax.axhline(1.0, color="0.5", linestyle="--", label="chance alone")
    ratio = (ds["count"] / ds.attrs["expected"]).transpose("time", "run")
    draw_runs(ax, ds["time"], ratio, 0, f"count at that time, {ds.sizes['run']} runs", "-")
    ax.plot(ds["time"], ds["held"].mean("run"), ".:", color="C3", label="overlaps held at zero, share")
    title = "n = {n_features}, m = {n_hidden}, λ = {lam:g}".format(**ds.attrs)
    ax.set(xlabel="λt", ylabel="count over chance; share", title=title, ylim=(0.0, 1.6))
    # Logarithmic from the end of the first conflict on, with room for time 0.
    ax.set_xscale("symlog", linthresh=0.03, linscale=0.3)
    ticks = [0.0, 0.03, 0.1, 0.3, 1.0, 3.0]
    ax.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    ax.minorticks_off()
    return finish_axes(ax, "upper left", xlim=(-0.01, 1.2 * float(ds["time"].max())))


def _show_course(ds: xr.Dataset) -> TopicContent:
    """Return text and figure of the report's part "course": up to when interference changes the count.

    By time, the figure has (polysemantic neurons if interference ended then) / (their number by chance), and
    the share of positive overlaps. `ds` is from `run_course`.
    """
    counts = ds["count"].values
    ratio = counts / ds.attrs["expected"]
    unsettled = np.flatnonzero(np.any(counts != counts[-1], axis=1))
    first = int(unsettled.max(initial=-1)) + 1
    text = (
        f"Chance alone, each feature on its largest free weight, gives {mean(ratio[0]):.2f} times "
        f"n(n-1)/(2(2m-1)) for the first weights of {ds.sizes['run']} runs with n = "
        f"{ds.attrs['n_features']}, m = {ds.attrs['n_hidden']}; for the weights at the end of the flow it is "
        f"{mean(ratio[-1]):.2f}. Of the times looked at, λt = {float(ds['time'][first]):g} is the first "
        "after which no run's count changes; there interference holds down "
        f"{float(ds['held'][first].mean()):.1%} of the pairs of features ({float(ds['held'][0].mean()):.0%} "
        "at first)."
    )
    caption = (
        "The count that the weights of a moment give if every feature takes its largest free weight, over "
        f"that of chance, n(n-1)/(2(2m-1)). {INTERVALS}"
    )
    figure = Figure("course", "When interference acts", caption, ds, plot_course, size=(5.6, 3.8))
    return TopicContent(text, [figure])


QUICK = {"n_features": 32, "n_hidden": 64, "runs": 32}
FULL = {"n_features": 256, "n_hidden": 1024, "runs": 32}
RUNS = {"course": Run(run_course, QUICK, FULL, seconds=2)}
TOPICS = [Topic("course", ["course"], _show_course, claims=["L2", "L14", "L15", "L16"])]
