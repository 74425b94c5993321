"""What trained linear models represent on sparse inputs: how much of each feature, at which importance."""

from collections.abc import Sequence

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from ...theory import arguments
from ...theory.features import SparseUniform
from ...theory.linear import reconstruction_loss, spectrum, weighted_optimum
from .descent import LABELS, MODELS, descend, moment_points

__all__ = ["plot_gain", "plot_shares", "run_representation"]

BIASES = ("bias", "no bias")
IMPORTANCES = ("equal", "falling")


def run_representation(
    n_features: int = 6,
    n_hidden: int = 3,
    p: Sequence[float] = (0.02, 0.1, 0.3, 0.6),
    decay: float = 0.8,
    runs: int = 4,
    seed: int = 0,
    *,
    steps: int = 700,
    step: float = 0.1,
    momentum: float = 0.9,
) -> xr.Dataset:
    """Train linear models on the expected loss of sparse inputs and compare them with weighted PCA.

    Parameters
    ----------
    n_features : int, optional
        At least 2.
    n_hidden : int, optional
        From 1 to n_features - 1.
    p : sequence of float, optional
        Probabilities that a feature is on, in (0, 1].
    decay : float, optional
        Importance of feature i is ``decay**i``, and 1 for all beside it; in (0, 1).
    runs : int, optional
        Starts.
    seed : int, optional
    steps : int, optional
    step : float, optional
        Learning rate times the largest eigenvalue of the inputs' second moments.
    momentum : float, optional
        In [0, 1).

    Returns
    -------
    xarray.Dataset
        Of (model, bias, importance, p, run): ``loss`` per feature of the trained model and ``share`` (also of
        feature), the diagonal of the product of decoder and encoder, |W_i|^2 if tied. Of (bias, importance,
        p): ``optimum``, least loss of any linear model; ``dedicated``, with all but n_hidden features given
        up; ``optimal_share`` (also of feature). ``weight`` (importance, feature).

    Raises
    ------
    ValueError
        If an argument is out of range.
    ImportError
        If PyTorch is not installed.

    References
    ----------
    Elhage et al. (2022), linear model.

    Examples
    --------
    >>> ds = run_representation(3, 1, [0.1], runs=1)
    >>> ds.share.sel(model="tied", bias="bias", importance="falling").values.ravel().round(3) + 0
    array([1., 0., 0.])
    """
    n = arguments.integer("n_features", n_features, 2)
    d = arguments.integer("n_hidden", n_hidden, 1, n - 1)
    chances = arguments.real("p", arguments.vector("p", p), 0, 1, brackets="(]")
    decay = arguments.number("decay", decay, 0, 1, brackets="()")
    runs = arguments.integer("runs", runs, 1)
    steps = arguments.integer("steps", steps, 1)
    rate = arguments.number("step", step, 0, 0.2, brackets="(]")
    rng = np.random.default_rng([arguments.integer("seed", seed, 0), n, d])
    weights = np.stack((np.ones(n), decay ** np.arange(n)))
    start = rng.normal(size=(2, runs, n, d)) * 0.1

    cases = [(k, float(q)) for k in range(len(IMPORTANCES)) for q in chances]
    shape = (len(MODELS), len(BIASES), len(cases), runs)
    loss, share = np.empty(shape), np.empty((*shape, n))
    bound = np.empty((2, len(BIASES), len(cases)))
    best_share = np.empty((len(BIASES), len(cases), n))
    points, sigmas = [], {}
    for place, (k, q) in enumerate(cases):
        x = SparseUniform(q)
        # in units in which one learning rate fits all
        unit = spectrum(x.second_moment_matrix(n)).eigenvalues[0]
        points.append(moment_points(x.covariance(n) / unit, np.full(n, x.mean / np.sqrt(unit))))
        for j, sigma in enumerate((x.covariance(n), x.second_moment_matrix(n))):
            sigmas[j, place] = sigma
            best = weighted_optimum(sigma, weights[k], d)
            bound[:, j, place] = best.loss, best.dedicated
            best_share[j, place] = np.diag(best.A @ best.B)
    for i, model in enumerate(MODELS):
        first = np.tile(start, (1, len(cases), 1, 1))
        for j, bias in enumerate(BIASES):
            found = descend(
                first[0],
                first[0 if model == "tied" else 1],
                np.repeat(points, runs, axis=0),
                rate,
                [steps],
                model,
                importance=np.repeat([weights[k] for k, _ in cases], runs, axis=0),
                bias=bias == "bias",
                momentum=momentum,
            )
            # A bias at its best leaves the covariance of the inputs in the place of their second moments.
            for place, r in np.ndindex(len(cases), runs):
                A, C = (part[-1, place * runs + r] for part in (found.A, found.C))
                loss[i, j, place, r] = reconstruction_loss(A, C.T, sigmas[j, place], weights[cases[place][0]])
                share[i, j, place, r] = np.sum(A * C, axis=1)
    grid = (len(IMPORTANCES), chances.size)
    where = ("bias", "importance", "p")
    return xr.Dataset(
        {
            "loss": (("model", *where, "run"), loss.reshape(*shape[:2], *grid, runs)),
            "share": (("model", *where, "run", "feature"), share.reshape(*shape[:2], *grid, runs, n)),
            "optimum": (where, bound[0].reshape(-1, *grid)),
            "dedicated": (where, bound[1].reshape(-1, *grid)),
            "optimal_share": ((*where, "feature"), best_share.reshape(-1, *grid, n)),
            "weight": (("importance", "feature"), weights),
        },
        {
            "model": list(MODELS),
            "bias": list(BIASES),
            "importance": list(IMPORTANCES),
            "p": chances,
            "feature": np.arange(n),
        },
        {"n_features": n, "n_hidden": d, "decay": decay, "steps": steps, "momentum": momentum},
    )


