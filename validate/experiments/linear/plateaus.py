"""Training from small weights: plateaus of the loss at saddles, and the times at which it escapes."""

import itertools
from collections.abc import Sequence
from functools import partial

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from ....solvers.statistics import first_level
from ....theory import validation
from ....theory.annotations import as_annotated
from ....theory.linear import aligned_mode, critical_loss, growth_rates, spectrum
from ....theory.validation import FloatArray
from ...runner.declarations import Figure, Run, Topic, TopicContent, from_rows, span
from ..drawing import finish_axes, plot_function
from .descent import LABELS, MODELS, ROUTES, check_eigenvalues, expected_losses, follow_routes, moment_points
from .saddles import saddle_table, span_of_runs

EIGENVALUES = (4.0, 2.0, 1.0, 0.5, 0.25, 0.125)
DATA = ("expected", "samples")  # trained on the expected loss, or on drawn inputs
# The flow of the pair moves balanced weights as the encoder's alone does: aligned modes have the same law.
_LAW = {"tied": "tied", "pair": "encoder"}
# Where half of what a mode takes off the loss is gone: (1 - w^2)^2 = 1/2.
_HALF = 1 - np.sqrt(0.5)


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
    """Train from small weights, beside the exact flows, the losses of the saddles and their growth rates.

    Parameters
    ----------
    eigenvalues : sequence of float, optional
        Eigenvalues of the covariance of the inputs, which are normal; positive, falling.
    n_hidden, samples : int, optional
        Number of hidden neurons, below that of the eigenvalues; inputs in the finite data set.
    initial : float, optional
        Standard deviation of the first weights, below 0.1.
    rate : float, optional
        Learning rate. Training lags behind the flow by a share of about ``rate * eigenvalues[0]`` of the
        time.
    runs, seed, points : int, optional
        Number of starts; seed of starts and samples; number of times at which weights are measured.
    trained : bool, optional
        Whether to train with PyTorch; if not, the only route is the flow.

    Returns
    -------
    xarray.Dataset
        All variables but ``level`` and ``time`` also have the dimensions (model, data): tied or separate
        weights, trained on the expected loss or on samples. ``loss`` (route, run, step) per feature on these
        data, at ``time`` (model, step), with route "flow" or "trained". ``law_loss`` (run, step): a closed
        form in which each eigen-direction grows independently from its initial size. ``level`` (data, kept):
        `critical_loss` of the saddle that keeps this number of leading directions. ``rate`` (saddle): the
        largest growth rate there. Time at which the loss is halfway from a saddle's level to the next one:
        ``predicted`` (run, saddle) from ``rate``, and ``escape`` (route, run, saddle) measured.
        ``population_loss`` (route, run): expected loss at the end.

    Examples
    --------
    >>> ds = run_plateaus((4.0, 1.0, 0.2), 1, runs=1, trained=False)
    >>> bool(abs(ds.escape / ds.predicted - 1).max() < 0.01)
    True
    """
    values = check_eigenvalues(eigenvalues)
    n = values.size
    d = validation.integer("n_hidden", n_hidden, 1, n - 1)
    initial = validation.number("initial", initial, 0, 0.1, brackets="()")
    samples, runs = validation.integers(samples=(samples, n), runs=(runs, 1))
    points = validation.integer("points", points, 2)
    rate = validation.number("rate", rate, 0, 0.2 / values[0], brackets="(]")
    rng = np.random.default_rng([seed, n, d])
    inputs = [moment_points(np.diag(values)), rng.normal(size=(samples, n)) * np.sqrt(values)]
    first = initial * rng.normal(size=(2, runs, n, d))

    rows = []
    for model in MODELS:
        speed = 2 if model == "tied" else 1
        # From before the first escape, also of samples with a larger eigenvalue, until after the last one.
        begin, end = np.log(1 / initial) / (speed * values[[0, d - 1]]) * (0.4, 1.6)
        steps = np.rint(np.geomspace(begin, end, points) / (2 * rate)).astype(int)
        t = 2 * rate * steps
        A0, C0 = first[0], first[0 if model == "tied" else 1]
        for x in inputs:
            sigma = x.T @ x / len(x)
            lam = spectrum(sigma).eigenvalues
            levels = np.array([critical_loss(sigma, range(k)) for k in range(d + 1)])
            rates = np.array([growth_rates(sigma, range(k), d, model)[0] for k in range(d)])
            start = _initial_mode_sizes(A0, C0, sigma)
            odds = _HALF / (1 - _HALF) * (1 - start**2) / start**2
            square = np.square(aligned_mode(start[..., None], lam[:d, None], t, _LAW[model]))
            A, C = follow_routes(A0, C0, x, rate, steps, model, trained)
            loss = expected_losses(A, C, sigma)
            escape = np.apply_along_axis(_escape_times, -1, loss, t, levels)
            last = expected_losses(A[:, :, -1], C[:, :, -1], np.diag(values))
            columns = {
                "loss": (("route", "run", "step"), loss),
                "law_loss": (("run", "step"), (lam[:d] @ (1 - square) ** 2 + lam[d:].sum()) / n),
                "predicted": (("run", "saddle"), np.log(odds) / (2 * rates)),
                "escape": (("route", "run", "saddle"), escape),
                "rate": ("saddle", rates),
                "level": ("kept", levels),
                "population_loss": (("route", "run"), last),
                "time": ("step", t),
            }
            rows.append(columns)
    ds = from_rows(rows, model=MODELS, data=DATA).transpose("route", "model", "data", ...)
    level, time = ds["level"].isel(model=0, drop=True), ds["time"].isel(data=0, drop=True)
    routes = list(ROUTES[: 1 + trained])
    ds = ds.assign(level=level, time=time).assign_coords(route=routes, saddle=range(d), kept=range(d + 1))
    return ds.assign_attrs(n_features=n, n_hidden=d, samples=samples, initial=initial, learning_rate=rate)


