"""Inputs with two or more features on: their share of the loss, and the cost of ignoring them."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import xarray as xr
from matplotlib.axes import Axes

from ....solvers.relu.dropping import LEAST_P, class_shares, cost_of_dropping
from ....solvers.rug.rows import drawn_rug
from ....theory import validation
from ....theory.annotations import as_annotated
from ....theory.features import SparseUniform
from ....theory.relu import worst_dropped_bound
from ....theory.validation import FloatArray
from ...runner.declarations import Figure, Run, Table, Topic, TopicContent, entry_of, from_rows, span
from ..drawing import plot_function
from .labels import DENSITY, draw_curve, finish_log_axes

KINDS = ("antipodal pairs", "Persian rug")


def make_model(kind: str, n: int, p: float, ratio: float, seed: int) -> tuple[FloatArray, FloatArray]:
    """Return M (n, n) and b (n,) of a model ReLU(M x + b) of n features: antipodal pairs or a Persian rug.

    If `kind` is not "antipodal pairs", the model is a Persian rug, the random code of Cowsik et al. (2024),
    on `ratio` times n neurons, drawn from `seed`, with the best scale and bias at p.
    """
    if kind == "antipodal pairs":
        return np.asarray(np.kron(np.eye(n // 2), [[1.0, -1.0], [-1.0, 1.0]]), np.float64), np.zeros(n)
    best, matrix, bias = drawn_rug(p, n, max(1, round(ratio * n)), np.random.default_rng([seed, n]))
    return best.a * matrix.todense(), np.broadcast_to(bias, n).copy()


@as_annotated
def dropping_table(
    n_features: int,
    n_hidden: int,
    p: npt.ArrayLike,
    *,
    starts: int = 8,
    rng: np.random.Generator | int | None = 0,
) -> xr.Dataset:
    """Tabulate four measures of the weight of inputs with two or more features on, at importances 1.

    Losses are of models ReLU(W_out W_in x + b). Arguments that are out of range raise a ValueError, as in
    `cost_of_dropping`.

    Parameters
    ----------
    n_features, n_hidden : int
        From 2 to 64; from 1 to n_features - 1.
    p : (size,) array_like of float
        Probabilities that a feature is on, in [1e-100, 1).
    starts, rng : int, Generator or int, optional
        Number of starts of each minimisation, and their random generator or seed.

    Returns
    -------
    xarray.Dataset
        Of (p). Of inputs with two or more features on: their ``probability``; their share ``given_on`` of the
        inputs with a feature on; their ``share`` of the loss of the best model found. Of the model that
        minimises the loss without such inputs, relative to the loss of the best one: ``left_out``, a bound on
        what such inputs contribute to its loss, and ``regret``, by how much its loss exceeds the best.
        `regret`, accurate to about 1e-6, tells whether such inputs may be dropped. `probability` does not:
        for n_features below 2 n_hidden it may be small where the regret is large.

    Examples
    --------
    >>> table = dropping_table(2, 1, [0.1], starts=2)
    >>> table["probability"].values.round(12), table["share"].values.round(2)
    (array([0.01]), array([1.]))
    """
    n_features = validation.integer("n_features", n_features, 2)
    # With as many neurons as features the least loss is 0, and nothing is relative to it.
    n_hidden = validation.integer("n_hidden", n_hidden, 1, n_features - 1)
    grid = validation.real("p", validation.vector("p", p), LEAST_P, 1, brackets="[)")
    validation.check_fits("p", grid.size, 1e5 * grid.size)
    rng = validation.generator("rng", rng)
    rows = []
    for q in map(float, grid):
        cost = cost_of_dropping(n_features, n_hidden, q, starts=starts, rng=rng)
        best = cost.best
        shares = class_shares(best.W_out @ best.W_in, best.b, q)
        beyond = shares.probabilities[-1]
        row = {"probability": beyond, "given_on": beyond / SparseUniform(q).tail(n_features, 1)}
        row |= {"share": shares.shares[-1], "left_out": cost.left_out / best.loss, "regret": cost.regret}
        rows.append(row)
    return from_rows(rows, p=grid)


def _large_model_shares(n: int, on: float, ratio: float, seed: int) -> xr.Dataset:
    """Return how often two or more features are on, and the share of such inputs in the loss of two models.

    The models have n features, of which `on` are on in the mean. Their ``kind`` is antipodal pairs, or a
    random code (Persian rug) on `ratio` times n neurons, drawn from `seed`. Of (kind): ``share`` of the loss,
    and an upper ``bound`` on it. Numbers: ``probability`` of such inputs; ``given_on``, their probability if
    a feature is on; ``worst``, a bound on their loss for all encodings of length up to 1, over the zero
    model's loss.
    """
    p, law = on / n, SparseUniform(on / n)
    shares = [class_shares(*make_model(kind, n, p, ratio, seed), p) for kind in KINDS]
    return xr.Dataset(
        {
            "share": ("kind", [of_kind.shares[-1] for of_kind in shares]),
            "bound": ("kind", [of_kind.upper_bound for of_kind in shares]),
            "probability": law.tail(n, 2),
            "given_on": law.tail(n, 2) / law.tail(n, 1),
            "worst": worst_dropped_bound(n, p, 1) / (on / 3.0),
        },
        {"kind": list(KINDS), "n_features": n, "on": on},
    )


@as_annotated
def run_truncation(
    n_features: Sequence[int] = (16, 64),
    on: Sequence[float] = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0),
    ratio: float = 0.25,
    small: Sequence[tuple[int, int]] = ((3, 2), (4, 2), (5, 2)),
    small_p: Sequence[float] = (0.001, 0.01, 0.03, 0.1),
    *,
    starts: int = 4,
    seed: int = 0,
) -> xr.Dataset:
    r"""Measure the part of inputs with two or more features on in exact losses, and what dropping them costs.

    Notes (2022), §3.1, asks how well justified it is to ignore them.

    Parameters
    ----------
    n_features : sequence of int
        Sizes D of the large models, powers of two from 4 on.
    on : sequence of float
        Expected numbers of features on, D p, below D.
    ratio : float
        n_hidden/n_features of the Persian rugs, in (0, 1); antipodal pairs have 1/2.
    small : sequence of (int, int)
        (n_features, n_hidden) of models, with at most 64 features. Their loss on all inputs and on inputs
        with at most one feature on are minimised.
    small_p : sequence of float
        Probabilities p of the small models, in (0, 1).
    starts, seed : int
        Random starts of those minimisations; seed of the starts and of the rugs.

    Returns
    -------
    xarray.Dataset
        All are of inputs with two or more features on. Of (kind, n_features, on), kind "antipodal pairs" or
        "Persian rug": their ``share`` of the loss, and an upper ``bound`` on it from the weights. Of
        (n_features, on): their ``probability``; ``given_on``, the same among inputs that are not zero;
        ``worst``, a bound on their loss for all encodings of length up to 1 without positive biases, over the
        loss of the zero model. Of (small, small_p): ``small_share`` of the best model's loss;
        ``small_given_on``, as above; and for the model that minimises the loss without such inputs, both over
        the least loss: ``small_left_out``, a bound on their part of its full loss, and ``regret``, by how
        much its full loss exceeds the least. Losses are exact; minima of small models are the least of many
        starts (`cost_of_dropping`).

    Examples
    --------
    >>> ds = run_truncation([4], [0.1], 0.5, [[2, 1]], [0.1], starts=1)
    >>> ds["share"].sel(kind="antipodal pairs").values.ravel().round(6)    # however rare they are
    array([1.])
    """
    sizes = [
        validation.integer("n_features", validation.power_of_two("n_features", n), 4) for n in n_features
    ]
    counts = validation.real("on", validation.vector("on", on), 0, min(sizes), brackets="()")
    ratio = validation.number("ratio", ratio, 0, 1, brackets="()")
    rows = [xr.concat([_large_model_shares(n, on, ratio, seed) for on in counts], "on") for n in sizes]
    large = xr.concat(rows, "n_features").transpose("kind", "n_features", "on")
    with entry_of("small_p"):
        validation.probability("p", small_p)
    tables = [
        dropping_table(n, m, small_p, starts=starts, rng=np.random.default_rng([seed, n, m]))
        for n, m in small
    ]
    new_names = {name: f"small_{name}" for name in ("p", "share", "given_on", "left_out")}
    small_ds = xr.concat(tables, "small").drop_vars("probability").rename(new_names)
    small_ds = small_ds.assign_coords(
        small=[f"{n} in {m}" for n, m in small],
        small_features=("small", [n for n, _ in small]),
        small_hidden=("small", [m for _, m in small]),
    )
    return large.merge(small_ds).assign_attrs(ratio=ratio, starts=starts, seed=seed)


@plot_function
def plot_shares(ds: xr.Dataset, ax: Axes) -> Axes:
    """Draw the share in loss and the probability of inputs with two or more features on, against D p.

    `ds` is from `run_truncation`; D p is the expected number of features on.
    """
    ax.plot(ds["on"], ds["given_on"][-1], color="C0", label="share of the inputs that are not 0")
    for i, kind in enumerate(ds["kind"].values):
        for j, n in enumerate(ds["n_features"].values):
            draw_curve(ax, ds["on"], ds["share"][i, j], j, "", color=f"C{i + 1}", label=f"{kind}, D = {n}")
        ax.plot(ds["on"], ds["bound"][i, -1], ":", color=f"C{i + 1}", label=f"bound for {kind}")
    ax.set(xlabel="expected number of features on, D (1 - S)", ylabel="share of two or more on")
    return finish_log_axes(ax, {"loc": "lower right", "fontsize": 7}, xscale="log", yscale="log")


@plot_function
def plot_cost(ds: xr.Dataset, ax: Axes) -> Axes:
    """Draw the excess loss of models chosen without inputs of two or more features on.

    `ds` is from `run_truncation`; each small model has a colour.
    """
    for i, name in enumerate(ds["small"].values):
        # Differences below 1e-9 are rounding.
        draw_curve(ax, ds["small_p"], np.maximum(ds["regret"][i], 1e-9), i, label=str(name))
    ax.set(title="models chosen without two or more on", ylabel="loss above the best, relative")
    return finish_log_axes(ax, xscale="log", yscale="log", xlabel=DENSITY)


def _show_classes(ds: xr.Dataset) -> TopicContent:
    """Return text, figure and table of the report's part "classes": inputs with two or more features on.

    The figure has their share in loss and in number, and the cost of choosing small models without them. The
    table has the shares for large models. `ds` is from `run_truncation`.
    """
    rug = ds.sel(kind="Persian rug").transpose("on", ...)
    pairs = span(ds["share"].sel(kind="antipodal pairs"), ".6f")
    factors = [f"{span(at['share'] / at['given_on'])} at {on:g}" for on, at in rug.groupby("on")]
    costs = zip(ds["small"].values, ds["regret"].values, strict=True)
    regrets = [f"{span(cost, '.1e')} ({name})" for name, cost in costs]
    text = (
        "May inputs with two or more features on be ignored? That they are rare is not enough. Below twice "
        "as many features as dimensions there are many models without any loss on the other inputs, and then "
        "the rare ones decide; beyond, the loss on the others is positive.\n\nIn antipodal pairs their share "
        f"of the loss is {pairs}. In Persian rugs it is this multiple of their share of the inputs that are "
        f"not zero, by D (1 - S): {'; '.join(factors)}. A small model chosen by its loss without them (the "
        "worst of the minimisers found) is worse than the best, relative to its loss, by "
        f"{'; '.join(regrets)}, for p from {span(ds['small_p'])}."
    )
    rarest = rug.isel(on=0)
    headline = (
        "Rare inputs may still decide: those with two or more features on make all of an antipodal pair's "
        f"loss (share {pairs}), and in a Persian rug {span(rarest['share'] / rarest['given_on'])} times "
        f"their share of the inputs, where {float(rarest['on']):g} features are on."
    )
    caption = (
        "Left: their share of the exact loss. Right: what it costs to choose a model without them: the loss "
        f"of the worst minimiser of the truncated loss from {ds.attrs['starts']} starts above the least one."
    )
    panels = (plot_shares, plot_cost)
    figure = Figure("truncation", "Ignoring inputs with two or more features on", caption, ds, panels)
    return TopicContent(text, [figure], [_share_table(ds)], headline)


def _share_table(ds: xr.Dataset) -> Table:
    """Return the table of shares of inputs with two or more features on; `ds` is from `run_truncation`.

    Columns, by number D of features and D p: the probability of such inputs, their probability if a feature
    is on, their share of the loss of a random code ("rug") with its bound, of antipodal pairs, and a bound
    for all models.
    """
    rug, pairs = (ds.sel(kind=kind, drop=True) for kind in ("Persian rug", "antipodal pairs"))
    table = ds[["probability", "given_on", "worst"]].transpose("n_features", "on")
    table = table.assign(rug=rug["share"], rug_bound=rug["bound"], pairs=pairs["share"])
    columns = {
        "D": "{n_features}",
        "S": "{off:.6g}",
        "D (1 - S)": "{on:g}",
        "probability": "{probability:.3g}",
        "given that one is on": "{given_on:.3g}",
        "rug: share of the loss": "{rug:.3g}",
        "rug: bound": "{rug_bound:.3g}",
        "pairs: share": "{pairs:.3g}",
        "bound for all models": "{worst:.3g}",
    }
    return Table.formatted(
        "Inputs with two or more features on, against D and S",
        table.assign(off=1 - ds["on"] / ds["n_features"]),
        columns,
        f"Rugs with n_hidden/n_features = {ds.attrs['ratio']:g} and the best scale and bias. Bounds are "
        "those of `relu.dropped_bound`, from the weights; and, over the loss of the zero model, for any "
        "encodings of length up to 1 without positive biases.",
    )


QUICK = {"small": ((3, 1), (3, 2), (5, 2)), "small_p": (0.003, 0.01, 0.1), "starts": 4}
FULL = {
    "n_features": (16, 64, 256),
    "small": ((3, 1), (3, 2), (4, 2), (5, 2), (6, 2), (6, 3), (7, 3)),
    "small_p": (0.003, 0.01, 0.03, 0.1),
    "starts": 24,
}
RUNS = {"truncation": Run(run_truncation, QUICK, FULL, seconds=6)}
CLAIMS = ["B7", "B14", "E3", "E4", "E5", "E6"]
TOPICS = [Topic("classes of inputs", ["truncation"], _show_classes, claims=CLAIMS)]
