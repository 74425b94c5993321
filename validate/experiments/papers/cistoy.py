"""Compressed computation as in FranciscoHS/cis-toy-models: networks for mixed targets, and without biases."""

import itertools
from collections.abc import Mapping, Sequence

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from ....solvers.computation import best_mixed_network
from ....solvers.computation.equal_neurons import shared_inputs_loss
from ....theory import validation
from ....theory.annotations import as_annotated
from ....theory.computation import equal_features_loss, loss_lower_bound, target_moments
from ....theory.features import Features
from ....theory.validation import FloatArray
from ...runner.declarations import Figure, Run, Table, Topic, TopicContent, from_rows, span
from ...runner.findings import Criterion, Finding, preregistered, rounding
from ..drawing import draw_means, finish_axes, plot_function

PHENOMENON = "computation"

MATRICES = ("independent", "symmetric")  # what the entries of M are


def random_mixing(n: int, symmetric: bool, rng: np.random.Generator) -> FloatArray:
    """Return an (n, n) matrix of standard normal entries and zero diagonal, symmetric if `symmetric`."""
    M = rng.normal(size=(n, n))
    np.fill_diagonal(M, 0.0)
    return np.triu(M) + np.triu(M).T if symmetric else M


@as_annotated
def run_mixing(
    sigma: Sequence[float] = (0.0, 0.01, 0.02, 0.03, 0.04, 0.06, 0.08),
    *,
    p: float = 0.01,
    n_features: int = 100,
    n_hidden: int = 50,
    seeds: Sequence[int] = range(5),
) -> xr.Dataset:
    """Return the lower bound for targets ReLU(x) + M x with random M, and the naive network's loss on them.

    Parameters
    ----------
    sigma : sequence of float
        Standard deviation of the entries of M off its diagonal.
    p : float
        Probability that a feature is on.
    n_features, n_hidden : int
    seeds : sequence of int
        Seeds of the matrices M.

    Returns
    -------
    xarray.Dataset
        Of (symmetric, sigma, seed), losses per feature, divided by p: ``lower_bound`` and ``naive``. The
        naive network has n_hidden neurons ReLU(x_i), and the best readout with bias for these targets.

    Examples
    --------
    >>> ds = run_mixing([0.0, 0.02], n_features=20, n_hidden=10, seeds=[0])
    >>> (ds["lower_bound"] < ds["naive"]).values[:, :, 0].tolist()
    [[False, True], [False, True]]
    """
    n = validation.integer("n_hidden", n_hidden, 1)
    F = validation.integer("n_features", n_features, n)
    law, computed = Features(F, p, "symmetric"), np.arange(n)
    variance = target_moments(law).covariance[0, 0]
    rows = []
    for symmetric, size, seed in itertools.product((False, True), sigma, seeds):
        rng = np.random.default_rng([seed, F])
        M = validation.number("sigma", size, 0.0) * random_mixing(F, symmetric, rng)
        lower_bound = loss_lower_bound(law, n, mixing=M)
        covariance = M[:, computed] * (p / 6)  # Cov(ReLU(x_i), M_ki x_i)
        covariance[computed, computed] += variance
        residual = target_moments(law, mixing=M).covariance.diagonal()
        residual = residual - (covariance**2).sum(axis=1) / variance
        # The same number twice where nothing is mixed.
        naive = max(float(residual.mean()), lower_bound) if size else lower_bound
        rows.append({"lower_bound": lower_bound / p, "naive": naive / p})
    ds = from_rows(rows, symmetric=[0, 1], sigma=list(sigma), seed=list(seeds))
    return ds.assign_attrs(p=p, n_features=F, n_hidden=n)