def _initial_mode_sizes(A: FloatArray, C: FloatArray, covariance: FloatArray) -> FloatArray:
    """Return the initial size of each eigen-direction of `covariance`, by falling eigenvalue, as (..., d).

    A and C, (..., n, d), are first decoders and transposed encoders. Row i of (A + C)/2 in the eigenbasis
    grows at the rate of eigenvalue i. A row that has grown suppresses the components of later rows along it,
    so the size is the length of row i after Gram-Schmidt against earlier rows.
    """
    rows = spectrum(covariance).eigenvectors.T @ (A + C) / 2
    return np.asarray(np.abs(np.diagonal(np.linalg.qr(rows.mT)[1], axis1=-2, axis2=-1)))


def _escape_times(loss: FloatArray, t: FloatArray, levels: FloatArray) -> list[float]:
    """Return the times at which a falling loss is halfway from each of `levels` to the next; nan if never.

    `loss` has the values at the times `t`.
    """
    return [first_level(t, -loss, -middle) for middle in (levels[1:] + levels[:-1]) / 2]


def euler_delays(ds: xr.Dataset) -> xr.DataArray:
    """Return (time of gradient steps) / (time of the flow) - 1 at each saddle, as (model, data, saddle).

    A gradient step multiplies a growing direction by 1 + g, the flow by exp(g), with g = 2 eta rate and the
    learning rate eta: the delay is g / log(1 + g) - 1. `ds` is from `run_plateaus`.
    """
    growth: xr.DataArray = 2 * ds.attrs["learning_rate"] * ds["rate"]
    return growth / np.log1p(growth) - 1


@plot_function
def plot_plateaus(ds: xr.Dataset, ax: Axes, data: str = "expected", run: int = 0) -> Axes:
    """Draw losses of one start against time, with the saddles' losses and the predicted escape times.

    `ds` is from `run_plateaus`, `data` a value on its axis ``data``, such as "expected", `run` the start's
    position.
    """
    levels = ds["level"].sel(data=data).values
    for k, level in enumerate(levels):
        ax.axhline(level, color="0.6", linewidth=0.8, linestyle=":", label="" if k else "critical loss")
    for i, model in enumerate(MODELS):
        at = ds.sel(model=model, data=data).isel(run=run)
        ax.plot(at["time"], at["loss"].sel(route="flow"), "C0", lw=1.2, label="" if i else "exact flow")
        if "trained" in ds["route"]:
            markers = at.sel(route="trained").isel(step=slice(i, None, 4))
            label = f"PyTorch, {LABELS[model]}"
            ax.plot(markers["time"], markers["loss"], f"{'os'[i]}C{i + 1}", markersize=3, label=label)
        middles = (levels[1:] + levels[:-1]) / 2
        label = f"predicted escape, {LABELS[model]}"
        ax.plot(at["predicted"], middles, f"|C{i + 1}", ms=14, markeredgewidth=1.6, label=label)
    title = "expected loss" if data == "expected" else f"{ds.attrs['samples']} samples"
    ax.set(xscale="log", ylim=(0, 1.08 * levels.max()), title=title)
    return finish_axes(ax, xlabel="time t of the flow", ylabel="loss per feature")


