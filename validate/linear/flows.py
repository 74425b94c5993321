"""Three flows from one start: of decoder and encoder, of Eq. 22, of the tied loss; and models trained so."""

from collections.abc import Sequence

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from ...solvers.linear.weights import expected_losses, largest_angles, moment_points
from ...theory import arguments
from ...theory.linear import critical_loss
from ..drawing import finished
from .descent import ROUTES, RULES, courses, falling

NAMES = {
    "pair": "pair, Eqs. 20, 21",
    "encoder": "encoder alone, Eq. 22",
    "decoder": "decoder alone (Oja)",
    "tied": "tied loss",
}
_LENGTH = 0.6  # singular values of the starts


def run_flows(
    eigenvalues: Sequence[float] = (3.0, 2.0, 1.0, 0.5),
    n_hidden: int = 2,
    end: float = 12.0,
    runs: int = 8,
    seed: int = 0,
    *,
    rate: float = 0.004,
    points: int = 60,
) -> xr.Dataset:
    """Follow Eqs. 20-22 of the Notes (2022) from the same random frames as decoder and encoder; train beside.

    Parameters
    ----------
    eigenvalues, n_hidden : sequence of float, int, optional
        Of the covariance, which is diagonal; positive, falling. Hidden neurons, fewer than those.
    end, rate, runs, seed, points : float, float, int, int, int, optional
        Last time, learning rate; random starts, their seed, and times at which weights are kept.

    Returns
    -------
    xarray.Dataset
        Of (route, rule, run, time), with route "flow" or "trained": ``loss`` per feature and ``angle`` in
        degrees, the largest between the span of the decoder's columns and the leading eigenvectors.
        ``optimum``, the least loss, and ``parting`` (run, time), the largest difference between A and B' of
        the pair's flow.

    Examples
    --------
    >>> last = run_flows((2.0, 1.0, 0.5), 1, end=20.0, rate=0.1, runs=2).isel(route=0, time=-1)
    >>> bool((last.angle.sel(rule="tied") < 1e-3).all()), bool((last.angle.sel(rule="encoder") > 1).all())
    (True, True)
    """
    values = falling(eigenvalues)
    n, sigma = values.size, np.diag(values)
    d = arguments.integer("n_hidden", n_hidden, 1, n - 1)
    end = arguments.number("end", end, 0, brackets="()")
    runs, points, seed = arguments.integers(runs=(runs, 1), points=(points, 2), seed=(seed, 0))
    rate = arguments.number("rate", rate, 0, 0.2 / values[0], brackets="(]")
    steps = np.rint(np.linspace(0, end, points) / (2 * rate)).astype(int)
    t, rng = 2 * rate * steps, np.random.default_rng([seed, n, d])
    first = _LENGTH * np.linalg.qr(rng.normal(size=(runs, n, d)))[0]

    loss, angle = np.empty((2, len(ROUTES), len(RULES), runs, t.size))
    for i, rule in enumerate(RULES):
        A, C = courses(first, first, moment_points(sigma), rate, steps.tolist(), rule)
        loss[:, i], angle[:, i] = expected_losses(A, C, sigma), largest_angles(A, np.eye(n, d))
        if rule == "pair":
            parting = np.abs(A - C).max(axis=(-2, -1))[0]
    dims = ("route", "rule", "run", "time")
    columns = {"loss": (dims, loss), "angle": (dims, angle), "parting": (dims[2:], parting)}
    ds = xr.Dataset(columns, {"route": list(ROUTES), "rule": list(RULES), "time": t})
    attributes = {"n_features": n, "n_hidden": d, "length": _LENGTH, "learning_rate": rate}
    return ds.assign(optimum=critical_loss(sigma, range(d))).assign_attrs(attributes, eigenvalues=values)


def _curves(values: xr.DataArray, ax: Axes) -> Axes:
    for i, rule in enumerate(RULES):
        flow, trained = values.sel(rule=rule)
        ax.plot(flow["time"], flow, color=f"C{i + 1}", label=NAMES[rule])
        ax.plot(flow["time"][i::4], trained[i::4], "o", color=f"C{i + 1}", markersize=3.5)
    ax.plot([], [], "o", color="0.4", markersize=3.5, label="PyTorch")
    return finished(ax, xlabel="time t")


def plot_losses(ds: xr.Dataset, ax: Axes, run: int = 0) -> Axes:
    """Draw how far the loss is above its minimum under each flow from one start; of `run_flows`."""
    height = (ds["loss"] - ds["optimum"]).isel(run=run)
    ax.set(yscale="log", ylabel="loss per feature − minimum", ylim=(1e-4, 2 * float(height.max())))
    return _curves(height, ax)


def plot_angles(ds: xr.Dataset, ax: Axes, run: int = 0) -> Axes:
    """Draw the angle between the span and the leading eigenvectors from one start; of `run_flows`."""
    ax.set(ylabel="angle to the leading subspace (degrees)", ylim=(0, 90))
    return _curves(ds["angle"].isel(run=run), ax)
