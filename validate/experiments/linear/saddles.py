"""How fast training leaves each saddle, and which subspace it finds where eigenvalues are equal."""

from collections.abc import Sequence

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from ....theory import validation
from ....theory.annotations import as_annotated
from ....theory.features import SparseUniform
from ....theory.linear import critical_hessian, critical_loss, growth_rates, spectrum
from ...runner.declarations import from_rows
from ..drawing import finish_axes, plot_function
from . import descent, weights
from .descent import MODELS, ROUTES, courses, falling

_DEVIATION = 1e-12  # mean size of the first deviation of each weight from a saddle
# What the loss has fallen by, over the largest eigenvalue, while its growth is measured: the deviation,
# about its square root, is still small, and the loss's roundings are smaller.
_WINDOW = (1e-9, 1e-5)
# From the first deviation to the end of the window and beyond.
_FOLDS = 32.0


@as_annotated
def run_saddles(
    eigenvalues: Sequence[float] = (3.0, 2.0, 1.0, 0.5),
    n_hidden: int = 2,
    runs: int = 4,
    seed: int = 0,
    *,
    step: float = 0.05,
) -> xr.Dataset:
    """Train from beside each saddle and measure how fast the loss leaves it.

    Parameters
    ----------
    eigenvalues, step : sequence of float, float, optional
        Of the covariance, which is diagonal; positive, not rising. Equal ones are allowed: then one saddle
        stands for all that keep the same eigenvalues. Learning rate times the largest one.
    n_hidden, runs, seed : int, optional
        Hidden neurons, fewer than eigenvalues; deviations from each saddle, and their seed.

    Returns
    -------
    xarray.Dataset
        Of (model, saddle): ``flow_rate``, the largest growth rate of the flow, and ``rotation_rate``, that
        along the best rotation (Notes 2022, Prop. 3); ``predicted``, log(1 + 2 eta rate)/(2 eta), which is
        the rate of steps at the learning rate eta; ``index``; with run too: ``measured``, half the slope of
        the logarithm of what the loss has fallen by, by least squares while that is between 1e-9 and 1e-5 of
        the largest eigenvalue; other growing directions and curvature shift it by about 1e-3. Of (saddle):
        ``kept``, ``rank``.

    Examples
    --------
    >>> ds = run_saddles((3.0, 1.0), 1, runs=1)
    >>> ds.kept.values.tolist(), bool(abs(ds.measured.isel(run=0) / ds.predicted - 1).max() < 1e-3)
    (['none', '1'], True)
    """
    values = falling(eigenvalues, strictly=False)
    n, sigma = values.size, np.diag(values)
    d, runs, seed = validation.integers(n_hidden=(n_hidden, 1, n - 1), runs=(runs, 1), seed=(seed, 0))
    rate = validation.number("step", step, 1e-9, 0.2) / values[0]
    rng = np.random.default_rng([seed, n, d])

    sets = weights.saddles(sigma, d)
    # Weights whose columns are the directions kept; columns of neurons to spare are zero.
    points = np.zeros((len(sets), n, d))
    for point, kept in zip(points, sets, strict=True):
        point[list(kept), range(len(kept))] = 1
    levels = np.array([critical_loss(sigma, kept) for kept in sets]) * n
    stride = max(1, int(0.2 / step))  # several looks at the fastest growth
    rows = []
    for model in MODELS:
        rates = np.array([growth_rates(sigma, kept, d, model)[0] for kept in sets])
        predicted = np.log1p(2 * rate * rates) / (2 * rate)
        steps = np.arange(0, int(_FOLDS / (2 * rate * predicted.min())), stride)
        # Equal signs in decoder and encoder, where growing deviations have them too: none begins near zero.
        signs = rng.choice([-1.0, 1.0], size=(len(sets) * runs, n, d))
        away = _DEVIATION * signs * rng.uniform(0.5, 1.5, size=(2, *signs.shape))
        start = np.repeat(points, runs, axis=0) + away
        found = descent.descend(start[0], start[1], weights.moment_points(sigma), rate, steps.tolist(), model)
        losses = n * weights.expected_losses(found.A, found.C, sigma).T.reshape(len(sets), runs, -1)
        for s, kept in enumerate(sets):
            measured = []
            for fallen in (levels[s] - losses[s]) / values[0]:
                some = slice(np.argmax(fallen > _WINDOW[0]), np.argmax(fallen > _WINDOW[1]))
                measured.append(np.polyfit(2 * rate * steps[some], np.log(fallen[some]), 1)[0] / 2)
            second = critical_hessian(sigma, kept, d, tied=model == "tied")
            row = {"flow_rate": rates[s], "predicted": predicted[s], "index": second.index}
            rows.append({**row, "rotation_rate": second.rotation_rate, "measured": ("run", measured)})
    ds = from_rows(rows, model=MODELS, saddle=len(sets)).assign(
        kept=("saddle", [" ".join(map(str, kept)) or "none" for kept in sets]),
        rank=("saddle", [len(kept) for kept in sets]),
    )
    return ds.assign_attrs(n_hidden=d, eigenvalues=values, deviation=_DEVIATION, learning_rate=rate)


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
    """Train tied weights on sparse inputs, whose eigenvalues but one are equal, and follow the subspace.

    The prediction for the expected loss: the leading direction takes up the hidden direction that its row of
    the first weights points to, and the others keep the span that the first weights have in what is left.
    Finite samples have eigenvalues of their own and in the end decide.

    Parameters
    ----------
    n_features, n_hidden, samples : int, optional
        At least 3; from 2 to n_features - 1; inputs in the finite data set, at least n_features.
    p, initial : float, optional
        Probability that a feature is on, in (0, 1); standard deviation of the first weights, below 0.1.
    runs, seed, points : int, optional
        Starts; seed of starts and samples; times at which weights are kept.
    end, step : float, optional
        Last time, over that in which the equal eigenvalues grow from the start to 1; learning rate times the
        largest eigenvalue.

    Returns
    -------
    xarray.Dataset
        Of (route, data, run, time), with route "flow" or "trained" and data "expected" or "samples":
        ``angle_start`` and ``angle_samples`` in degrees, the largest between the span of the weights' columns
        and the subspace predicted from the start, or the leading one of the samples; ``excess``, expected
        loss per feature less its minimum, over the minimum. ``time`` is in units of one over the equal
        eigenvalues.

    Examples
    --------
    >>> ds = run_subspaces(runs=1, end=4.0).isel(run=0, time=-1)
    >>> bool((ds.angle_start.sel(data="expected") < 0.1).all())
    True
    """
    n = validation.integer("n_features", n_features, 3)
    d, samples = validation.integers(n_hidden=(n_hidden, 2, n - 1), samples=(samples, n))
    runs, points, seed = validation.integers(runs=(runs, 1), points=(points, 2), seed=(seed, 0))
    p = validation.number("p", p, 0, 1, brackets="()")
    initial = validation.number("initial", initial, 0, 0.1, brackets="()")
    end = validation.number("end", end, 1)
    rng = np.random.default_rng([seed, n, d, samples])
    sigma = SparseUniform(p).second_moment_matrix(n)
    known = spectrum(sigma)
    rate = validation.number("step", step, 1e-9, 0.2) / known.eigenvalues[0]
    equal = known.eigenvalues[-1]
    drawn = (rng.random((samples, n)) < p) * rng.random((samples, n))
    first = initial * rng.normal(size=(runs, n, d))
    grown = np.log(1 / initial) / (2 * equal)
    steps = np.rint(np.geomspace(0.7 * grown, end * grown, points) / (2 * rate)).astype(int)
    t = 2 * rate * steps

    leading = spectrum(drawn.T @ drawn / samples).eigenvectors[:, :d]
    top = known.eigenvectors[:, 0]
    predicted = np.stack([weights.subspace_left(W, top) for W in first])[:, None]
    least = critical_loss(sigma, range(d))
    values = np.empty((3, len(ROUTES), 2, runs, points))
    for j, x in enumerate((weights.moment_points(sigma), drawn)):
        A, C = courses(first, first, x, rate, steps.tolist(), "tied")
        excess = weights.expected_losses(A, C, sigma) / least - 1
        values[:, :, j] = weights.largest_angles(A, predicted), weights.largest_angles(A, leading), excess
    names = ("angle_start", "angle_samples", "excess")
    return xr.Dataset(
        {k: (("route", "data", "run", "time"), v) for k, v in zip(names, values, strict=True)},
        {"route": list(ROUTES), "data": ["expected", "samples"], "time": t * equal},
        {"n_features": n, "n_hidden": d, "p": p, "samples": samples, "initial": initial},
    )


@plot_function
def plot_subspaces(ds: xr.Dataset, ax: Axes, data: str = "expected") -> Axes:
    """Draw the angles to the two candidate subspaces; of `run_subspaces`, trained on one of its data."""
    for k, (name, label) in enumerate((("start", "predicted from the start"), ("samples", "of the samples"))):
        flow, trained = ds[f"angle_{name}"].sel(data=data).transpose("route", "time", "run")
        ax.plot(flow["time"], flow, color=f"C{k + 1}", linewidth=0.8, alpha=0.7)
        markers = ax.plot(flow["time"][::3], trained[::3], "os"[k], color=f"C{k + 1}", markersize=3)
        markers[0].set_label(label)
    what = "expected loss" if data == "expected" else f"{ds.attrs['samples']} samples"
    ax.set(xscale="log", xlabel="time t × equal eigenvalue", title=f"trained on {what}")
    return finish_axes(ax, {"title": "subspace"}, ylabel="angle to the subspace (degrees)", ylim=(-2, 92))
