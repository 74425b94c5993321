"""What trained linear models represent on sparse inputs: how much of each feature, at which importance."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from ....theory import validation
from ....theory.annotations import as_annotated
from ....theory.features import SparseUniform
from ....theory.linear import reconstruction_loss, spectrum, weighted_optimum
from ..drawing import finish_axes, plot_function
from .descent import LABELS, MODELS, descend
from .weights import moment_points

BIASES = ("bias", "no bias")
IMPORTANCES = ("equal", "falling")
# Learning rate times the largest eigenvalue of the inputs' second moments, and momentum.
_RATE, _MOMENTUM = 0.1, 0.9


@as_annotated
def run_representation(
    n_features: int = 6,
    n_hidden: int = 3,
    p: Sequence[float] = (0.02, 0.1, 0.3, 0.6),
    decay: float = 0.8,
    runs: int = 4,
    seed: int = 0,
    *,
    steps: int = 700,
) -> xr.Dataset:
    """Train linear models (Elhage et al. 2022) on the expected loss of sparse inputs, beside weighted PCA.

    Parameters
    ----------
    n_features, n_hidden : int, optional
        At least 2; from 1 to n_features - 1.
    p, decay : sequence of float, float, optional
        Probabilities that a feature is on, in (0, 1]. Importance of feature i is ``decay**i``, and 1 for all
        beside it; in (0, 1).
    runs, seed, steps : int, optional
        Starts and their seed; steps of training.

    Returns
    -------
    xarray.Dataset
        Of (model, bias, importance, p, run): ``loss`` per feature of the trained model and ``share`` (also of
        feature), the diagonal of the product of decoder and encoder, |W_i|^2 if tied. Of (bias, importance,
        p): ``optimum``, least loss of any linear model; ``dedicated``, with all but n_hidden features given
        up; ``optimal_share`` (also of feature).

    Examples
    --------
    >>> ds = run_representation(3, 1, [0.1], runs=1)
    >>> ds.share.sel(model="tied", bias="bias", importance="falling").values.ravel().round(3) + 0
    array([1., 0., 0.])
    """
    n, runs, steps = validation.integers(n_features=(n_features, 2), runs=(runs, 1), steps=(steps, 1))
    d, seed = validation.integers(n_hidden=(n_hidden, 1, n - 1), seed=(seed, 0))
    chances = validation.real("p", validation.vector("p", p), 0, 1, brackets="(]")
    decay = validation.number("decay", decay, 0, 1, brackets="()")
    rng = np.random.default_rng([seed, n, d])
    weights = np.stack((np.ones(n), decay ** np.arange(n)))
    start = rng.normal(size=(2, runs, n, d)) * 0.1

    laws, inputs = [SparseUniform(q) for q in chances], []
    for x in laws:  # in units in which one learning rate fits all
        unit = spectrum(x.second_moment_matrix(n)).eigenvalues[0]
        inputs += [moment_points(x.covariance(n) / unit, np.full(n, x.mean / np.sqrt(unit)))] * runs
    start = np.tile(start, (1, len(laws), 1, 1))
    shape = (len(BIASES), len(IMPORTANCES), len(laws))
    loss, share = np.empty((len(MODELS), *shape, runs)), np.empty((len(MODELS), *shape, runs, n))
    optimum, dedicated, best_share = np.empty(shape), np.empty(shape), np.empty((*shape, n))
    for j, k in np.ndindex(shape[:2]):
        # A bias at its best leaves the covariance of the inputs in the place of their second moments.
        sigmas = [x.second_moment_matrix(n) if j else x.covariance(n) for x in laws]
        for q, sigma in enumerate(sigmas):
            best = weighted_optimum(sigma, weights[k], d)
            optimum[j, k, q], dedicated[j, k, q] = best.loss, best.dedicated
            best_share[j, k, q] = np.diag(best.A @ best.B)
        for i, model in enumerate(MODELS):
            options: dict[str, Any] = {"importance": weights[k], "bias": j == 0, "momentum": _MOMENTUM}
            descent = descend(start[0], start[i], inputs, _RATE, [steps], model, **options)
            for place, (A, C) in enumerate(zip(descent.A[-1], descent.C[-1], strict=True)):
                q, r = divmod(place, runs)
                loss[i, j, k, q, r] = reconstruction_loss(A, C.T, sigmas[q], weights[k])
                share[i, j, k, q, r] = np.sum(A * C, axis=1)
    where = ("bias", "importance", "p")
    columns = {
        "loss": (("model", *where, "run"), loss),
        "share": (("model", *where, "run", "feature"), share),
        "optimum": (where, optimum),
        "dedicated": (where, dedicated),
        "optimal_share": ((*where, "feature"), best_share),
    }
    coords = {"model": list(MODELS), "bias": list(BIASES), "importance": list(IMPORTANCES), "p": chances}
    return xr.Dataset(columns, coords, {"n_features": n, "n_hidden": d, "decay": decay, "steps": steps})


@plot_function
def plot_shares(ds: xr.Dataset, ax: Axes, model: str = "tied") -> Axes:
    """Draw how much of each feature models keep, at falling importance; of `run_representation`."""
    one = ds.sel(importance="falling")
    cases = [("bias", 0), *(("no bias", k) for k in range(ds.sizes["p"]))]  # with a bias any p is the same
    for j, (bias, k) in enumerate(cases):
        case, colour = one.sel(bias=bias).isel(p=k), f"C{j}"
        label = f"no bias, p = {float(case['p']):g}" if j else "bias, any p"
        ax.plot(case["optimal_share"], color=colour, linewidth=1)
        shares = case["share"].sel(model=model).transpose("feature", "run")
        style: dict[str, Any] = {"color": colour, "markersize": 4, "fillstyle": "none"}
        ax.plot(shares, "s" if j else "o", **style)[0].set(label=label, fillstyle="full")
    ax.plot([], [], color="0.4", linewidth=1, label="weighted PCA")
    kept = "$|W_i|^2$" if model == "tied" else "$(AB)_{ii}$"
    ax.set(xlabel="feature, by importance", ylabel=f"kept: {kept}")
    return finish_axes(ax, title=f"{LABELS[model]} weights")


@plot_function
def plot_gain(ds: xr.Dataset, ax: Axes) -> Axes:
    """Draw losses over that of dedicated features, at falling importance; of `run_representation`."""
    for j, bias in enumerate(BIASES):
        one = ds.sel(importance="falling", bias=bias)
        ax.plot(ds["p"], one["optimum"] / one["dedicated"], f"C{j}-", label=f"weighted PCA, {bias}")
        style: dict[str, Any] = {"markersize": (7, 4)[j], "fillstyle": ("none", "full")[j]}
        for i, model in enumerate(MODELS):
            least = one["loss"].sel(model=model).min("run") / one["dedicated"]
            name = f"PyTorch, {LABELS[model]}, {bias}"
            ax.plot(ds["p"], least, "os"[i], color=f"C{i + 2}", label=name, **style)
    ax.set(xlabel="probability p that a feature is on", ylabel="loss / loss of dedicated features")
    return finish_axes(ax)
