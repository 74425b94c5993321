"""Training beside exact flows: three flows from one start, and the saddles passed from small weights."""

import itertools
from collections.abc import Sequence

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from ....solvers.statistics import first_level
from ....theory import validation
from ....theory.annotations import as_annotated
from ....theory.linear import aligned_mode, critical_loss, growth_rates, spectrum
from ....theory.validation import FloatArray
from ..drawing import finish_axes, plot_function
from .descent import LABELS, MODELS, ROUTES, RULES, courses, falling
from .weights import expected_losses, first_modes, largest_angles, moment_points

NAMES = {
    "pair": "pair, Eqs. 20, 21",
    "encoder": "encoder alone, Eq. 22",
    "decoder": "decoder alone (Oja)",
    "tied": "tied loss",
}
_MOST_POINTS = 100_000  # of a course that is drawn
_LENGTH = 0.6  # singular values of the starts
EIGENVALUES = (4.0, 2.0, 1.0, 0.5, 0.25, 0.125)
DATA = ("expected", "samples")  # trained on the expected loss, or on drawn inputs
# The flow of the pair moves balanced weights as the encoder's alone does: aligned modes have the same law.
_LAW = {"tied": "tied", "pair": "encoder"}
# Where half of what a mode takes off the loss is gone: (1 - w^2)^2 = 1/2.
_HALF = 1 - np.sqrt(0.5)


@as_annotated
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
    d = validation.integer("n_hidden", n_hidden, 1, n - 1)
    end = validation.number("end", end, 0, brackets="()")
    runs, points, seed = validation.integers(runs=(runs, 1), points=(points, 2, _MOST_POINTS), seed=(seed, 0))
    rate = validation.number("rate", rate, 0, 0.2 / values[0], brackets="(]")
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
    return finish_axes(ax, xlabel="time t")


@plot_function
def plot_losses(ds: xr.Dataset, ax: Axes, run: int = 0) -> Axes:
    """Draw how far the loss is above its minimum under each flow from one start; of `run_flows`."""
    height = (ds["loss"] - ds["optimum"]).isel(run=run)
    ax.set(yscale="log", ylabel="loss per feature − minimum", ylim=(1e-4, 2 * float(height.max())))
    return _curves(height, ax)


@plot_function
def plot_angles(ds: xr.Dataset, ax: Axes, run: int = 0) -> Axes:
    """Draw the angle between the span and the leading eigenvectors from one start; of `run_flows`."""
    ax.set(ylabel="angle to the leading subspace (degrees)", ylim=(0, 90))
    return _curves(ds["angle"].isel(run=run), ax)


def _escapes(loss: FloatArray, t: FloatArray, levels: FloatArray) -> list[float]:
    """Return when a falling loss passes halfway from each level to the next, nan where it does not."""
    return [first_level(t, -loss, -middle) for middle in (levels[1:] + levels[:-1]) / 2]


def lags(ds: xr.Dataset) -> xr.DataArray:
    """Return by how much steps of 1 + 2 eta rate are later than the flow, which grows by exp(2 eta rate)."""
    growth: xr.DataArray = 2 * ds.attrs["learning_rate"] * ds["rate"]
    late: xr.DataArray = growth / np.log1p(growth) - 1
    return late