# What FranciscoHS/cis-toy-models trained: 100 features on 50 neurons, one feature on at a time, loss over
# p = 0.01; from data/exp3_loss_vs_sigma.npz at commit aaf2246, single runs, each evaluated on 1e5 samples.
PRINTED = {
    "sigma": (0.0, 0.005, 0.01, 0.015, 0.02, 0.025, 0.03, 0.04, 0.05, 0.06, 0.08),
    "independent": (
        0.08355, 0.07857, 0.07532, 0.07292, 0.07116, 0.07002, 0.06959, 0.06933, 0.07469, 0.07974, 0.09276,
    ),
    "symmetric": (
        0.08364, 0.07724, 0.07121, 0.06657, 0.06178, 0.05963, 0.05864, 0.05861, 0.06066, 0.06548, 0.08233,
    ),
}  # fmt: skip
# Fixed before any network was searched at a size of M above 0.
ABOVE = Criterion("loss found less the lower bound", ">=", rounding(-1e-12))
MIXING_GAINS = Criterion("loss found / naive at its best readout, sizes of M above 0", "<", preregistered(1))
NEAR_PRINTED = Criterion(
    "mean loss found / what was trained and printed, at each size", "<=", preregistered(1.03)
)


@as_annotated
def run_mixed(
    sigma: Sequence[float] = PRINTED["sigma"],
    *,
    n_features: int = 100,
    n_hidden: int = 50,
    seeds: Sequence[int] = range(3),
    starts: int = 3,
    steps: int = 500,
) -> xr.Dataset:
    """Return losses of the best networks for ReLU(x) + M x with random M, one feature on at a time.

    Matrices M are drawn as in FranciscoHS/cis-toy-models, with a diagonal: A of independent normal entries,
    or (A + A')/sqrt(2).

    Parameters
    ----------
    sigma : sequence of float
        Standard deviation of the entries off the diagonal.
    n_features, n_hidden : int
    seeds : sequence of int
        Seeds of the matrices M.
    starts, steps : int
        Number of descents for each matrix, and the most steps of each.

    Returns
    -------
    xarray.Dataset
        Of (symmetric, sigma, seed), losses per feature, divided by p, as p -> 0: ``found`` by descents,
        ``lower_bound`` and ``naive`` (one feature for each neuron).

    Examples
    --------
    >>> ds = run_mixed([0.05], n_features=12, n_hidden=6, seeds=[0], starts=2)
    >>> bool((ds["lower_bound"] < ds["found"]).all() & (ds["found"] < ds["naive"]).all())
    True
    """
    rows = []
    for symmetric, size, seed in itertools.product((False, True), sigma, seeds):
        M = np.random.default_rng([seed, n_features]).normal(size=(n_features, n_features))
        M = validation.number("sigma", size, 0.0) * ((M + M.T) / np.sqrt(2) if symmetric else M)
        best = best_mixed_network(M, n_hidden, starts=starts, steps=steps, rng=seed)
        rows.append({"found": best.loss, "lower_bound": best.lower_bound, "naive": best.naive})
    ds = from_rows(rows, symmetric=[0, 1], sigma=list(sigma), seed=list(seeds))
    return ds.assign_attrs(n_features=n_features, n_hidden=n_hidden, starts=starts)


# No mixing, 100 features on 50 neurons; data/exp2_M_type_comparison.npz of the same repository and commit.
PRINTED_UNMIXED = {"p": (0.05, 0.1, 0.5, 1.0), "loss": (0.08251, 0.08105, 0.06836, 0.05254)}


@as_annotated
def run_spread(
    p: Sequence[float] = PRINTED_UNMIXED["p"], *, n_features: int = 100, n_hidden: int = 50, tries: int = 40
) -> xr.Dataset:
    """Return least losses of equal neurons that all receive all features, for targets ReLU(x).

    Neurons and readout have no biases. Neuron i has the weight 1 of feature i, one weight of all features of
    other neurons, and one weight of features that have no neuron.

    Parameters
    ----------
    p : sequence of float
        Probabilities that a feature is on, in (0, 1].
    n_features, n_hidden : int
    tries : int
        Most evaluations of the loss in a search; each takes a tenth of a second.

    Returns
    -------
    xarray.Dataset
        Of (p). Losses per feature over p: ``found`` by the search, ``lower_bound``, and of two networks whose
        neurons serve one feature each: ``unbiased``, whose outputs for all other features are 0, and
        ``readout``, which reads these from all neurons. Weights of a neuron in the found network, in units of
        its own feature's weight: ``others``, of the features of other neurons, and ``dropped``, of the
        features that have no neuron.

    Examples
    --------
    >>> ds = run_spread([1.0], n_features=10, n_hidden=5, tries=30)
    >>> bool((ds["lower_bound"] < ds["found"]).all() & (ds["found"] < ds["readout"]).all())
    True
    """
    n = validation.integer("n_hidden", n_hidden, 2)
    F = validation.integer("n_features", n_features, n + 1)
    rows = []
    for q in map(float, validation.probability("p", p)):
        loss, weights = shared_inputs_loss(F, n, q, validation.integer("tries", tries, 3))
        row = {"found": loss, "others": weights[0], "dropped": weights[1]}
        names = ("lower_bound", "readout", "unbiased")
        rows.append(row | {name: float(equal_features_loss(name, q, F, n)) / q for name in names})
    return from_rows(rows, p=list(p)).assign_attrs(n_features=F, n_hidden=n)


