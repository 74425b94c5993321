"""Training from small weights: the saddles that the loss rests at, and when it leaves them."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import xarray as xr
from matplotlib.axes import Axes

from ...solvers.linear import flow, flow_pair
from ...theory import arguments
from ...theory.arguments import FloatArray
from ...theory.linear import aligned_mode, critical_loss, growth_rates, spectrum
from .descent import LABELS, MODELS, descend, expected_losses, moment_points

__all__ = ["EIGENVALUES", "escape_times", "plot_escape", "plot_plateaus", "run_plateaus"]

EIGENVALUES = (4.0, 2.0, 1.0, 0.5, 0.25, 0.125)
DATA = ("expected", "samples")
# The flow of the pair moves balanced weights as the encoder's alone does: aligned modes have the same law.
_LAW = {"tied": "tied", "pair": "encoder"}
# Where half of what a mode takes off the loss is gone: (1 - w^2)^2 = 1/2.
_HALF = 1 - np.sqrt(0.5)


def _modes(A: FloatArray, C: FloatArray, covariance: FloatArray) -> FloatArray:
    """Return how large each eigen-direction begins, beyond what those before it have in common with it.

    In the eigenbasis each row of (A + C)/2 grows at its own rate. Once a row has grown, what later ones have
    along it dies out: what is left to grow is the residual of Gram and Schmidt.
    """
    rows = spectrum(covariance).eigenvectors.T @ (A + C) / 2
    return np.abs(np.diag(np.linalg.qr(rows.T)[1]))


def escape_times(loss: npt.ArrayLike, t: npt.ArrayLike, levels: npt.ArrayLike) -> FloatArray:
    """Return when a falling loss passes halfway from each level to the next, nan where it does not.

    Parameters
    ----------
    loss : (n_times,) array_like of float
    t : (n_times,) array_like of float
        Sorted.
    levels : (n_levels,) array_like of float
        Falling.

    Returns
    -------
    times : ndarray (n_levels - 1,)
        Linear between the times given.

    Raises
    ------
    ValueError
        If shapes do not fit.

    Examples
    --------
    >>> escape_times([3.0, 3.0, 1.0, 1.0], [0.0, 1.0, 2.0, 3.0], [3.0, 1.0, 0.0])
    array([1.5, nan])
    """
    height = arguments.vector("loss", loss)
    times = arguments.vector("t", t, height.size)
    marks = arguments.vector("levels", levels)
    found = np.full(marks.size - 1, np.nan)
    for k, half in enumerate((marks[1:] + marks[:-1]) / 2):
        below = np.flatnonzero(height < half)
        if below.size and below[0] > 0:
            i = int(below[0])
            share = (height[i - 1] - half) / (height[i - 1] - height[i])
            found[k] = times[i - 1] + share * (times[i] - times[i - 1])
    return found


def run_plateaus(
    eigenvalues: Sequence[float] = EIGENVALUES,
    n_hidden: int = 3,
    initial: float = 1e-3,
    samples: int = 60,
    runs: int = 4,
    seed: int = 0,
    *,
    rate: float = 0.0025,
    points: int = 160,
    trained: bool = True,
) -> xr.Dataset:
    """Train from small weights and put the exact flows, the saddles' losses and their rates beside.

    Parameters
    ----------
    eigenvalues : sequence of float, optional
        Of the covariance of the inputs, which are normal; positive, falling.
    n_hidden : int, optional
        Hidden neurons, fewer than eigenvalues.
    initial : float, optional
        Standard deviation of the first weights, below 0.1.
    samples : int, optional
        Inputs in the finite data set.
    runs : int, optional
        Starts.
    seed : int, optional
        Of starts and samples.
    rate : float, optional
        Learning rate; ``rate * eigenvalues[0]`` is the relative error of first order.
    points : int, optional
        Times at which weights are kept.
    trained : bool, optional
        Whether to train with PyTorch; if not, there are the flows and predictions only.

    Returns
    -------
    xarray.Dataset
        Losses per feature of (model, data, run, time): ``flow_loss``, ``law_loss`` (each direction by itself
        in closed form, from what Gram and Schmidt leave of its start) and ``trained_loss``, on the data that
        is trained on; ``time`` of (model, step). ``level`` (data, saddle): `critical_loss` of the saddle that
        keeps so many leading directions. ``rate`` (model, data, saddle): the largest growth rate there.
        ``predicted``, ``escape`` and ``trained_escape`` (model, data, run, saddle): when the loss is halfway
        to the next level, from `rate`, in the flow, in training. ``population_loss`` (model, data, run):
        expected loss of the trained models at the end.

    Raises
    ------
    ValueError
        If an argument is out of range.
    ImportError
        If `trained` and PyTorch is not installed.

    Examples
    --------
    >>> ds = run_plateaus((4.0, 1.0, 0.2), 1, runs=1, trained=False)
    >>> bool(abs(ds.escape / ds.predicted - 1).max() < 0.01)
    True
    """
    values = arguments.real("eigenvalues", arguments.vector("eigenvalues", eigenvalues), 0, brackets="()")
    if values.size < 2 or np.any(np.diff(values) >= 0):
        raise ValueError(f"`eigenvalues` must be two or more and fall; got {values.tolist()}.")
    n = values.size
    d = arguments.integer("n_hidden", n_hidden, 1, n - 1)
    initial = arguments.number("initial", initial, 0, 0.1, brackets="()")
    samples = arguments.integer("samples", samples, n)
    runs = arguments.integer("runs", runs, 1)
    rate = arguments.number("rate", rate, 0, 0.2 / values[0], brackets="(]")
    points = arguments.integer("points", points, 2)
    rng = np.random.default_rng([arguments.integer("seed", seed, 0), n, d])
    drawn = rng.normal(size=(samples, n)) * np.sqrt(values)
    inputs = {"expected": moment_points(np.diag(values)), "samples": drawn}
    first = initial * rng.normal(size=(2, runs, n, d))

    shape = (len(MODELS), len(DATA), runs)
    losses = {name: np.empty((*shape, points)) for name in ("flow_loss", "law_loss", "trained_loss")}
    times = {name: np.empty((*shape, d)) for name in ("predicted", "escape", "trained_escape")}
    clock, rates = np.empty((len(MODELS), points)), np.empty((len(MODELS), len(DATA), d))
    levels, population = np.empty((len(DATA), d + 1)), np.empty(shape)
    for i, model in enumerate(MODELS):
        speed = 2 if model == "tied" else 1
        end = 1.6 * np.log(1 / initial) / (speed * values[d - 1])
        steps = np.rint(np.geomspace(end / 40, end, points) / (2 * rate)).astype(int)
        clock[i] = t = 2 * rate * steps
        A0, C0 = (first[0], first[0]) if model == "tied" else first
        for j, data in enumerate(DATA):
            x = inputs[data]
            sigma = x.T @ x / len(x)
            lam = spectrum(sigma).eigenvalues
            levels[j] = [critical_loss(sigma, range(k)) for k in range(d + 1)]
            rates[i, j] = [growth_rates(sigma, range(k), d, model)[0] for k in range(d)]
            for r in range(runs):
                start = _modes(A0[r], C0[r], sigma)
                square = np.asarray(aligned_mode(start[:, None], lam[:d, None], t, _LAW[model])) ** 2
                losses["law_loss"][i, j, r] = (lam[:d] @ (1 - square) ** 2 + lam[d:].sum()) / n
                odds = _HALF / (1 - _HALF) * (1 - start**2) / start**2
                times["predicted"][i, j, r] = np.log(odds) / (2 * rates[i, j])
                exact = flow(A0[r], sigma, t) if model == "tied" else flow_pair(A0[r], C0[r].T, sigma, t)
                losses["flow_loss"][i, j, r] = exact.loss
                times["escape"][i, j, r] = escape_times(exact.loss, t, levels[j])
            if not trained:
                continue
            found = descend(A0, C0, x, rate, steps.tolist(), model)
            losses["trained_loss"][i, j] = expected_losses(found.A, found.C, sigma).T
            for r, course in enumerate(losses["trained_loss"][i, j]):
                times["trained_escape"][i, j, r] = escape_times(course, t, levels[j])
            population[i, j] = expected_losses(found.A[-1], found.C[-1], np.diag(values))
    run, saddle = ("model", "data", "run"), np.arange(d)
    contents = {
        **{name: ((*run, "step"), value) for name, value in losses.items()},
        **{name: ((*run, "saddle"), value) for name, value in times.items()},
        "rate": (("model", "data", "saddle"), rates),
        "level": (("data", "kept"), levels),
        "population_loss": (run, population),
        "time": (("model", "step"), clock),
    }
    if not trained:
        for name in ("trained_loss", "trained_escape", "population_loss"):
            del contents[name]
    return xr.Dataset(
        contents,
        {"model": list(MODELS), "data": list(DATA), "saddle": saddle, "kept": np.arange(d + 1)},
        {"n_features": n, "n_hidden": d, "initial": initial, "learning_rate": rate, "samples": samples},
    )


def plot_plateaus(ds: xr.Dataset, ax: Axes, data: str = "expected", run: int = 0) -> Axes:
    """Draw losses over time of one start, the saddles' losses and the escapes predicted; of `run_plateaus`.

    Parameters
    ----------
    ds : xarray.Dataset
    ax : Axes
    data : {"expected", "samples"}, optional
    run : int, optional
    """
    levels = ds["level"].sel(data=data).values
    for k, level in enumerate(levels):
        ax.axhline(
            level, color="0.6", linewidth=0.8, linestyle=":", label="critical loss" if k == 0 else None
        )
    for i, model in enumerate(ds["model"].values):
        one = ds.sel(model=model, data=data).isel(run=run)
        t = one["time"].values
        ax.plot(t, one["flow_loss"], color="C0", linewidth=1.2, label="exact flow" if i == 0 else None)
        if "trained_loss" in ds:
            ax.plot(
                t[i::4],
                one["trained_loss"][i::4],
                "os"[i],
                color=f"C{i + 1}",
                markersize=3,
                label=f"PyTorch, {LABELS[str(model)]}",
            )
        ax.plot(
            one["predicted"],
            (levels[1:] + levels[:-1]) / 2,
            "|",
            color=f"C{i + 1}",
            markersize=14,
            markeredgewidth=1.6,
            label=f"predicted escape, {LABELS[str(model)]}",
        )
    what = "expected loss" if data == "expected" else f"{ds.attrs['samples']} samples"
    ax.set(xscale="log", xlabel="time t of the flow", ylabel="loss per feature", title=what)
    ax.set_ylim(0, 1.08 * levels.max())
    ax.legend()
    return ax


def plot_escape(ds: xr.Dataset, ax: Axes) -> Axes:
    """Draw measured against predicted escape times, as ratios, of all runs; of `run_plateaus`."""
    measured = "trained_escape" if "trained_escape" in ds else "escape"
    for i, model in enumerate(ds["model"].values):
        for j, data in enumerate(ds["data"].values):
            one = ds.sel(model=model, data=data)
            predicted = one["predicted"].values.ravel()
            ax.plot(
                predicted,
                one[measured].values.ravel() / predicted,
                "os"[i],
                color=f"C{i + 1}",
                markersize=4,
                fillstyle=("full", "none")[j],
                label=f"{LABELS[str(model)]}, {'expected loss' if j == 0 else 'samples'}",
            )
    ax.axhline(1, color="C0", label="saddles' growth rates")
    if measured == "trained_escape":
        # Steps of gradient descent grow by 1 + 2 eta rate, the flow by exp(2 eta rate).
        one = ds.sel(data="expected")
        growth = 2 * ds.attrs["learning_rate"] * one["rate"].values.ravel()
        mean = one["predicted"].mean("run").values.ravel()
        ax.plot(mean, growth / np.log1p(growth), "x", color="C0", label="with steps of this length")
    ax.set(xlabel="predicted time of escape", ylabel="measured / predicted")
    ax.legend()
    return ax
