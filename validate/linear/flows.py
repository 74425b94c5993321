"""Three flows from one start: of decoder and encoder, of Eq. 22, of the tied loss; and models trained so."""

from collections.abc import Sequence

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from scipy.linalg import subspace_angles

from ...solvers.linear import flow, flow_pair
from ...theory import arguments
from ...theory.arguments import FloatArray
from ...theory.linear import critical_loss
from .descent import RULES, descend, expected_losses, moment_points

__all__ = ["NAMES", "largest_angle", "plot_angles", "plot_losses", "run_flows"]

NAMES = {
    "pair": "pair, Eqs. 20, 21",
    "encoder": "encoder alone, Eq. 22",
    "decoder": "decoder alone (Oja)",
    "tied": "tied loss",
}


def largest_angle(weights: FloatArray, directions: FloatArray) -> float:
    """Return the largest angle in degrees between the spans of the columns of two matrices."""
    return float(np.degrees(subspace_angles(weights, directions).max()))


def _angles(weights: FloatArray) -> FloatArray:
    """Return the angles between the columns' spans and as many first directions."""
    leading = np.eye(*weights.shape[-2:])
    flat = [largest_angle(one, leading) for one in weights.reshape(-1, *leading.shape)]
    return np.array(flat).reshape(weights.shape[:-2])


def run_flows(
    eigenvalues: Sequence[float] = (3.0, 2.0, 1.0, 0.5),
    n_hidden: int = 2,
    length: float = 0.6,
    end: float = 12.0,
    runs: int = 8,
    seed: int = 0,
    *,
    rate: float = 0.004,
    points: int = 60,
    trained: bool = True,
) -> xr.Dataset:
    """Follow the flows from the same random frames, as decoder and as encoder, and train beside.

    Parameters
    ----------
    eigenvalues : sequence of float, optional
        Of the covariance, which is diagonal; positive, falling.
    n_hidden : int, optional
        Hidden neurons, fewer than eigenvalues.
    length : float, optional
        Singular values of the start, in (0, 1].
    end : float, optional
        Last time, positive.
    runs : int, optional
        Random starts.
    seed : int, optional
    rate : float, optional
        Learning rate.
    points : int, optional
        Times at which weights are kept.
    trained : bool, optional
        Whether to train with PyTorch as well.

    Returns
    -------
    xarray.Dataset
        Of (rule, run, time): ``loss`` per feature and ``angle`` in degrees, the largest between the span of
        the decoder's columns and the leading eigenvectors; ``trained_loss``, ``trained_angle`` the same of
        gradient descent; ``optimum`` and ``parting``, the largest difference between A and B' of the pair.

    Raises
    ------
    ValueError
        If an argument is out of range.
    ImportError
        If `trained` and PyTorch is not installed.

    References
    ----------
    Notes (2022), Eqs. 20-22.

    Examples
    --------
    >>> last = run_flows(runs=2, end=40.0, trained=False).isel(time=-1)
    >>> bool((last.angle.sel(rule="tied") < 1e-3).all()), bool((last.angle.sel(rule="encoder") > 1).all())
    (True, True)
    """
    values = arguments.real("eigenvalues", arguments.vector("eigenvalues", eigenvalues), 0, brackets="()")
    if values.size < 2 or np.any(np.diff(values) >= 0):
        raise ValueError(f"`eigenvalues` must be two or more and fall; got {values.tolist()}.")
    n, sigma = values.size, np.diag(values)
    d = arguments.integer("n_hidden", n_hidden, 1, n - 1)
    length = arguments.number("length", length, 0, 1, brackets="(]")
    end = arguments.number("end", end, 0, brackets="()")
    runs = arguments.integer("runs", runs, 1)
    rate = arguments.number("rate", rate, 0, 0.2 / values[0], brackets="(]")
    steps = np.rint(np.linspace(0, end, arguments.integer("points", points, 2)) / (2 * rate)).astype(int)
    t = 2 * rate * steps
    rng = np.random.default_rng([arguments.integer("seed", seed, 0), n, d])
    first = length * np.linalg.qr(rng.normal(size=(runs, n, d)))[0]

    rules = list(RULES)
    shape = (len(rules), runs, t.size)
    loss, angle, parting = np.empty(shape), np.empty(shape), np.empty((runs, t.size))
    for i, rule in enumerate(rules):
        for r, W in enumerate(first):
            if rule == "pair":
                pair = flow_pair(W, W.T, sigma, t)
                loss[i, r], angle[i, r] = pair.loss, _angles(pair.A)
                parting[r] = np.abs(pair.A - np.swapaxes(pair.B, 1, 2)).max(axis=(1, 2))
            else:
                one = flow(W, sigma, t, rule)
                loss[i, r], angle[i, r] = one.loss, _angles(one.W)
    dims = ("rule", "run", "time")
    contents = {"loss": (dims, loss), "angle": (dims, angle), "parting": (dims[1:], parting)}
    if trained:
        shown = np.empty((2, *shape))
        for i, rule in enumerate(rules):
            found = descend(first, first, moment_points(sigma), rate, steps.tolist(), rule)
            shown[0, i] = expected_losses(found.A, found.C, sigma).T
            shown[1, i] = _angles(found.A).T
        contents |= {"trained_loss": (dims, shown[0]), "trained_angle": (dims, shown[1])}
    return xr.Dataset(
        {**contents, "optimum": critical_loss(sigma, range(d))},
        {"rule": rules, "time": t},
        {"n_features": n, "n_hidden": d, "length": length, "learning_rate": rate, "eigenvalues": values},
    )


def _curves(ds: xr.Dataset, ax: Axes, name: str, run: int) -> None:
    for i, rule in enumerate(ds["rule"].values):
        one = ds.sel(rule=rule).isel(run=run)
        ax.plot(ds["time"], one[name], color=f"C{i + 1}", label=NAMES[str(rule)])
        if f"trained_{name}" in ds:
            ax.plot(ds["time"][i::4], one[f"trained_{name}"][i::4], "o", color=f"C{i + 1}", markersize=3.5)
    if f"trained_{name}" in ds:
        ax.plot([], [], "o", color="0.4", markersize=3.5, label="PyTorch")


def plot_losses(ds: xr.Dataset, ax: Axes, run: int = 0) -> Axes:
    """Draw how far the loss is above its minimum under each flow from one start; of `run_flows`."""
    height = ds.assign({k: ds[k] - ds["optimum"] for k in ("loss", "trained_loss") if k in ds})
    _curves(height, ax, "loss", run)
    ax.set(yscale="log", xlabel="time t", ylabel="loss per feature − minimum")
    ax.set_ylim(1e-4, 2 * float(height["loss"].isel(run=run).max()))
    ax.legend()
    return ax


def plot_angles(ds: xr.Dataset, ax: Axes, run: int = 0) -> Axes:
    """Draw the angle between the span and the leading eigenvectors from one start; of `run_flows`."""
    _curves(ds, ax, "angle", run)
    ax.set(xlabel="time t", ylabel="angle to the leading subspace (degrees)", ylim=(0, 90))
    ax.legend()
    return ax