def plot_shares(ds: xr.Dataset, ax: Axes, model: str = "tied") -> Axes:
    """Draw how much of each feature trained models keep, at falling importance; of `run_representation`.

    Parameters
    ----------
    ds : xarray.Dataset
    ax : Axes
    model : {"tied", "pair"}, optional
    """
    one = ds.sel(importance="falling")
    for j, bias in enumerate(ds["bias"].values):
        for k, p in enumerate(ds["p"].values):
            if bias == "bias" and k:
                continue  # the same for all p
            case = one.sel(bias=bias, p=p)
            colour = f"C{k + j}"
            label = f"no bias, p = {p:g}" if j else "bias, any p"
            ax.plot(ds["feature"], case["optimal_share"], color=colour, linewidth=1)
            for r in range(ds.sizes["run"]):
                ax.plot(
                    ds["feature"],
                    case["share"].sel(model=model).isel(run=r),
                    "os"[j],
                    color=colour,
                    markersize=4,
                    fillstyle="none" if r else "full",
                    label=None if r else label,
                )
    ax.plot([], [], color="0.4", linewidth=1, label="weighted PCA")
    ax.set(
        xlabel="feature, by importance",
        ylabel="kept: $|W_i|^2$" if model == "tied" else "kept: $(AB)_{ii}$",
        title=f"{LABELS[model]} weights",
    )
    ax.legend()
    return ax


def plot_gain(ds: xr.Dataset, ax: Axes) -> Axes:
    """Draw losses over that of dedicated features, at falling importance; of `run_representation`."""
    for j, bias in enumerate(ds["bias"].values):
        one = ds.sel(importance="falling", bias=bias)
        ax.plot(
            ds["p"],
            one["optimum"] / one["dedicated"],
            color=f"C{j}",
            linestyle="-",
            label=f"weighted PCA, {bias}",
        )
        for i, model in enumerate(ds["model"].values):
            least = one["loss"].sel(model=model).min("run") / one["dedicated"]
            name = LABELS[str(model)]
            ax.plot(
                ds["p"],
                least,
                "os"[i],
                color=f"C{i + 2}",
                markersize=(7, 4)[j],
                fillstyle=("none", "full")[j],
                label=f"PyTorch, {name}, {bias}",
            )
    ax.set(
        xlabel="probability p that a feature is on",
        ylabel="loss / loss of dedicated features",
    )
    ax.legend()
    return ax