@plot_function
def plot_mixing(ds: xr.Dataset, ax: Axes) -> Axes:
    """Draw the lower bound and the naive loss against the size of random M, for targets ReLU(x) + M x.

    The naive network has neurons ReLU(x_i) of n_hidden features, and the best readout. `ds` is from
    `run_mixing`.
    """
    matrices, losses = ("independent entries", "symmetric"), (("lower_bound", "o-"), ("naive", "s:"))
    for (k, matrix), (name, marker) in itertools.product(enumerate(matrices), losses):
        values = ds[name].isel(symmetric=k).transpose("sigma", "seed")
        draw_means(ax, ds["sigma"], values, color=f"C{k}", fmt=marker, ms=3, label=f"{name}, {matrix}")
    return finish_axes(ax, xlabel="standard deviation of the entries of M", ylabel="loss per feature / p")


@plot_function
def plot_mixed(ds: xr.Dataset, ax: Axes) -> Axes:
    """Draw losses for targets ReLU(x) + M x against the size of M: found, the source's, and the lower bound.

    `ds` is from `run_mixed`.
    """
    for k, name in enumerate(MATRICES):
        at = ds.isel(symmetric=k).mean("seed")
        ax.plot(ds["sigma"], at["found"], "o-", color=f"C{k}", markersize=4, label=f"{name} M, found")
        ax.plot(ds["sigma"], at["lower_bound"], ":", color=f"C{k}", label="lower bound")
        ax.plot(PRINTED["sigma"], PRINTED[name], "x", color=f"C{k}", label="printed, trained")
    ax.axhline(1 / 12, color="0.5", linewidth=0.8)
    return finish_axes(ax, xlabel="standard deviation of the entries of M", ylabel="loss per feature / p")


@plot_function
def plot_spread(ds: xr.Dataset, ax: Axes) -> Axes:
    """Draw losses of networks without biases, found and the source's, over the naive loss, against p.

    Targets are ReLU(x). The naive network has neurons ReLU(x_i) of n_hidden features, and answers 0 for all
    others. `ds` is from `run_spread`.
    """
    for name, style in (("found", "o-"), ("readout", "s--"), ("lower_bound", "k:")):
        ax.plot(ds["p"], ds[name] / ds["unbiased"], style, markersize=4, label=name)
    printed = 12 * np.array(PRINTED_UNMIXED["loss"])
    ax.plot(PRINTED_UNMIXED["p"], printed, "x", color="C3", label="printed, trained")
    return finish_axes(ax, xscale="log", xlabel="p", ylabel="loss / naive")


