"""Which subspace training finds if eigenvalues are equal: that of the start, or that of the samples."""

from functools import partial

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from ....theory import validation
from ....theory.annotations import as_annotated
from ....theory.features import SparseUniform
from ....theory.linear import critical_loss, spectrum
from ....theory.validation import FloatArray
from ...runner.declarations import Figure, Run, Topic, TopicContent, from_rows, span
from ..drawing import finish_axes, plot_function
from .descent import ROUTES, expected_losses, follow_routes, largest_angles, moment_points


@as_annotated
def run_subspaces(
    n_features: int = 6,
    n_hidden: int = 3,
    p: float = 0.3,
    samples: int = 400,
    initial: float = 1e-3,
    runs: int = 4,
    seed: int = 0,
    *,
    end: float = 60.0,
    step: float = 0.05,
    points: int = 80,
) -> xr.Dataset:
    """Train tied weights on inputs with all eigenvalues but one equal; follow the span of their columns.

    The subspace predicted for the expected loss is spanned by the leading eigenvector, and by the columns of
    the first weights after two projections: in feature space that eigenvector is removed, in hidden space the
    direction that the first weights give to it. Samples have different eigenvalues, which determine the last
    subspace.

    Parameters
    ----------
    n_features, n_hidden, samples : int, optional
        At least 3; from 2 to n_features - 1; number of inputs in the finite data set, at least n_features.
    p, initial : float, optional
        Probability that a feature is on, in (0, 1); standard deviation of the first weights, below 0.1.
    runs, seed, points : int, optional
        Number of starts; seed of starts and samples; number of times at which weights are kept.
    end : float, optional
        Last time in units of log(1/initial)/(2 eigenvalue), in which weights grow from `initial` to 1 along
        the directions of the equal eigenvalues.
    step : float, optional
        Learning rate times the largest eigenvalue.

    Returns
    -------
    xarray.Dataset
        Of (route, data, run, time), with route "flow" or "trained" and data "expected" or "samples":
        ``angle_start`` and ``angle_samples``, in degrees, the largest angle between the span of the weights'
        columns and the subspace predicted from the first weights, or the leading one of the samples;
        ``excess``, (expected loss)/(its minimum) - 1. ``time`` is in units of one over the equal eigenvalues.

    Examples
    --------
    >>> ds = run_subspaces(runs=1, end=4.0).isel(run=0, time=-1)
    >>> bool((ds.angle_start.sel(data="expected") < 0.1).all())
    True
    """
    n, runs, points = validation.integers(n_features=(n_features, 3), runs=(runs, 1), points=(points, 2))
    d, samples = validation.integers(n_hidden=(n_hidden, 2, n - 1), samples=(samples, n))
    p = validation.number("p", p, 0, 1, brackets="()")
    initial = validation.number("initial", initial, 0, 0.1, brackets="()")
    end = validation.number("end", end, 1)
    rng = np.random.default_rng([seed, n, d, samples])
    sigma = SparseUniform(p).second_moment_matrix(n)
    eigen = spectrum(sigma)
    equal = eigen.eigenvalues[-1]
    rate = validation.number("step", step, 1e-9, 0.2) / eigen.eigenvalues[0]
    drawn = (rng.random((samples, n)) < p) * rng.random((samples, n))
    first = initial * rng.normal(size=(runs, n, d))
    grown = np.log(1 / initial) / (2 * equal)
    steps = np.rint(np.geomspace(0.7 * grown, end * grown, points) / (2 * rate)).astype(int)

    leading = spectrum(drawn.T @ drawn / samples).eigenvectors[:, :d]
    predicted = np.stack([_predicted_basis(W, eigen.eigenvectors[:, 0]) for W in first])[:, None]
    rows = []
    for x in (moment_points(sigma), drawn):
        A, C = follow_routes(first, first, x, rate, steps, "tied")
        excess = expected_losses(A, C, sigma) / critical_loss(sigma, range(d)) - 1
        values = {
            "angle_start": largest_angles(A, predicted),
            "angle_samples": largest_angles(A, leading),
            "excess": excess,
        }
        rows.append({name: (("route", "run", "time"), array) for name, array in values.items()})
    ds = from_rows(rows, data=("expected", "samples")).transpose("route", ...)
    ds = ds.assign_coords(route=list(ROUTES), time=2 * rate * steps * equal)
    return ds.assign_attrs(n_features=n, n_hidden=d, p=p, samples=samples, initial=initial)


