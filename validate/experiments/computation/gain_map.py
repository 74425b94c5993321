"""What the best known networks gain over naive ones, by task, p and features for each neuron."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from ....solvers.computation import best_network
from ....solvers.computation.equal_neurons import disjoint_inputs_loss, shared_inputs_loss
from ....theory import validation
from ....theory.annotations import as_annotated
from ....theory.computation import equal_features_loss, loss_lower_bound, target_moments
from ....theory.features import Features, synchronous
from ....theory.validation import FloatArray
from ...runner.declarations import (
    SUMS,
    Figure,
    ReproductionCheck,
    Run,
    Table,
    Topic,
    TopicContent,
    from_rows,
    span,
)
from ...runner.findings import Criterion, Finding, post_hoc, preregistered, rounding
from ..drawing import finish_axes, plot_function
from .fans import Size, best_fan, losses_over_p

# Losses lie above a lower bound "with their error", so that has a limit of its own.
LOSS_ERROR = Criterion("what a loss is off by, per feature over p", "<=", post_hoc(1e-5))
HAS_LOSS = Criterion("naive loss, per feature over p", ">", rounding(1e-9))
LOWER_BOUND = Criterion("loss of a part less its lower bound, with its error", ">=", rounding(-1e-12))
# The rest was fixed before the map was computed, when six places at p = 0.03 had been looked at (no bias, and
# |x|). Shares are those of the naive loss that the best known networks save.
TIE = Criterion("size of the share saved, ReLU with output bias", "<=", preregistered(1e-6))
MEANS = Criterion("share saved without bias, less 3p/8", "<=", rounding(1e-9))
SHARING = Criterion(
    "share saved without bias / p, two features a neuron, p of 0.01 or less (0.150 is derived)",
    ">=",
    preregistered(0.9 * 0.150),
)
FANS = Criterion("share saved, |x| at a neuron a feature, p = 0.001", ">=", preregistered(0.45))
DENSE = Criterion("share saved, |x| at a neuron a feature, p = 0.3", "<", preregistered(0.1))
MIXED = Criterion("share saved, x + ReLU(x) at two features a neuron", "<", preregistered(0.05))
PAIRS = Criterion(
    "share saved, on in pairs, two features a neuron, p of 0.1 or less", ">=", preregistered(0.01)
)


@dataclass(frozen=True)
class NetworkTask:
    """Targets of networks, ReLU(x) ("relu") or |x| ("abs"), output bias, and law of the features."""

    target: str
    bias: bool = True
    """Whether outputs have biases."""
    mixed: bool = False
    """Whether the features are added to the targets."""
    in_pairs: bool = False
    """Whether features are on in pairs."""

    def law(self, n_features: int, p: float) -> Features:
        """Return the law of `n_features` features, uniform on [-1, 1] when on, with probability p.

        Features are independent or, if the task is `in_pairs`, features 2k and 2k + 1 are on together.
        """
        groups = [synchronous([k, k + 1], p) for k in range(0, n_features, 2)] if self.in_pairs else []
        return Features(n_features, p, "symmetric", groups=groups)

    def mixing(self, n_features: int) -> FloatArray | None:
        """Return the matrix M of the targets f(x) + M x: the identity, or None for targets f(x)."""
        return np.eye(n_features) if self.mixed else None


TASKS = {
    "relu": NetworkTask("relu"),
    "relu without bias": NetworkTask("relu", bias=False),
    "relu, on in pairs": NetworkTask("relu", in_pairs=True),
    "x + relu": NetworkTask("relu", mixed=True),
    "abs": NetworkTask("abs"),
}
_LARGEST_GROUP = 3  # features of a neuron of which its means and those with the targets are exact integrals


def _lower_convex_envelope(neurons: FloatArray, loss: FloatArray, at: FloatArray) -> FloatArray:
    """Return the lower convex envelope, at `at`, of `loss` per feature against `neurons` per feature.

    A network of disjoint parts has the mean of the parts' losses, so any convex combination is attained by
    enough features. Beyond the largest of `neurons` the envelope is constant, as further neurons stay idle.
    """
    envelope, at = np.full(at.shape, -np.inf), np.minimum(at, neurons.max())
    for i, j in itertools.combinations(range(neurons.size), 2):
        if neurons[i] != neurons[j]:
            slope = (loss[j] - loss[i]) / (neurons[j] - neurons[i])
            line = loss[i] - slope * neurons[i]
            if np.all(line + slope * neurons <= loss + 1e-12 * loss.max()):
                envelope = np.maximum(envelope, line + slope * at)
    return envelope


def _part_losses(F: int, n: int, p: float, task: NetworkTask, search: Mapping[str, int]) -> dict[str, float]:
    """Return losses over p of F features on n neurons: "best", its "error", "naive", and "lower_bound".

    Losses are per feature: "best" is the best network that a search found, "naive" has one feature for each
    neuron, "lower_bound" holds for all networks. `task` defines the targets; `search` has the starts, steps
    and seed of the search.
    """
    mixing = task.mixing(F)
    best = best_network(task.law(F, p), n, task.target, mixing=mixing, bias=task.bias, **search)
    return losses_over_p(best, p)


def _unbiased_losses(ratio: FloatArray, n: int, p: float, tries: int) -> tuple[FloatArray, FloatArray]:
    """Return losses over p of (naive, best known) networks for ReLU(x) without output bias, by F/n.

    Losses are per feature, arrays like `ratio`, which has the ratios of F features to n neurons. The naive
    network computes n targets and gives 0 for the others. The best known one is the best closed form, or the
    best of a search with `tries` evaluations of the loss (0: no search).
    """
    n_features = np.rint(ratio * n)
    naive, *losses = (
        [float(equal_features_loss(name, p, F, n)) / p for F in n_features]
        for name in ("unbiased", "readout", "constant")
    )
    if tries:
        losses.append([shared_inputs_loss(int(F), n, p, tries)[0] if n < F else np.inf for F in n_features])
    return np.array(naive), np.min(losses, axis=0)


def _losses_by_ratio(
    task: NetworkTask,
    p: float,
    ratio: FloatArray,
    sizes: Sequence[Size],
    search: Mapping[str, int],
    *,
    n: int,
    tries: int,
    fans: Sequence[Size],
) -> tuple[dict[str, FloatArray], float]:
    r"""Return (losses over p of a task by name, at each `ratio` of features to neurons; the least excess).

    Names are "best", "naive", "lower_bound" and "error", with arrays like `ratio` of losses per feature. Best
    networks are joined from parts in the best proportions. Parts are small networks of `sizes`, (features,
    neurons), found with the settings `search` (starts, steps, seed), and for \|x\| also fans of the sizes
    `fans`, in which each neuron receives all features.

    For targets without output bias there are further candidates: n equal neurons, whose outputs are read
    together and whose weights are searched with `tries` evaluations of the loss. The excess of a part is
    (loss + error - lower bound)/p.
    """
    parts = [_part_losses(F, m, p, task, search) for F, m in sizes]
    pair, mixing = task.law(2, p), task.mixing(2)
    lower_bounds = [loss_lower_bound(pair, m, task.target, mixing=mixing) / p for m in (0, 1, 2)]
    second = target_moments(pair, task.target, mixing=mixing).second[0, 0]
    dropped = lower_bounds[0] if task.bias else second / p
    neurons = [0.0, *(m / F for F, m in sizes)]
    naive = [dropped, *(part["naive"] for part in parts)]
    best = list(zip(neurons, [dropped, *(part["best"] for part in parts)], strict=True))
    if task.target == "abs":
        best += [(m / F, best_fan(F, m, p)[0]) for F, m in fans]
    if not task.bias:
        groups = [g for g in range(2, _LARGEST_GROUP + 1) if g <= ratio.max()]
        best += [(1 / g, disjoint_inputs_loss(g, n, p)) for g in groups]
    places, losses = np.transpose(best)
    row = {"best": _lower_convex_envelope(places, losses, 1 / ratio)}
    if task.bias:
        row["naive"] = _lower_convex_envelope(np.array(neurons), np.array(naive), 1 / ratio)
    else:
        row["naive"], closed = _unbiased_losses(ratio, n, p, tries)
        row["best"] = np.minimum(row["best"], closed)
    row["lower_bound"] = np.interp(1 / ratio, [0.0, 0.5, 1.0], lower_bounds)
    row["error"] = np.full(ratio.shape, max(part["error"] for part in parts))
    return row, min(part["best"] - part["lower_bound"] + part["error"] for part in parts)


@as_annotated
def run_map(
    p: Sequence[float] = (1e-3, 0.01, 0.1, 0.3, 1.0),
    per_neuron: Sequence[float] = (1.0, 4 / 3, 1.5, 2.0, 3.0, 5.0),
    sizes: Sequence[Size] = ((1, 1), (2, 1), (2, 2), (3, 2), (3, 3)),
    *,
    starts: int = 3,
    steps: int = 60,
    n_hidden: int = 60,
    tries: int = 0,
    fans: Sequence[Size] = (),
    tasks: Sequence[str] = tuple(TASKS),
    seed: int = 0,
) -> xr.Dataset:
    r"""Return losses of the best known networks over (p, features for each neuron), by task.

    Small networks of the given `sizes` are searched, and placed side by side as parts of a network of any
    size, in the best proportions; features may also have no neuron. Without output bias there are further
    candidates of `n_hidden` neurons: the closed forms of `equal_features_loss`, and equal neurons, read
    together, that receive a few features each or all of them.

    Parameters
    ----------
    p : sequence of float
        Probabilities that a feature is on, in (0, 1].
    per_neuron : sequence of float
        Features for each neuron, at least 1.
    sizes : sequence of (n_features, n_hidden)
        Sizes of the parts, at most 5; where features are on in pairs, only even numbers of features.
    starts, steps, seed : int
        Of the search for each small network: number of starts, steps of each descent at most, and seed.
    n_hidden : int
        Number of neurons in the closed forms, and of equal neurons.
    tries : int
        Evaluations of the loss, a tenth of a second each, in the search for equal neurons that receive all
        features; 0: no search.
    fans : sequence of (n_features, n_hidden)
        Further parts, for \|x\|: fans (`run_fans`), which are not searched.
    tasks : sequence of str
        Names in `TASKS`, of targets and laws: "relu", "relu without bias" (of the outputs), "relu, on in
        pairs", "x + relu" and "abs".

    Returns
    -------
    xarray.Dataset
        Of (task, p, per_neuron), losses per feature, divided by p: ``best``, its ``error``, ``naive`` and
        ``lower_bound``. The naive network's neurons serve one feature each, at their best readout; without
        output bias its other outputs are 0. ``excess`` (task, p) is the least (loss + error - lower bound)/p
        of the parts.

    Examples
    --------
    >>> ds = run_map([0.1], [2.0], [(1, 1), (2, 1)], tasks=["relu"], starts=1, steps=10)
    >>> bool((ds["best"] <= ds["naive"] * (1 + 1e-9)).all())
    True
    """
    ratio = validation.real("per_neuron", per_neuron, 1.0, 1e6)
    probabilities = validation.probability("p", p)
    n = validation.integer("n_hidden", n_hidden, 1)
    names = validation.choices("tasks", tasks, tuple(TASKS))
    search = {"starts": starts, "steps": steps, "rng": seed}
    rows: list[dict[str, Any]] = []
    for name, q in itertools.product(names, map(float, probabilities)):
        task = TASKS[name]
        parts = [(F, m) for F, m in sizes if not (task.in_pairs and F % 2)]
        row, excess = _losses_by_ratio(task, q, ratio, parts, search, n=n, tries=tries, fans=fans)
        rows.append({**{key: ("per_neuron", values) for key, values in row.items()}, "excess": excess})
    ds = from_rows(rows, task=list(names), p=list(p))
    largest = max(F for F, _ in [*sizes, *fans])
    ds = ds.assign_coords(per_neuron=list(per_neuron))
    return ds.assign_attrs(starts=starts, n_hidden=n, largest=largest)


@plot_function
def plot_map(ds: xr.Dataset, ax: Axes) -> Axes:
    """Draw shares of the naive loss against p, by task: saved by the best networks, and allowed by the bound.

    `ds` is from `run_map`; shares are at two features for each neuron.
    """
    at = ds.sel(per_neuron=2.0, method="nearest")
    for k, task in enumerate(ds["task"].values):
        losses = at.sel(task=task)
        for name, style in (("best", "o-"), ("lower_bound", ":")):
            saved = 1 - losses[name] / losses["naive"]
            label = str(task) if name == "best" else None
            ax.plot(ds["p"], saved.where(saved > 1e-7), style, color=f"C{k}", markersize=4, label=label)
    ax.set(xscale="log", yscale="log", ylim=(1e-5, 1))
    return finish_axes(ax, xlabel="p", ylabel="share of the naive loss saved")


def saved_shares(ds: xr.Dataset) -> tuple[xr.DataArray, xr.DataArray]:
    """Return (1 - best / naive, 1 - lower_bound / naive): shares of the naive network's loss that are saved.

    The first is for the best known networks, the second an upper bound for all networks. Losses are the
    variables (task, p, per_neuron) of `ds`, from `run_map`. Entries where the naive loss is 0 are nan.
    """
    naive = ds["naive"].where(HAS_LOSS.satisfied(ds["naive"]))
    return 1 - ds["best"] / naive, 1 - ds["lower_bound"] / naive


def judge_map(ds: xr.Dataset) -> list[Finding]:
    """Return findings on the map's criteria, at those of their grid points that `ds`, from `run_map`, has.

    For each task: errors of losses are small; no part's loss is below its lower bound; and the best known
    networks save a share of the naive loss that is none for ReLU with output bias, at most 3p/8 without, and
    within stated limits for the others.
    """
    saved, _ = saved_shares(ds)
    p = ds["p"]
    at_two, at_one = (saved.sel(per_neuron=ratio, method="nearest") for ratio in (2.0, 1.0))
    unbiased = saved.sel(task="relu without bias")
    values = {
        LOSS_ERROR: ds["error"],
        LOWER_BOUND: ds["excess"],
        TIE: abs(saved.sel(task="relu")),
        MEANS: unbiased - 3 * p / 8,
        SHARING: (at_two.sel(task="relu without bias") / p)[p.values <= 0.01],
        FANS: at_one.sel(task="abs")[p.values <= 1e-3],
        DENSE: at_one.sel(task="abs")[np.isclose(p, 0.3)],
        MIXED: at_two.sel(task="x + relu"),
        PAIRS: at_two.sel(task="relu, on in pairs")[p.values <= 0.1],
    }
    return [
        criterion.finding(array.values[~np.isnan(array.values)], kind="numeric")
        for criterion, array in values.items()
    ]


def _per_cent(share: float) -> str:
    """Return a share in per cent as text, such as "12.3"."""
    return f"{round(100 * share, 9) + 0.0:.3g}"


def _show_map(ds: xr.Dataset) -> TopicContent:
    """Return text, figure and table of the report's part "map": what networks save of the naive loss.

    The figure has the share that the best known networks save against p, by task, beside the share that the
    lower bound allows; the table has both by task, p and features for each neuron. `ds` is from `run_map`.
    """
    saved, allowed = saved_shares(ds)
    rows = []
    for task, ratio in itertools.product(ds["task"].values, ds["per_neuron"].values):
        shares = (array.sel(task=task, per_neuron=ratio).values for array in (saved, allowed))
        cells = [
            "-" if np.isnan(share) else f"{_per_cent(share)} ({_per_cent(limit)})"
            for share, limit in zip(*shares, strict=True)
        ]
        rows.append([str(task), f"{float(ratio):.3g}", *cells])
    error = float((ds["error"] / ds["naive"].where(saved.notnull())).max())
    columns = ("task", "features a neuron", *(f"p = {p:g}" for p in ds["p"].values))
    table = Table(
        "Share of the naive loss saved by the best known networks, in per cent, and allowed by the lower "
        "bound",
        columns,
        rows,
        "In brackets: what the lower bound allows; a dash where the naive network loses nothing. A network "
        "is of disjoint parts, each the best that was found for a few features. Errors of the losses: at "
        f"most {error:.0e} of the naive one. What is found is an upper bound on the least loss; nothing is "
        "said of networks between it and the lower bound.",
    )
    at_two = saved.sel(per_neuron=2.0, method="nearest")
    ranges = [f"{task}: {span(100 * at_two.sel(task=task), '.2g')} %" for task in ds["task"].values]
    text = (
        "With a linear readout, an output bias and targets that are independent and alike nothing is below "
        "the naive network in squared error (theorem on the page `computation`): the first rows are 0, and "
        "so is what the lower bound allows. Something is gained where one of these is left out: without "
        "output bias, for features that are on together, and for targets that one neuron cannot compute. "
        f"Shares of the naive loss saved at two features a neuron, over p: {'; '.join(ranges)}. Features on "
        "in pairs have the same p, and values that are independent. The naive network's neurons serve one "
        "feature each, at their best readout; without output bias it answers 0 where it computes nothing, as "
        "in public code. "
        f"The grid has parts of {ds.attrs['largest']} features at most, and for |x| fans of more features "
        "save more."
    )
    caption = "Two features a neuron. Solid: the best network known; dotted: what the lower bound allows."
    figure = Figure("map", "Where a hidden layer can beat naive", caption, ds, plot_map)
    return TopicContent(text, [figure], [table])


_SETTINGS = {
    "p": [1e-3, 0.01, 0.03, 0.1, 0.3, 1.0],
    "sizes": [[1, 1], [2, 1], [2, 2], [3, 1], [3, 2], [3, 3], [4, 2]],
    "fans": [[4, 4], [5, 5]],
    "starts": 4,
    "steps": 100,
}
COMPARED = ("best", "naive", "lower_bound", "excess")
RUNS = {
    "map": Run.shipped(
        "computation_map",
        "what the best known networks gain",
        run_map,
        _SETTINGS,
        seconds=1500.0,
        split_by="p",
        concat_dim="p",
        # Without the stated errors of 1e-11, differences in which rounding shows: they were left out when a
        # kernel rounded otherwise and they alone had moved, by 3e-6 of the largest.
        check=ReproductionCheck({"p": [0.1], "tasks": ["relu without bias"]}, COMPARED, 1e-6, SUMS),
    )
}
TOPICS = [Topic("map", ["map"], _show_map, judge=judge_map)]