def _show_mixing(ds: xr.Dataset) -> TopicContent:
    """Return text and figure of the report's part "mixing", from `ds` of `run_mixing`.

    The figure has the lower bound and the naive loss for targets ReLU(x) + M x against the size of M. The
    naive network has neurons ReLU(x_i) of n_hidden features, and the best readout.
    """
    lower_bound, naive = ds["lower_bound"].mean("seed"), ds["naive"].mean("seed")
    best = lower_bound.isel(sigma=lower_bound.argmin("sigma"))
    unmixed = lower_bound.isel(sigma=0)
    ranges = [
        f"{span(naive.isel(symmetric=k), '.4f')} naive, lower bound down to {float(best[k]):.4f} at "
        f"{float(best['sigma'][k]):g} ({name})"
        for k, name in enumerate(("independent entries", "symmetric M"))
    ]
    text = (
        "In compressed computation the targets are ReLU(x) + M x with a random M. The covariance of such "
        "targets is p/3 (M + 1/2)(M + 1/2)' and p/12 - p^2/16 on its diagonal: M spreads the singular values "
        f"of M + 1/2 apart, and so lowers the smaller half. With {ds.attrs['n_features']} features on "
        f"{ds.attrs['n_hidden']} neurons and p = {ds.attrs['p']:g}, losses over p: {float(unmixed[0]):.4f} "
        f"without mixing, lower bound and naive alike; {'; '.join(ranges)}. So with M networks may beat "
        "naive ones, and without M none does. Published runs have 0.084 without mixing and a least loss at "
        "0.03 to 0.04."
    )
    caption = (
        f"Means over {ds.sizes['seed']} matrices; the naive network has the best readout for these targets."
    )
    return TopicContent(text, [Figure("mixing", "Mixing lowers the lower bound", caption, ds, plot_mixing)])


def judge_mixed(ds: xr.Dataset) -> list[Finding]:
    """Return the findings of the preregistered criteria for targets ReLU(x) + M x; `ds` is from `run_mixed`.

    The losses found are not below the lower bound; at M above 0 they are below those of the naive network,
    neurons ReLU(x_i) with the best readout; and their means are at most 1.03 times those printed by the
    source.
    """
    mixed = ds.isel(sigma=ds["sigma"].values > 0)
    ratios = ds["found"].mean("seed").values / _printed_mixed(ds)
    return [
        ABOVE.finding(ds["found"] - ds["lower_bound"], kind="numeric"),
        MIXING_GAINS.finding(mixed["found"] / mixed["naive"], kind="numeric"),
        NEAR_PRINTED.finding(ratios[np.isfinite(ratios)], kind="numeric"),
    ]


def _printed_losses(table: Mapping[str, Sequence[float]], name: str, axis: xr.DataArray) -> list[float]:
    """Return the losses that a printed table lists under `name`, one for each coordinate of `axis`, or nan.

    `table` maps the name of the axis to its coordinates, and names of losses to lists of the same length.
    Coordinates that the table lacks give nan.
    """
    matches = [np.flatnonzero(np.isclose(table[str(axis.name)], at)) for at in axis.values]
    return [table[name][match[0]] if match.size else np.nan for match in matches]


def _printed_mixed(ds: xr.Dataset) -> FloatArray:
    """Return the source's losses (matrix kind, sigma) for targets ReLU(x) + M x; nan where it has none.

    The source is FranciscoHS/cis-toy-models; losses are per feature, divided by p. Matrix kinds are
    "independent" and "symmetric", in this order. `ds`, from `run_mixed`, has the coordinate sigma, the
    standard deviation of M's entries off the diagonal.
    """
    return np.array([_printed_losses(PRINTED, name, ds["sigma"]) for name in MATRICES])


