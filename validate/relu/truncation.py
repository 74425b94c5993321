"""Inputs with two or more features on: their share of the loss, and what it costs to ignore them."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import xarray as xr
from matplotlib.axes import Axes

from ...solvers import rug
from ...solvers.relu import class_shares, cost_of_dropping
from ...solvers.relu.dropping import LEAST_P
from ...solvers.results import result
from ...theory import arguments
from ...theory.arguments import FloatArray
from ...theory.features import SparseUniform
from ...theory.relu import worst_dropped_bound
from ..drawing import check_axes
from .polygons import plain_log

__all__ = ["DroppingTable", "dropping_table", "plot_cost", "plot_shares", "run_truncation"]

MODELS = ("antipodal pairs", "Persian rug")


def _map(kind: str, n: int, p: float, ratio: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the matrix and the biases of a model of n features."""
    if kind == "antipodal pairs":
        return np.kron(np.eye(n // 2), [[1.0, -1.0], [-1.0, 1.0]]), np.zeros(n)
    n_hidden = max(1, round(ratio * n))
    best = rug.optimum(p, n_hidden / n)
    matrix = rug.rug_matrix(n, n_hidden, np.random.default_rng([seed, n]))
    bias = best.b - best.a * rug.row_statistics(matrix, p).interference_mean
    return best.a * matrix.todense(), np.broadcast_to(bias, n).copy()


@result
class DroppingTable:
    """When the classes above K may be dropped, over a grid of p; see `dropping_table`. Arrays have its size.

    Attributes
    ----------
    p : ndarray of float64
        Probability that a feature is on.
    probability : ndarray of float64
        P(more than K features on).
    given_on : ndarray of float64
        The same among inputs with a feature on at all.
    share : ndarray of float64
        Share of those inputs in the loss of the best model found.
    left_out : ndarray of float64
        Rigorous bound on the loss that the truncated minimiser leaves out, relative to the best loss found.
    regret : ndarray of float64
        What choosing the model without those inputs costs, relative to the best loss found.
    """

    p: FloatArray
    probability: FloatArray
    given_on: FloatArray
    share: FloatArray
    left_out: FloatArray
    regret: FloatArray


def dropping_table(
    n_features: int,
    n_hidden: int,
    p: npt.ArrayLike,
    up_to: int = 1,
    *,
    starts: int = 8,
    rng: np.random.Generator | int | None = 0,
) -> DroppingTable:
    """Tabulate four measures of what inputs with more than `up_to` features on matter, importances 1.

    Arguments and errors are those of `cost_of_dropping`, but for p.

    Parameters
    ----------
    p : (size,) array_like of float
        Probabilities that a feature is on, in [1e-100, 1).

    Returns
    -------
    DroppingTable

    Notes
    -----
    `regret` answers "may they be dropped?", and is good to about 1e-6. `probability` does not: for n_features
    below 2 n_hidden it may be small where the regret is not.

    Examples
    --------
    >>> table = dropping_table(2, 1, [0.1], starts=2)
    >>> table.probability.round(12), table.share.round(2)
    (array([0.01]), array([1.]))
    """
    grid = arguments.real("p", arguments.vector("p", p), LEAST_P, 1, brackets="[)")
    arguments.fits("p", grid.size, 1e5 * grid.size)
    rng = arguments.generator("rng", rng)
    rows = []
    for q in map(float, grid):
        found = cost_of_dropping(n_features, n_hidden, q, up_to, starts=starts, rng=rng)
        best = found.best
        shares = class_shares(best.W_out @ best.W_in, best.b, q, up_to)
        beyond = shares.probabilities[-1]
        given_on = beyond / SparseUniform(q).tail(n_features, 1)
        rows.append((beyond, given_on, shares.shares[-1], found.left_out / best.loss, found.regret))
    return DroppingTable(grid, *np.array(rows).T)


def run_truncation(
    n_features: Sequence[int] = (16, 64),
    on: Sequence[float] = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0),
    ratio: float = 0.25,
    small: Sequence[Sequence[int]] = ((3, 2), (4, 2), (5, 2)),
    small_p: Sequence[float] = (0.001, 0.01, 0.03, 0.1),
    *,
    starts: int = 4,
    seed: int = 0,
) -> xr.Dataset:
    r"""Measure the part of inputs with two or more features on in exact losses, and what dropping them costs.

    Parameters
    ----------
    n_features : sequence of int
        Sizes D of the large models, powers of two from 4 on.
    on : sequence of float
        Expected numbers of features on, D p, of the large models; each below D.
    ratio : float
        n_hidden/n_features of the Persian rugs, in (0, 1); antipodal pairs have 1/2.
    small : sequence of (int, int)
        n_features and n_hidden of models whose truncated and full losses are both minimised; at most 11
        features.
    small_p : sequence of float
        Their p, in (0, 1).
    starts : int
        Random starts of those minimisations.
    seed : int
        Of the starts, and of the rugs.

    Returns
    -------
    xarray.Dataset
        Of (kind, n_features, on): ``share`` of inputs with two or more features on in the loss and its
        ``share_error``; ``bound`` on it from the weights. Of (n_features, on): their ``probability``;
        ``given_on``, the same among inputs that are not zero, ``worst``, the bound for all encodings of
        length up to 1 without positive biases, over the loss of the zero model. Of (small, small_p):
        ``small_share``, ``small_given_on``, ``small_left_out`` (the bound), and ``regret``: how much worse
        than the best the model is that minimises the loss on inputs with at most one feature on, relative.

    Raises
    ------
    ValueError
        If an argument is out of range.

    Notes
    -----
    Losses are exact; minima of small models are the least of many starts (`solvers.relu.cost_of_dropping`).

    References
    ----------
    Notes (2022), §3.1, which asks how well justified it is to ignore inputs with two or more features on.

    Examples
    --------
    >>> ds = run_truncation([4], [0.1], 0.5, [[2, 1]], [0.1], starts=1)
    >>> ds["share"].sel(kind="antipodal pairs").values.ravel().round(6)    # however rare they are
    array([1.])
    """
    sizes = [arguments.integer("n_features", n, 4) for n in n_features]
    for n in sizes:
        if n & (n - 1):
            raise ValueError(f"`n_features` must be powers of two; got {n}.")
    counts = arguments.real("on", arguments.vector("on", on), 0, min(sizes), brackets="()")
    ratio = arguments.number("ratio", ratio, 0, 1, brackets="()")
    shape = (len(MODELS), len(sizes), counts.size)
    shares, errors, bounds = np.empty(shape), np.empty(shape), np.empty(shape)
    beyond, given, worst = np.empty(shape[1:]), np.empty(shape[1:]), np.empty(shape[1:])
    for j, n in enumerate(sizes):
        for k, p in enumerate(counts / n):
            for i, kind in enumerate(MODELS):
                M, b = _map(kind, n, p, ratio, seed)
                found = class_shares(M, b, p)
                shares[i, j, k], errors[i, j, k] = found.shares[-1], found.error_estimate
                bounds[i, j, k] = found.bound
            data = SparseUniform(p)
            beyond[j, k] = data.tail(n, 2)
            given[j, k] = beyond[j, k] / data.tail(n, 1)
            worst[j, k] = worst_dropped_bound(n, p, 1) / (n * p / 3.0)
    tables = [
        dropping_table(n, m, small_p, starts=starts, rng=np.random.default_rng([seed, n, m]))
        for n, m in small
    ]
    axes, pair, few = ("kind", "n_features", "on"), ("n_features", "on"), ("small", "small_p")
    return xr.Dataset(
        {
            "share": (axes, shares),
            "share_error": (axes, errors),
            "bound": (axes, bounds),
            "probability": (pair, beyond),
            "given_on": (pair, given),
            "worst": (pair, worst),
            "small_share": (few, np.array([table.share for table in tables])),
            "small_given_on": (few, np.array([table.given_on for table in tables])),
            "small_left_out": (few, np.array([table.left_out for table in tables])),
            "regret": (few, np.array([table.regret for table in tables])),
        },
        {
            "kind": list(MODELS),
            "n_features": sizes,
            "on": counts,
            "small": [f"{n} in {m}" for n, m in small],
            "small_p": np.asarray(small_p, dtype=np.float64),
        },
        {"ratio": ratio, "starts": starts, "seed": seed},
    )


def plot_shares(ds: xr.Dataset, ax: Axes) -> Axes:
    """Draw the share of inputs with two or more features on in the loss, beside their probability.

    Parameters
    ----------
    ds : xarray.Dataset
        From `run_truncation`.
    ax : matplotlib.axes.Axes

    Returns
    -------
    matplotlib.axes.Axes
    """
    check_axes(ax)
    ax.plot(ds["on"], ds["given_on"][-1], color="C0", label="share of the inputs that are not 0")
    for i, kind in enumerate(ds["kind"].values):
        for j, n in enumerate(ds["n_features"].values):
            marker = "osD^v"[j % 5]
            label = f"{kind}, D = {n}"
            ax.plot(ds["on"], ds["share"][i, j], marker, color=f"C{i + 1}", markersize=4.5, label=label)
        ax.plot(ds["on"], ds["bound"][i, -1], ":", color=f"C{i + 1}", label=f"bound for {kind}")
    ax.set(
        xscale="log",
        yscale="log",
        xlabel="expected number of features on, D (1 - S)",
        ylabel="share of the loss from two or more on",
    )
    ax.legend(loc="lower right", fontsize=7)
    return ax


def plot_cost(ds: xr.Dataset, ax: Axes) -> Axes:
    """Draw what it costs to choose small models by inputs with at most one feature on.

    Parameters
    ----------
    ds : xarray.Dataset
        From `run_truncation`.
    ax : matplotlib.axes.Axes

    Returns
    -------
    matplotlib.axes.Axes
    """
    check_axes(ax)
    for i, name in enumerate(ds["small"].values):
        shown = np.maximum(ds["regret"][i].values, 1e-9)  # differences below are rounding
        ax.plot(
            ds["small_p"], shown, "osD^v"[i % 5] + "-", color=f"C{i + 1}", markersize=4.5, label=f"{name}"
        )
    ax.set(
        xscale="log",
        yscale="log",
        xlabel="density p = 1 - S",
        ylabel="loss above the best, relative",
        title="models chosen without two or more on",
    )
    plain_log(ax.xaxis)
    ax.legend()
    return ax
