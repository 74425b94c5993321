"""Fig. 6 of Lecomte et al. (2024): an encoding that stays spread while all others sparsify."""

from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr
from matplotlib.axes import Axes

from ....solvers import noise as solvers
from ....solvers.statistics import share
from ....theory import noise as theory
from ....theory import validation
from ....theory.annotations import as_annotated
from ....theory.validation import FloatArray
from ...runner.declarations import Figure, Run, Topic, TopicContent
from ..drawing import DIVERGING, finish_axes, plot_function
from .encodings import LARGE_STEP, describe_sizes, draw_starts, follow_averaged_flow, is_stuck

_SPACING = 1e-4  # of the differences that give curvatures


@as_annotated
def run_fig6(
    n_features: int = 8,
    n_hidden: int = 16,
    noise_std: float = 0.15,
    learning_rate: float = 0.02,
    steps: int = 50_000,
    runs: int = 8,
    *,
    points: int = 80,
    settle: float = 100.0,
    seed: int = 0,
) -> xr.Dataset:
    """Find a run with a stuck encoding under bipolar noise and explain it by the averaged loss.

    Parameters
    ----------
    n_features, n_hidden : int
        n, at least 3, and m, at most 40.
    noise_std, learning_rate : float
        Standard deviation of the noise, positive, and learning rate of the descents.
    steps, runs : int
        Steps of each run, and their number. The first run with a stuck encoding (:func:`is_stuck`) is
        explained; the first of all if none has one.
    points, settle : int, float
        Approximate number of steps at which norms are stored; time for which the flow of the averaged loss
        continues from the last weights.

    Returns
    -------
    xarray.Dataset
        ``fourth_norm`` (step, feature) and ``W`` (feature, hidden) of that run, features in ascending order
        of the last fourth norm, neurons in the order of the features whose largest weights they hold;
        ``settled``, W after the averaged flow; ``stuck`` (feature), whether each encoding is stuck before the
        flow, ``still_stuck`` after it. Numbers: ``found`` (runs with a stuck encoding), ``slope`` and
        ``curvature`` at the settled weights, their averaged ``loss``; ``loss_spread`` and ``loss_sparse``,
        losses of the symmetric minima with and without a spread encoding; ``spread_norm``, the fourth norm of
        the spread encoding in the former; ``owned``, the part of the first encoding's squared length on
        neurons that hold more than half of another encoding's.
    """
    n, m, runs = validation.integers(n_features=(n_features, 3), n_hidden=(n_hidden, 2, 40), runs=(runs, 1))
    std = validation.number("noise_std", noise_std, 0.0, brackets="()")
    settle = validation.number("settle", settle, 0.0)
    record = np.unique(np.linspace(0, validation.integer("steps", steps, 1), points + 1).astype(int))
    W0 = draw_starts(n, m, runs, seed)
    rng = np.random.default_rng([seed, 500])
    descent = solvers.descend(W0, "bipolar", std, learning_rate, steps, rng, record=record)
    has_stuck = is_stuck(descent.W).any(axis=1)
    run = int(np.argmax(has_stuck))
    order = np.argsort(descent.fourth_norm[run, -1])
    W = descent.W[run][order]
    share = W**2 / np.sum(W**2, axis=1, keepdims=True)
    # Neurons that a sparse encoding owns first, in the order of these.
    column = np.argsort(np.where(share.max(axis=0) > 0.5, np.argmax(share, axis=0), n), kind="stable")
    final_weights = follow_averaged_flow(W, std, settle)
    slope, smallest = curvature(final_weights, "bipolar", std)
    spread, sparse = (symmetric_minimum(n, std, spread=spread) for spread in (True, False))
    is_owned = np.any(share[1:] > 0.5, axis=0)
    return xr.Dataset(
        {
            "fourth_norm": (("step", "feature"), descent.fourth_norm[run][:, order]),
            "W": (("feature", "hidden"), W[:, column]),
            "settled": (("feature", "hidden"), final_weights[:, column]),
            "stuck": ("feature", is_stuck(W).astype(np.int8)),
            "still_stuck": ("feature", is_stuck(final_weights).astype(np.int8)),
            "found": int(has_stuck.sum()),
            "slope": slope,
            "curvature": smallest,
            "loss": theory.noise_averaged_loss(final_weights, "bipolar", std),
            "loss_spread": theory.noise_averaged_loss(spread, "bipolar", std),
            "loss_sparse": theory.noise_averaged_loss(sparse, "bipolar", std),
            "spread_norm": float(np.sum(spread[-1] ** 4)),
            "owned": float(share[0, is_owned].sum()),
        },
        {"step": record, "t": ("step", record * learning_rate)},
        {"n_features": n, "n_hidden": m, "noise_std": std, "learning_rate": learning_rate, "runs": runs},
    )


def curvature(W: npt.ArrayLike, noise: str, noise_std: float) -> tuple[float, float]:
    """Return (norm of the averaged loss's gradient, least eigenvalue of its Hessian) at encodings W (n, m).

    The loss is the sum over one-hot inputs e_i of E |ReLU(W (W' e_i + noise)) - e_i|^2, averaged over
    `noise`, "normal" or "bipolar", of standard deviation `noise_std`. At a minimum the results are 0 and
    positive. The Hessian is taken by differences of exact gradients at 1e-4 to each side, which smooths the
    gradient's kinks over this width.
    """
    at = validation.matrix("W", W)

    def gradient(W: FloatArray) -> FloatArray:
        """Return the gradient of the averaged loss at W."""
        return theory.noise_averaged_gradient(W, noise, noise_std)

    sides = _SPACING * np.eye(at.size).reshape(-1, *at.shape)
    hessian = np.array([(gradient(at + side) - gradient(at - side)).ravel() for side in sides])
    smallest = np.linalg.eigvalsh((hessian + hessian.T) / (4 * _SPACING))[0]
    return float(np.linalg.norm(gradient(at))), float(smallest)