def _show_mixed(ds: xr.Dataset) -> TopicContent:
    """Return text, figure and table of the report's part "mixed", from `ds` of `run_mixed`.

    Figure and table have losses for targets ReLU(x) + M x, by the size of M: of networks found, of the
    source's networks, and the lower bound. The table also has the naive network's, a neuron ReLU(x_i) for
    each of n_hidden features with the best readout.
    """
    mean = ds.mean("seed").assign(printed=(("symmetric", "sigma"), _printed_mixed(ds)))
    best = mean["found"].min("sigma")
    text = (
        "Targets ReLU(x) + M x with a random M, one feature on at a time, no biases: the setting of public "
        f"runs on compressed computation, {ds.attrs['n_features']} features on {ds.attrs['n_hidden']} "
        f"neurons. The loss is then a factorisation, and the best of {ds.attrs['starts']} descents is least "
        f"at {float(best[0]):.4f} (independent entries) and {float(best[1]):.4f} (symmetric), where the "
        "unmixed naive loss is 0.0833. So mixing gains, and most of what the lower bound allows is found."
    )
    columns = {
        "M": "{symmetric}", "size": "{sigma:g}", "lower bound": "{lower_bound:.4f}", "found": "{found:.4f}",
        "naive at its best readout": "{naive:.4f}", "printed, trained": "{printed:.4f}",
    }  # fmt: skip
    caption = (
        "Printed: FranciscoHS/cis-toy-models, data/exp3_loss_vs_sigma.npz at commit aaf2246, single runs, "
        "other matrices of the same law, each loss from 1e5 samples. Where what is found is lower, "
        "training had not reached the least loss."
    )
    figure = Figure("mixed", "Networks for mixed targets", "Means over matrices.", ds, plot_mixed)
    by_name = mean.assign_coords(symmetric=list(MATRICES))
    table = Table.formatted("Losses over p as p goes to 0", by_name, columns, caption)
    return TopicContent(text, [figure], [table])


def _show_spread(ds: xr.Dataset) -> TopicContent:
    """Return text, figure and table of the report's part "spread": ReLU(x) by networks without biases.

    Figure and table have losses by p: found by search, printed by the source, naive (a neuron ReLU(x_i) for
    each of n_hidden features, 0 for others), and the lower bound. The table also has the weights of the
    network found. `ds` is from `run_spread`.
    """
    cells = ds.assign(printed=("p", _printed_losses(PRINTED_UNMIXED, "loss", ds["p"])))
    ratios = (cells["printed"] / ds["found"]).dropna("p").values
    ratios_text = ", ".join(f"{ratio:.4f}" for ratio in ratios) or "not known"
    text = (
        "Public networks for ReLU(x) have no biases, and at larger p they lose less than the naive network "
        "that answers 0 for what it drops, though nothing is mixed: the means of the targets are worth "
        "something, and can be read from the neurons. Less still is lost if each neuron, beside the feature "
        "of its own, receives those of the other neurons with a small negative weight and those without a "
        f"neuron with a positive one: {float(ds['others'].isel(p=-1)):.4f} and "
        f"{float(ds['dropped'].isel(p=-1)):.4f} at p = {float(ds['p'][-1]):g}, for {ds.attrs['n_features']} "
        f"features on {ds.attrs['n_hidden']} neurons. Printed losses of trained networks are {ratios_text} "
        "of what is found so, at the same p. With an output bias all this is gone, as nothing is below naive."
    )
    columns = {
        "p": "{p:g}", "lower bound": "{lower_bound:.5f}", "found": "{found:.5f}", "readout": "{readout:.5f}",
        "naive": "{unbiased:.5f}", "printed, trained": "{printed:.5f}", "weight of others": "{others:.4f}",
        "of dropped": "{dropped:.4f}",
    }  # fmt: skip
    caption = (
        "Over p. Two weights are searched; losses are good to 1e-6. Printed: FranciscoHS/cis-toy-models, "
        "data/exp2_M_type_comparison.npz at commit aaf2246, no mixing, from 1e5 samples; its entries at p of "
        "0.005 and 0.001 have one of the features on in each sample, and are divided by p all the same."
    )
    figure = Figure("spread", "Without biases the means are worth something", "", ds, plot_spread)
    table = Table.formatted("Losses over p without biases", cells, columns, caption)
    return TopicContent(text, [figure], [table])


RUNS = {
    "mixing": Run(run_mixing, full={"seeds": range(20)}),
    "mixed": Run(
        run_mixed,
        quick={"sigma": (0.0, 0.01, 0.02, 0.03, 0.04, 0.06), "seeds": range(1), "starts": 2},
        full={"seeds": range(5), "starts": 6},
        seconds=10.0,
    ),
    "spread": Run(run_spread, quick={"p": (0.5, 1.0)}, seconds=15.0),
}
TOPICS = [
    Topic("spread", ["spread"], _show_spread),
    Topic("mixing", ["mixing"], _show_mixing, claims=["K2"]),
    Topic("mixed", ["mixed"], _show_mixed, judge=judge_mixed),
]