@as_annotated
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
    n_hidden, samples : int, optional
        Hidden neurons, fewer than eigenvalues; inputs in the finite data set.
    initial, rate : float, optional
        Standard deviation of the first weights, below 0.1; learning rate: ``rate * eigenvalues[0]`` is the
        relative error of first order.
    runs, seed, points : int, optional
        Starts; seed of starts and samples; times at which weights are kept.
    trained : bool, optional
        Whether to train with PyTorch; if not, the only route is the flow.

    Returns
    -------
    xarray.Dataset
        Of (model, data), on the data that is trained on, with route "flow" or "trained": ``loss`` per feature
        (route, run, step) at ``time`` (model, step); ``law_loss`` (run, step), each direction by itself in
        closed form, from what Gram and Schmidt leave of its start; ``level`` (data, kept): `critical_loss` of
        the saddle that keeps so many leading directions; ``rate`` (saddle): the largest growth rate there;
        ``predicted`` (run, saddle) and ``escape`` (route, run, saddle): when the loss is halfway to the next
        level, from `rate` and as it is; ``population_loss`` (route, run): expected loss at the end.

    Examples
    --------
    >>> ds = run_plateaus((4.0, 1.0, 0.2), 1, runs=1, trained=False)
    >>> bool(abs(ds.escape / ds.predicted - 1).max() < 0.01)
    True
    """
    values = falling(eigenvalues)
    n = values.size
    d = validation.integer("n_hidden", n_hidden, 1, n - 1)
    initial = validation.number("initial", initial, 0, 0.1, brackets="()")
    whole = {"samples": (samples, n), "runs": (runs, 1), "points": (points, 2), "seed": (seed, 0)}
    samples, runs, points, seed = validation.integers(**whole)
    rate = validation.number("rate", rate, 0, 0.2 / values[0], brackets="(]")
    rng = np.random.default_rng([seed, n, d])
    inputs = [moment_points(np.diag(values)), rng.normal(size=(samples, n)) * np.sqrt(values)]
    first = initial * rng.normal(size=(2, runs, n, d))

    routes = ROUTES[: 1 + trained]
    shape = (len(MODELS), len(DATA), runs)
    loss, law = np.empty((len(routes), *shape, points)), np.empty((*shape, points))
    predicted, escape = np.empty((*shape, d)), np.empty((len(routes), *shape, d))
    clock, rates = np.empty((len(MODELS), points)), np.empty((len(MODELS), len(DATA), d))
    levels, population = np.empty((len(DATA), d + 1)), np.empty((len(routes), *shape))
    for i, model in enumerate(MODELS):
        speed = 2 if model == "tied" else 1
        # From before the first escape, also of samples with a larger eigenvalue, until after the last one.
        begin, end = np.log(1 / initial) / (speed * values[[0, d - 1]]) * (0.4, 1.6)
        steps = np.rint(np.geomspace(begin, end, points) / (2 * rate)).astype(int)
        clock[i] = t = 2 * rate * steps
        A0, C0 = first[0], first[0 if model == "tied" else 1]
        for j, x in enumerate(inputs):
            sigma = x.T @ x / len(x)
            lam = spectrum(sigma).eigenvalues
            levels[j] = [critical_loss(sigma, range(k)) for k in range(d + 1)]
            rates[i, j] = [growth_rates(sigma, range(k), d, model)[0] for k in range(d)]
            start = first_modes(A0, C0, sigma)
            odds = _HALF / (1 - _HALF) * (1 - start**2) / start**2
            predicted[i, j] = np.log(odds) / (2 * rates[i, j])
            square = np.square(aligned_mode(start[..., None], lam[:d, None], t, _LAW[model]))
            law[i, j] = (lam[:d] @ (1 - square) ** 2 + lam[d:].sum()) / n
            A, C = courses(A0, C0, x, rate, steps.tolist(), model, trained)
            loss[:, i, j] = expected_losses(A, C, sigma)
            population[:, i, j] = expected_losses(A[:, :, -1], C[:, :, -1], np.diag(values))
            escape[:, i, j] = np.apply_along_axis(_escapes, -1, loss[:, i, j], t, levels[j])
    run = ("model", "data", "run")
    columns = {
        "loss": (("route", *run, "step"), loss),
        "law_loss": ((*run, "step"), law),
        "predicted": ((*run, "saddle"), predicted),
        "escape": (("route", *run, "saddle"), escape),
        "rate": (("model", "data", "saddle"), rates),
        "level": (("data", "kept"), levels),
        "population_loss": (("route", *run), population),
        "time": (("model", "step"), clock),
    }
    coords = {"route": list(routes), "model": list(MODELS), "data": list(DATA)}
    ds = xr.Dataset(columns, {**coords, "saddle": np.arange(d), "kept": np.arange(d + 1)})
    sizes = {"n_features": n, "n_hidden": d, "samples": samples}
    return ds.assign_attrs(sizes, initial=initial, learning_rate=rate)


@plot_function
def plot_plateaus(ds: xr.Dataset, ax: Axes, data: str = "expected", run: int = 0) -> Axes:
    """Draw losses of one start, those of the saddles, and the escapes predicted; of `run_plateaus`."""
    levels = ds["level"].sel(data=data).values
    for k, level in enumerate(levels):
        ax.axhline(level, color="0.6", linewidth=0.8, linestyle=":", label="" if k else "critical loss")
    for i, model in enumerate(MODELS):
        one = ds.sel(model=model, data=data).isel(run=run)
        ax.plot(one["time"], one["loss"].sel(route="flow"), "C0", lw=1.2, label="" if i else "exact flow")
        if "trained" in ds["route"]:
            markers = one.sel(route="trained").isel(step=slice(i, None, 4))
            label = f"PyTorch, {LABELS[model]}"
            ax.plot(markers["time"], markers["loss"], f"{'os'[i]}C{i + 1}", markersize=3, label=label)
        middles = (levels[1:] + levels[:-1]) / 2
        label = f"predicted escape, {LABELS[model]}"
        ax.plot(one["predicted"], middles, f"|C{i + 1}", ms=14, markeredgewidth=1.6, label=label)
    what = "expected loss" if data == "expected" else f"{ds.attrs['samples']} samples"
    ax.set(xscale="log", ylim=(0, 1.08 * levels.max()), title=what)
    return finish_axes(ax, xlabel="time t of the flow", ylabel="loss per feature")


@plot_function
def plot_escape(ds: xr.Dataset, ax: Axes) -> Axes:
    """Draw measured against predicted escape times, as ratios, of all runs; of `run_plateaus`."""
    measured = ds["escape"].isel(route=-1)
    for (i, model), (j, data) in itertools.product(enumerate(MODELS), enumerate(DATA)):
        x, y = (part.sel(model=model, data=data).values.ravel() for part in (ds["predicted"], measured))
        label = f"{LABELS[model]}, {('expected loss', 'samples')[j]}"
        filled = ("full", "none")[j]
        ax.plot(x, y / x, "os"[i], color=f"C{i + 1}", markersize=4, fillstyle=filled, label=label)
    ax.axhline(1, color="C0", label="saddles' growth rates")
    if "trained" in ds["route"]:
        one = ds.sel(data="expected")
        middle = one["predicted"].mean("run").values.ravel()
        ax.plot(middle, 1 + lags(one).values.ravel(), "x", color="C0", label="with steps of this length")
    return finish_axes(ax, xlabel="predicted time of escape", ylabel="measured / predicted")