def symmetric_minimum(n_features: int, noise_std: float, *, spread: bool) -> FloatArray:
    """Return encodings (n, n) at the most symmetric minimum of the loss averaged over bipolar noise.

    The loss is that of `curvature`, with standard deviation `noise_std`; n is `n_features`, at least 3. More
    hidden neurons would stay empty. Encodings are near one-hot; if `spread`, the last one points along the
    negative sum of the others. The minimum is found by descent from this shape.
    """
    n = validation.integer("n_features", n_features, 3)
    validation.check_fits("n_features", n_features, 8.0 * n * n)
    noise_std, spread = validation.number("noise_std", noise_std, 0.0), validation.flag("spread", spread)
    W = (1 + noise_std / 2) * np.eye(n) - noise_std / 2
    if spread:
        W[-1], W[:, -1] = -1 / np.sqrt(n - 1), 0.0
    for rate in (LARGE_STEP / 2, LARGE_STEP / 10):
        W = solvers.descend_averaged(W, "bipolar", noise_std, rate, 1000).W
    return W


@plot_function
def plot_fig6(ds: xr.Dataset, ax: Axes) -> Axes:
    """Draw |W_i|_4^4 of each encoding of one run against time (Fig. 6a); `ds` is from `run_fig6`."""
    styles: list[dict[str, Any]] = [{"color": "C1", "linewidth": 0.7}, {"color": "C2", "linewidth": 1.6}]
    for k, norms in enumerate(ds["fourth_norm"].values.T):
        ax.plot(ds["t"], norms, zorder=3 - k / 99, **styles[int(ds["stuck"][k])])
    for style, label in zip(styles, ("others", "stuck"), strict=True):
        ax.plot([], [], label=label, **style)
    at_rest = "spread encoding at the minimum of the averaged loss"
    ax.axhline(float(ds["spread_norm"]), color="C0", linewidth=1, label=at_rest)
    ax.set(xlabel="learning rate × steps", ylabel="fourth norm $|W_i|_4^4$")
    return finish_axes(ax, "upper left", ylim=(0, 1.6))


@plot_function
def plot_weights(ds: xr.Dataset, ax: Axes) -> Axes:
    """Draw the last weights of the run that is explained (Fig. 6b); `ds` is from `run_fig6`."""
    n, m = ds["W"].shape
    ax.grid(False)
    picture = ax.imshow(ds["W"].values, cmap=DIVERGING, vmin=-1, vmax=1, aspect="auto")
    ax.set(xticks=range(0, m, max(1, m // 8)), yticks=range(n))
    ax.figure.colorbar(picture, ax=ax, label="weight")
    return finish_axes(ax, None, xlabel="neuron, sorted", ylabel="feature, sorted by fourth norm")


def _show_fig6(ds: xr.Dataset) -> TopicContent:
    """Return text and figure of the report's part "fig6": an encoding that stays spread under noise.

    `ds` is from `run_fig6`. The figure has the fourth norm |W_i|_4^4 of each encoding of a run against time,
    and the last weights. The text has loss and curvature at the end of the averaged flow.
    """
    n_stuck, runs = int(ds["found"]), ds.attrs["runs"]
    text = (
        "An encoding counts as stuck if |W_i|_4^4/|W_i|_2^4 is below 1/2 while it is above for more than "
        f"half of its run's encodings: {n_stuck} of {runs} runs have one, a share of "
        f"{share(n_stuck, runs):.2f}. "
    )
    if n_stuck:
        text += (
            f"In the first of these, which is shown, it keeps {float(ds['owned']):.0%} of its squared length "
            "on neurons that others own. The flow of the averaged loss leaves "
            f"{int(ds['still_stuck'].sum())} stuck, at a gradient of length {float(ds['slope']):.1g} and "
            f"with a smallest curvature of {float(ds['curvature']):.2g}; positive is a strict minimum. Its "
            f"loss is {float(ds['loss']):.4f}. "
        )
    text += (
        "The symmetric minimum in which one encoding opposes all others at once has a loss of "
        f"{float(ds['loss_spread']):.4f}, with a fourth norm of {float(ds['spread_norm']):.3f} for this "
        f"encoding, near 1/(n-1); that in which all are near one-hot has {float(ds['loss_sparse']):.4f}. The "
        "source has the spread encoding kept from a better place, and the figure at σ = 0.01."
    )
    caption = (
        f"{describe_sizes(ds)}, σ = {ds.attrs['noise_std']:g}, learning rate {ds.attrs['learning_rate']:g}."
    )
    draw = (plot_fig6, plot_weights)
    figure = Figure("fig6", "Fig. 6: an encoding that stays spread", caption, ds, draw)
    headline = (
        f"Hidden noise leaves one encoding spread over the neurons of all others in {n_stuck} of {runs} "
        "runs; in the first, the smallest curvature of the noise-averaged loss there is "
        f"{float(ds['curvature']):.2g}."
    )
    return TopicContent(text, [figure], (), headline if n_stuck else "")


RUNS = {"fig6": Run(run_fig6, {"runs": 24}, {"runs": 100}, seconds=3)}
TOPICS = [Topic("fig6", ["fig6"], _show_fig6, claims=["L36"])]