def _predicted_basis(W: FloatArray, top: FloatArray) -> FloatArray:
    """Return the basis (n, d) of the subspace that weights W (n, d) are predicted to span in the end.

    Its first column is `top`, the leading eigenvector, of length 1. The others span the columns of W after
    `top` is removed from the columns and the direction top'W from the rows.
    """
    row = top @ W / np.linalg.norm(top @ W)
    others = (W - np.outer(top, top @ W)) @ (np.eye(row.size) - np.outer(row, row))
    return np.column_stack((top, np.linalg.svd(others)[0][:, : row.size - 1]))


@plot_function
def plot_subspaces(ds: xr.Dataset, ax: Axes, data: str = "expected") -> Axes:
    """Draw the angles of the weights' span to two predicted subspaces over time, in training on `data`.

    The subspaces are predicted from the first weights and from the samples. `ds` is from `run_subspaces`,
    `data` is "expected" or "samples".
    """
    for k, (name, label) in enumerate((("start", "predicted from the start"), ("samples", "of the samples"))):
        flow, trained = ds[f"angle_{name}"].sel(data=data).transpose("route", "time", "run")
        ax.plot(flow["time"], flow, color=f"C{k + 1}", linewidth=0.8, alpha=0.7)
        markers = ax.plot(flow["time"][::3], trained[::3], "os"[k], color=f"C{k + 1}", markersize=3)
        markers[0].set_label(label)
    target = "expected loss" if data == "expected" else f"{ds.attrs['samples']} samples"
    ax.set(xscale="log", xlabel="time t × equal eigenvalue", title=f"trained on {target}")
    return finish_axes(ax, {"title": "subspace"}, ylabel="angle to the subspace (degrees)", ylim=(-2, 92))


def _show_subspaces(ds: xr.Dataset) -> TopicContent:
    """Return text and figure of the report's part "subspaces", from `ds` of `run_subspaces`.

    The figure has angles against time between the weights' columns and two predicted subspaces, one from the
    first weights, one from the samples. A panel each is for training on the expected loss and on samples.
    """
    trained = ds.sel(route="trained")
    on_samples = trained.sel(data="samples")
    changed = (on_samples["angle_samples"] < on_samples["angle_start"]).idxmax("time")
    expected, samples = trained.sel(data="expected").isel(time=-1), on_samples.isel(time=-1)
    text = (
        f"Sparse inputs have one large second-moment eigenvalue and {ds.attrs['n_features'] - 1} equal ones, "
        "so all subspaces with the large direction have the same, least loss. Trained on the expected loss, "
        "models find the large direction and the span that the first weights give besides it, to "
        f"{span(expected['angle_start'], '.2g')}° ({ds.sizes['run']} starts, which end "
        f"{span(expected['angle_samples'], '.0f')}° from the samples' subspace). With {ds.attrs['samples']} "
        f"samples chance makes the eigenvalues unequal: from t × eigenvalue = {span(changed, '.2g')} on the "
        "models are nearer to the samples' own leading subspace, and end "
        f"{span(samples['angle_samples'], '.2g')}° from it. In expected loss that costs "
        f"{span(samples['excess'], '.2%')}."
    )
    caption = (
        f"n = {ds.attrs['n_features']}, d = {ds.attrs['n_hidden']}, p = {ds.attrs['p']:g}, tied weights, "
        f"first weights of standard deviation {ds.attrs['initial']:g}. Markers: PyTorch; lines: exact flows."
    )
    panels = (plot_subspaces, partial(plot_subspaces, data="samples"))
    title = "Equal eigenvalues: the start decides, or the samples do"
    figure = Figure("subspaces", title, caption, ds, panels)
    return TopicContent(text, [figure])


QUICK = {"end": 40.0, "step": 0.07, "points": 60}
FULL = {"n_features": 12, "n_hidden": 4, "samples": 2000, "initial": 1e-4, "runs": 8}
RUNS = {"subspaces": Run(run_subspaces, QUICK, FULL, torch=True, seconds=6)}
TOPICS = [Topic("subspaces", ["subspaces"], _show_subspaces, claims=["B8"])]
