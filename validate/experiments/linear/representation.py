"""How much of each feature trained linear models represent on sparse inputs, by importance."""

import itertools
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from ....theory import validation
from ....theory.annotations import as_annotated
from ....theory.features import SparseUniform
from ....theory.linear import reconstruction_loss, spectrum, weighted_optimum
from ...runner.declarations import Figure, Run, Topic, TopicContent, from_rows, span
from ...runner.findings import Criterion, post_hoc
from ..drawing import finish_axes, plot_function
from .descent import LABELS, MODELS, descend, moment_points

# What counts as represented.
SHARE = Criterion("share of a feature", ">", post_hoc(0.01))
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
        Probabilities that a feature is on, in (0, 1]; models are trained with importance ``decay**i`` of
        feature i, decay in (0, 1), and with importance 1.
    runs, seed, steps : int, optional
        Number of starts and their seed; steps of training.

    Returns
    -------
    xarray.Dataset
        Of (model, bias, importance, p, run): ``loss`` per feature of the trained model and ``share`` (with a
        further dimension feature), the diagonal of the product of decoder and encoder, |W_i|^2 if tied. Of
        (bias, importance, p): ``optimum``, least loss of any linear model; ``dedicated``, the loss if
        n_hidden features are kept and the others dropped; ``optimal_share`` (with feature), the shares of the
        least loss.

    Examples
    --------
    >>> ds = run_representation(3, 1, [0.1], runs=1, steps=300)
    >>> ds.share.sel(model="tied", bias="bias", importance="falling").values.ravel().round(3) + 0
    array([1., 0., 0.])
    """
    n, runs, steps = validation.integers(n_features=(n_features, 2), runs=(runs, 1), steps=(steps, 1))
    d = validation.integer("n_hidden", n_hidden, 1, n - 1)
    chances = validation.real("p", p, 0, 1, brackets="(]")
    decay = validation.number("decay", decay, 0, 1, brackets="()")
    rng = np.random.default_rng([seed, n, d])
    laws, inputs = [SparseUniform(q) for q in chances], []
    for law in laws:  # in units in which one learning rate fits all
        unit = spectrum(law.second_moment_matrix(n)).eigenvalues[0]
        inputs += [moment_points(law.covariance(n) / unit, np.full(n, law.mean / np.sqrt(unit)))] * runs
    start = np.tile(rng.normal(size=(2, runs, n, d)) * 0.1, (1, len(laws), 1, 1))

    rows = []
    weights = (np.ones(n), decay ** np.arange(n))
    for (i, model), bias, importance in itertools.product(enumerate(MODELS), BIASES, weights):
        options: dict[str, Any] = {"importance": importance, "bias": bias == "bias", "momentum": _MOMENTUM}
        trained = descend(start[0], start[i], inputs, _RATE, [steps], model, **options)
        A, C = (weight[-1].reshape(len(laws), runs, n, d) for weight in (trained.A, trained.C))
        for law, decoders, encoders in zip(laws, A, C, strict=True):
            # A bias at its best leaves the covariance of the inputs in the place of their second moments.
            sigma = law.covariance(n) if bias == "bias" else law.second_moment_matrix(n)
            best = weighted_optimum(sigma, importance, d)
            losses = [
                reconstruction_loss(decoder, encoder.T, sigma, importance)
                for decoder, encoder in zip(decoders, encoders, strict=True)
            ]
            row = {
                "loss": ("run", losses),
                "share": (("run", "feature"), np.sum(decoders * encoders, axis=-1)),
                "optimum": best.loss,
                "dedicated": best.dedicated,
                "optimal_share": ("feature", np.diag(best.A @ best.B)),
            }
            rows.append(row)
    ds = from_rows(rows, model=MODELS, bias=BIASES, importance=IMPORTANCES, p=chances)
    ds = ds.assign(ds[["optimum", "dedicated", "optimal_share"]].isel(model=0, drop=True))
    return ds.assign_attrs(n_features=n, n_hidden=d, decay=decay, steps=steps)


@plot_function
def plot_shares(ds: xr.Dataset, ax: Axes, model: str = "tied") -> Axes:
    """Draw the share of each feature that a `model` represents: |W_i|^2 if "tied", (AB)_ii for a "pair".

    `ds` is from `run_representation`; features are in the order of falling importance. Markers are trained
    models, without a bias at each p, and with one at the first p, as with a bias p does not matter. Lines are
    weighted PCA.
    """
    falling = ds.sel(importance="falling")
    without_bias = [falling.sel(bias="no bias").isel(p=k) for k in range(ds.sizes["p"])]
    # With a bias any p is the same.
    for j, at in enumerate([falling.sel(bias="bias").isel(p=0), *without_bias]):
        label = f"no bias, p = {float(at['p']):g}" if j else "bias, any p"
        ax.plot(at["optimal_share"], color=f"C{j}", linewidth=1)
        shares = at["share"].sel(model=model).transpose("feature", "run")
        style: dict[str, Any] = {"color": f"C{j}", "markersize": 4, "fillstyle": "none"}
        ax.plot(shares, "s" if j else "o", **style)[0].set(label=label, fillstyle="full")
    ax.plot([], [], color="0.4", linewidth=1, label="weighted PCA")
    share = "$|W_i|^2$" if model == "tied" else "$(AB)_{ii}$"
    ax.set(xlabel="feature, by importance", ylabel=f"kept: {share}")
    return finish_axes(ax, title=f"{LABELS[model]} weights")


@plot_function
def plot_gain(ds: xr.Dataset, ax: Axes) -> Axes:
    """Draw losses of weighted PCA and trained models, over that of keeping n_hidden features, against p.

    Models are those whose importance falls from feature to feature; `ds` is from `run_representation`.
    """
    for j, bias in enumerate(BIASES):
        at = ds.sel(importance="falling", bias=bias)
        ax.plot(ds["p"], at["optimum"] / at["dedicated"], f"C{j}-", label=f"weighted PCA, {bias}")
        style: dict[str, Any] = {"markersize": (7, 4)[j], "fillstyle": ("none", "full")[j]}
        for i, model in enumerate(MODELS):
            least = at["loss"].sel(model=model).min("run") / at["dedicated"]
            name = f"PyTorch, {LABELS[model]}, {bias}"
            ax.plot(ds["p"], least, "os"[i], color=f"C{i + 2}", label=name, **style)
    ax.set(xlabel="probability p that a feature is on", ylabel="loss / loss of dedicated features")
    return finish_axes(ax)


def _show_representation(ds: xr.Dataset) -> TopicContent:
    """Return text and figure of the report's part "representation", from `ds` of `run_representation`.

    The figure compares trained models with weighted PCA: the share of each feature in tied and separate
    weights, and losses over that of keeping n_hidden features and dropping the others.
    """
    d, total = ds.attrs["n_hidden"], ds["share"].sum("feature")
    represented = SHARE.satisfied(ds["share"].sel(importance="falling")).sum("feature")
    shared = ds["share"].sel(bias="bias", importance="equal")
    gains, excess = 1 - ds["optimum"] / ds["dedicated"], ds["loss"] / ds["optimum"] - 1
    special = (ds["model"] == "tied") & (ds["bias"] == "no bias") & (ds["importance"] == "falling")
    text = (
        f"Shares of the features, |W_i|² or (AB)_ii, add up to at most {float(total.max()):.5f} in all "
        f"{total.size} trained models (d = {d}). With a bias and unequal importance "
        f"{span(represented.sel(bias='bias'), '.0f')} features are represented (share above {SHARE:g}); at "
        f"equal importance single shares are {span(shared, '.2f')}, the features share the dimensions in "
        f"many ways. Weighted PCA gains at most {gains.sel(bias='bias').values.max():.0e} of the loss of the "
        "best dedicated features. Without a bias inputs that are not centred count as correlated: at unequal "
        f"importance {span(represented.sel(bias='no bias'), '.0f')} features are represented, and weighted "
        f"PCA gains {span(gains.sel(bias='no bias'), '.1%')}. Trained models end within "
        f"{float(excess.where(~special).max()):.0e} of weighted PCA's loss, relative, but for tied weights "
        "without bias at unequal importance: the optimal product is not symmetric there, and tied weights "
        f"stay {span(excess.where(special, drop=True), '.2%')} above it."
    )
    caption = (
        f"n = {ds.attrs['n_features']}, d = {d}; importance {ds.attrs['decay']:g}^i. Markers are trained "
        f"models ({ds.sizes['run']} starts), lines weighted PCA. With a bias the inputs count as centred."
    )
    panels = (plot_shares, partial(plot_shares, model="pair"), plot_gain)
    title = "What linear models keep of each feature"
    figure = Figure("representation", title, caption, ds, panels, columns=3)
    return TopicContent(text, [figure])


QUICK = {"steps": 400}
FULL = {"n_features": 12, "n_hidden": 4, "runs": 16, "steps": 4000}
RUNS = {"representation": Run(run_representation, QUICK, FULL, torch=True, seconds=2)}
TOPICS = [Topic("representation", ["representation"], _show_representation, claims=["E1", "E2"])]