@plot_function
def plot_escape(ds: xr.Dataset, ax: Axes) -> Axes:
    """Draw (measured) / (predicted) escape times of all runs against the predicted ones.

    `ds` is from `run_plateaus`.
    """
    measured = ds["escape"].isel(route=-1)
    for (i, model), (j, data) in itertools.product(enumerate(MODELS), enumerate(DATA)):
        x, y = (times.sel(model=model, data=data).values.ravel() for times in (ds["predicted"], measured))
        label = f"{LABELS[model]}, {('expected loss', 'samples')[j]}"
        filled = ("full", "none")[j]
        ax.plot(x, y / x, "os"[i], color=f"C{i + 1}", markersize=4, fillstyle=filled, label=label)
    ax.axhline(1, color="C0", label="saddles' growth rates")
    if "trained" in ds["route"]:
        expected = ds.sel(data="expected")
        middle = expected["predicted"].mean("run").values.ravel()
        delays = euler_delays(expected).values.ravel()
        ax.plot(middle, 1 + delays, "x", color="C0", label="with steps of this length")
    return finish_axes(ax, xlabel="predicted time of escape", ylabel="measured / predicted")


def _show_plateaus(ds: xr.Dataset) -> TopicContent:
    """Return text, figure and table of the report's part "plateaus", from `ds` of `run_plateaus`.

    The figure has losses against time, for the expected loss and for samples, with the saddles' losses, and
    (measured) / (predicted) escape times. The table has these ratios for flow and training, by saddle.
    """
    flow, trained = (ds["escape"].sel(route=route, drop=True) for route in ("flow", "trained"))
    law = float(np.abs(ds["law_loss"] - ds["loss"].sel(route="flow")).max() / ds["level"].max())
    ends = ds["population_loss"].sel(route="trained", data="samples")
    lost = ends / ds["level"].sel(data="expected").isel(kept=-1) - 1
    text = (
        "Escape times: each direction grows by itself, starting from the part of its row of the first "
        "weights that is orthogonal to the rows of larger eigenvalues. In the exact flow the loss is "
        f"halfway to the next saddle at {span(flow / ds['predicted'], '.3f')} times the time so predicted "
        f"({ds.sizes['run']} starts, tied and untied, expected loss and samples); the closed form of the "
        f"whole course, a sum of such modes, differs from the flow by at most {law:.1e} of the loss at the "
        f"origin. Trained models are late by {span((trained / flow - 1).mean('run'), '.1%')} at learning "
        f"rate {ds.attrs['learning_rate']:g}: a step grows by 1 + 2ηr where the flow grows by exp(2ηr), "
        f"which accounts for {span(euler_delays(ds), '.1%')}. The expected loss of models trained on "
        f"{ds.attrs['samples']} samples ends {span(lost, '.1%')} above the minimum."
    )
    caption = (
        f"n = {ds.attrs['n_features']}, d = {ds.attrs['n_hidden']}, first weights of standard deviation "
        f"{ds.attrs['initial']:g}. Markers are trained models, lines exact flows. Dotted: critical losses. "
        "Bars: when the loss is predicted to be halfway to the next saddle, from the growth rate at the "
        "saddle and the start. Right: measured over predicted, all starts."
    )
    panels = (plot_plateaus, partial(plot_plateaus, data="samples"), plot_escape)
    title = "From small weights the loss rests at the saddles"
    figure = Figure("plateaus", title, caption, ds, panels, columns=3)
    columns = {
        "critical loss": ds["level"].isel(kept=slice(-1)).rename(kept="saddle"),
        "growth rate": ds["rate"],
        "predicted escape": span_of_runs(ds["predicted"], ".4g"),
        "flow / predicted": span_of_runs(flow / ds["predicted"], ".4f"),
        "PyTorch / predicted": span_of_runs(trained / ds["predicted"], ".4f"),
    }
    names = {"model": "weights", "data": "trained on", "saddle": "directions kept"}
    headline = (
        "Linear autoencoders trained from small weights rest at the saddles of the loss and leave them at "
        f"{span(trained / ds['predicted'], '.2f')} times the time that eigenvalues and start predict."
    )
    return TopicContent(text, [figure], [saddle_table("Escapes from the saddles", columns, names)], headline)


QUICK = {"rate": 0.004}
WIDE = (8.0, 4.0, 2.0, 1.0, 0.5, 0.25, 0.125, 0.0625)
FULL = {"eigenvalues": WIDE, "n_hidden": 5, "initial": 1e-4, "samples": 200, "runs": 16, "rate": 5e-4}
RUNS = {"plateaus": Run(run_plateaus, QUICK, FULL, torch=True, seconds=4)}
TOPICS = [Topic("plateaus", ["plateaus"], _show_plateaus, claims=["B2", "B3"])]
