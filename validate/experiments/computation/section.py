"""The part of the report on computation in superposition."""

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from ....theory.computation import rare_losses, shared_loss
from ...runner.declarations import (
    SUMS,
    Figure,
    ReproductionCheck,
    Run,
    Section,
    Table,
    Topic,
    TopicContent,
    span,
)
from ..drawing import finish_axes, plot_function
from .criteria import BELOW, NEAR, judge_map, judge_trained, shares
from .runs import run_fans, run_map, run_powers, run_search, run_trained, run_unbiased

TEXT = r"""
Can n hidden ReLU neurons with a linear readout compute more than n functions of sparse features? For the
squared error there is a bound for any n functions of the input, whatever computes them: the sum of the
smallest eigenvalues of the targets' covariance (the floor). The naive network computes n of the targets and
gives the mean of the others. For ReLU(x) of independent features that are alike, it attains the floor, so
that nothing is better at any p. Something is gained without an output bias, for targets that one neuron
cannot compute, such as |x|, for targets that a matrix mixes, and for other powers of the error. Features are
uniform on [-1, 1] when on. Losses are per feature.
"""


def _naive(ds: xr.Dataset) -> xr.DataArray:
    """Return the loss of the network that drops what it does not compute, without bias."""
    return ds["loss"].sel(network="unbiased")


def _gain(ds: xr.Dataset) -> xr.DataArray:
    """Return what the best of the closed forms saves of it."""
    return 1 - ds["loss"].sel(network=["unbiased", "readout", "constant"]).min("network") / _naive(ds)


def label_floor(ax: Axes, x: float, y: float) -> None:
    """Write what a line is above the point (x, y) on it."""
    ax.annotate("floor", (x, y), (2, 2), textcoords="offset points", fontsize="small", va="bottom")


@plot_function
def plot_unbiased(ds: xr.Dataset, ax: Axes) -> Axes:
    """Draw what networks without output bias save against p, and what the floor allows; of `run_unbiased`."""
    gain = _gain(ds)
    for k, ratio in enumerate(ds["per_neuron"].values):
        at = gain.sel(per_neuron=ratio)
        ax.plot(ds["p"], at.where(at > 0), ".-", color=f"C{k}", label=f"{ratio:g} features a neuron")
    ax.plot(ds["p"], 3 * ds["p"] / 8, "k--", linewidth=0.8, label="floor, 3p/8")
    ax.set(xscale="log", yscale="log", ylim=(1e-7, 1))
    return finish_axes(ax, xlabel="p", ylabel="share of the naive loss saved, no bias")


@plot_function
def plot_search(ds: xr.Dataset, ax: Axes) -> Axes:
    """Draw the losses of the networks found over the naive ones against p; of `run_search`."""
    for k, task in enumerate(ds["task"].values):
        for i in range(ds.sizes["size"]):
            at = ds.sel(task=task).isel(size=i)
            label = f"{task}, {int(at['n_features'])} on {int(at['n_hidden'])}"
            ax.plot(ds["p"], at["best"] / at["naive"], "os^v"[i % 4] + "-", color=f"C{k}", ms=4, label=label)
            ax.plot(ds["p"], at["floor"] / at["naive"], "os^v"[i % 4] + ":", color=f"C{k}", ms=2)
    lowest = float((ds["floor"] / ds["naive"]).isel(p=0).min())
    label_floor(ax, float(ds["p"][0]), lowest)
    return finish_axes(ax, xscale="log", xlabel="p", ylabel="loss / naive")


@plot_function
def plot_fans(ds: xr.Dataset, ax: Axes) -> Axes:
    """Draw the losses of fans, naive networks and the floor against p; of `run_fans`."""
    for i in range(ds.sizes["size"]):
        at = ds.isel(size=i)
        name = f"{int(at['n_features'])} on {int(at['n_hidden'])}"
        ax.plot(ds["p"], at["fan"] / at["naive"], ".-", color=f"C{i}", label=name)
        ax.plot(ds["p"], at["floor"] / at["naive"], ":", color=f"C{i}")
    ax.axhline(1, color="0.5", linewidth=0.8)
    for low in np.unique((ds["floor"] / ds["naive"]).isel(p=0).round(2)):
        label_floor(ax, float(ds["p"][0]), float(low))
    return finish_axes(ax, xscale="log", xlabel="p", ylabel="loss of a fan / naive")


@plot_function
def plot_powers(ds: xr.Dataset, ax: Axes) -> Axes:
    """Draw the best neuron for two features over the naive one against p; of `run_powers`."""
    for power in ds["power"].values:
        at = ds.sel(power=power)
        ax.plot(ds["p"], at["best"] / at["naive"], ".-", label=f"power {int(power)}")
    return finish_axes(ax, xscale="log", ylim=(0, 1.1), xlabel="p", ylabel="mean power of the error / naive")


@plot_function
def plot_map(ds: xr.Dataset, ax: Axes) -> Axes:
    """Draw the share of the naive loss that is saved against p, by task, and what the floor allows."""
    at = ds.sel(per_neuron=2.0, method="nearest")
    for k, task in enumerate(ds["task"].values):
        one = at.sel(task=task)
        for name, style in (("best", "o-"), ("floor", ":")):
            saved = 1 - one[name] / one["naive"]
            label = str(task) if name == "best" else None
            ax.plot(ds["p"], saved.where(saved > 1e-7), style, color=f"C{k}", markersize=4, label=label)
    ax.set(xscale="log", yscale="log", ylim=(1e-5, 1))
    return finish_axes(ax, xlabel="p", ylabel="share of the naive loss saved")


def _name(at: xr.Dataset | xr.DataArray) -> str:
    return f"{int(at['n_features'])} on {int(at['n_hidden'])}"


def _show_unbiased(ds: xr.Dataset) -> TopicContent:
    gain, allowed = _gain(ds), 1 - ds["loss"].sel(network="floor") / _naive(ds)
    most = gain.isel(gain.argmax(...))
    constant = ds["loss"].sel(network="constant") < ds["loss"].sel(network="readout")
    least = [
        f"{float(ratio):g} features a neuron from p = {float(ds['p'][int(on.argmax())]):g}"
        for ratio in ds["per_neuron"].values
        if (on := constant.sel(per_neuron=ratio).values).any()
    ]
    text = (
        "With an output bias nothing is below the naive network, at any p and size. Without one the mean of "
        "the targets is worth something: at most 3p/8 of the naive loss. The dropped targets can be read "
        "from the existing neurons, or one neuron can be given up for a constant. Of these two, with "
        f"{ds.attrs['n_hidden']} neurons, the best saves {span(gain, '.2g')} on this grid, most at p = "
        f"{float(most['p']):g} with {float(most['per_neuron']):g} features a neuron, where the floor allows "
        f"{float(allowed.sel(p=most['p'], per_neuron=most['per_neuron'])):.3g}. "
    )
    text += f"A constant is the better one for {'; '.join(least)} on." if least else ""
    frame = gain.to_dataframe("saved").reset_index()
    table = frame.pivot(index="p", columns="per_neuron", values="saved").reset_index()
    table.columns = [str(one) for one in table.columns]
    cells = Table.of(
        "Share of the naive loss saved without bias, by the better of two closed forms",
        table.map(lambda cell: f"{cell:.3g}"),
        "By p and by features for each neuron; exact but for roundings. The floor is 3p/8 in "
        "each column. With an output bias every entry is 0, and so is the floor.",
    )
    caption = "Best of two closed forms: readout of dropped targets, or a constant neuron."
    return TopicContent(
        text,
        [Figure("unbiased", "What is gained without an output bias", caption, ds, plot_unbiased)],
        [cells],
        "For ReLU of independent features no n neurons with a linear readout beat the naive network in "
        "squared error, at any p.",
    )


def _show_search(ds: xr.Dataset) -> TopicContent:
    excess = float(((ds["best"] - ds["floor"] + ds["error"]) / ds["naive"]).min())
    biased = ds.sel(task="relu")
    same = np.abs(biased["best"] / biased["naive"] - 1)
    saved = 1 - ds["best"] / ds["naive"]
    rows = []
    for task in ds["task"].values[1:]:
        for i in range(ds.sizes["size"]):
            at = saved.sel(task=task).isel(size=i)
            rows.append(f"{task}, {_name(at)}: {span(at, '.2g')}")
    text = (
        f"Descents on the exact loss, {ds.attrs['starts']} starts at each place. None is below the floor: "
        f"the least excess is {excess:.1g} of the naive loss, with its error. For ReLU with an output bias "
        f"the best networks are naive, to {float(same.max()):.0e} of the loss. Shares saved elsewhere: "
        f"{'; '.join(rows)}. Without bias the neuron of a feature also receives another feature with a "
        "smaller weight, of the same sign, which saves a share of order p (0.15 p for two features on one "
        "neuron, derived)."
    )
    caption = "Solid: the best network found; dotted: the floor."
    return TopicContent(
        text, [Figure("search", "The best networks of few features", caption, ds, plot_search)]
    )


def _show_fans(ds: xr.Dataset) -> TopicContent:
    saved, said = 1 - ds["fan"] / ds["naive"], []
    for i in range(ds.sizes["size"]):
        at = ds.isel(size=i)
        limit = rare_losses(int(at["n_features"]), int(at["n_hidden"]), target="abs")
        pays = ds["p"].values[(saved.isel(size=i) > 0).values]
        said.append(
            f"{_name(at)}: {float(saved.isel(size=i)[0]):.1%} at p = {float(ds['p'][0]):g} (limit "
            f"{1 - limit.fan / limit.naive:.1%}), and some up to p = {pays.max():g}"
        )
    text = (
        "One ReLU cannot compute |x|: two are needed for each feature, or one computes half of it. A fan of "
        "n neurons computes n - 2 of them in full and halves of two more, where features are rare. All "
        "neurons receive two carriers with positive weights, and the others with small weights that change "
        "sign along the neurons; second differences of the neurons are |x|. Exact losses at the best "
        f"readout, saved over the naive network: {'; '.join(said)}. In the limit p to 0 a fan is 1/3 over "
        "the number of features above the floor for any n, so that with many neurons nearly n functions are "
        "computed that take two neurons each. When features are on together a fan errs, more so the smaller "
        "its weights."
    )
    caption = (
        "Solid: fan with the best of several small weights; dotted: the floor. Both over the naive loss."
    )
    table = Table.formatted(
        "Losses over p for |x|",
        ds.drop_vars("error"),
        {
            "features": "{n_features}",
            "neurons": "{n_hidden}",
            "p": "{p:g}",
            "floor": "{floor:.5f}",
            "fan": "{fan:.5f}",
            "its small weight": "{eps:g}",
            "naive": "{naive:.5f}",
        },
        f"Errors of the fans' losses: at most {float(ds['error'].max()):.0e}.",
    )
    return TopicContent(
        text,
        [Figure("fans", "Fans compute |x| in superposition", caption, ds, plot_fans)],
        [table],
        f"For |x|, fans of ReLU neurons lose up to {float(saved.max()):.0%} less than neurons that serve one "
        "feature each.",
    )


def _show_powers(ds: xr.Dataset) -> TopicContent:
    ratio = ds["best"] / ds["naive"]
    said = [f"power {int(q)}: {span(ratio.sel(power=q), '.3f')}" for q in ds["power"].values]
    limit = shared_loss(2, 1)
    text = (
        "The bound is about the square. For higher powers of the error one large error costs more than two "
        "of half the size, and features that share a neuron cost less than one that is dropped. Two features "
        f"on one neuron, best over naive: {'; '.join(said)}. In the limit p to 0 sharing has "
        f"{limit.loss / limit.naive:.2f} of the naive fourth power (1 of the square): the bias of a dropped "
        "output helps until p is very small."
    )
    caption = "One neuron for ReLU of two features, hidden and output biases free; exact, by searches."
    return TopicContent(text, [Figure("powers", "Fourth powers favour sharing", caption, ds, plot_powers)])


@plot_function
def plot_trained(ds: xr.Dataset, ax: Axes) -> Axes:
    """Draw where trained networks end, over the naive loss, a column for each place; of `run_trained`."""
    for i in range(ds.sizes["place"]):
        at = ds.isel(place=i)
        ax.plot(np.full(at.sizes["seed"], i), at["loss"] / at["naive"], "o", color=f"C{i}", ms=3, alpha=0.6)
        ax.plot([i - 0.3, i + 0.3], [at["floor"] / at["naive"]] * 2, "k-", linewidth=1)
    ax.axhline(1, color="0.5", linewidth=0.8)
    ax.set_xticks(range(ds.sizes["place"]), [str(k + 1) for k in range(ds.sizes["place"])])
    label_floor(ax, -0.3, float((ds["floor"] / ds["naive"]).isel(place=0)))
    return finish_axes(ax, None, xlabel="place", ylabel="loss / naive")


def _show_trained(ds: xr.Dataset) -> TopicContent:
    ratio, rows = ds["loss"] / ds["naive"], []
    for i, name in enumerate(ds["name"].values):
        at = ratio.isel(place=i).values
        below, near = (int(one.sum()) for one in (BELOW.satisfied(at - 1), NEAR.satisfied(np.abs(at - 1))))
        floor = float(ds["floor"][i] / ds["naive"][i])
        losses = [f"{one:.3f}" for one in (at.min(), np.median(at), floor)]
        rows.append([i + 1, str(name), at.size, near, below, *losses])
    text = (
        "All weights and biases, trained by the exact gradient with L-BFGS from random weights. Places and "
        f"criteria were fixed before. {rows[0][3]} of {rows[0][2]} seeds end at the naive loss at the first "
        f"place, and below it {', '.join(f'{row[4]} of {row[2]}' for row in rows[1:])} at the others. Runs "
        "with a neuron that no input turns on: "
        f"{', '.join(str(int(one)) for one in (ds['dead'] > 0).sum('seed'))}. Gradients at the ends are at "
        f"most {span(ds['gradient'].max('seed'), '.0e')} at the places, of the mean square of the targets."
    )
    columns = ("place", "network", "seeds", "at naive", "below it", "least / naive", "median", "floor")
    caption = "Each dot is a seed."
    return TopicContent(
        text,
        [Figure("trained", "Where training ends", caption, ds, plot_trained)],
        [Table("Trained networks over naive ones", columns, rows)],
    )


def _show_map(ds: xr.Dataset) -> TopicContent:
    saved, allowed = shares(ds)
    rows = []
    for task in ds["task"].values:
        for ratio in ds["per_neuron"].values:
            cells_of = (
                [float(100 * one.sel(task=task, p=p, per_neuron=ratio)) for one in (saved, allowed)]
                for p in ds["p"].values
            )
            cells = [
                "-" if np.isnan(one) else f"{round(one, 9) + 0.0:.3g} ({round(two, 9) + 0.0:.3g})"
                for one, two in cells_of
            ]
            rows.append([str(task), f"{float(ratio):.3g}", *cells])
    error = float((ds["error"] / ds["naive"].where(saved.notnull())).max())
    columns = ("task", "features a neuron", *(f"p = {p:g}" for p in ds["p"].values))
    table = Table(
        "Share of the naive loss saved by the best known networks, in per cent, and allowed by the floor",
        columns,
        rows,
        "In brackets: what the floor allows; a dash where the naive network loses nothing. "
        "A network is of disjoint parts, each the best that was found "
        f"for a few features. Errors of the losses: at most {error:.0e} of the naive one. What is found is "
        "an upper bound on the least loss; nothing is said of networks between it and the floor.",
    )
    two = saved.sel(per_neuron=2.0, method="nearest")
    said = [f"{task}: {span(100 * two.sel(task=task), '.2g')} %" for task in ds["task"].values]
    text = (
        "With a linear readout, an output bias and targets that are independent and alike nothing is below "
        "the naive network in squared error (theorem on the page `computation`): the first rows are 0, and "
        "so is what the floor allows. Something is gained where one of these is left out: without output "
        "bias, for features that are on together, and for targets that one neuron cannot compute. Shares "
        f"of the naive loss saved at two features a neuron, over p: {'; '.join(said)}. Features on in pairs "
        "have the same p, and values that are independent. The naive network's neurons serve one feature "
        "each, at their best readout; without output bias it answers 0 where it computes nothing, as in "
        "public code. "
    )
    text += (
        f"The grid has parts of {ds.attrs['largest']} features at most, and for |x| fans of more features "
        "save more."
    )
    caption = "Two features a neuron. Solid: the best network known; dotted: what the floor allows."
    return TopicContent(
        text, [Figure("map", "Where a hidden layer can beat naive", caption, ds, plot_map)], [table]
    )


SECTION = Section(
    "computation",
    "Computation in superposition",
    TEXT,
    {
        "unbiased": Run(run_unbiased),
        "search": Run(
            run_search,
            quick={"sizes": ((2, 1),), "starts": 3, "steps": 40},
            full={"sizes": ((2, 1), (3, 2), (4, 2), (4, 3)), "starts": 12, "steps": 200},
            seconds=20.0,
        ),
        "map": Run.shipped(
            "computation_map",
            "what the best known networks gain",
            run_map,
            {
                "p": [1e-3, 0.01, 0.03, 0.1, 0.3, 1.0],
                "sizes": [[1, 1], [2, 1], [2, 2], [3, 1], [3, 2], [3, 3], [4, 2]],
                "fans": [[4, 4], [5, 5]],
                "starts": 4,
                "steps": 100,
            },
            seconds=1500.0,
            split_by="p",
            concat_dim="p",
            check=ReproductionCheck({"p": [0.1], "tasks": ["relu without bias"]}, (), 1e-6, SUMS),
        ),
        "fans": Run(run_fans, full={"sizes": ((3, 3), (4, 3), (4, 4), (5, 4), (5, 5))}, seconds=10.0),
        "trained": Run(run_trained, quick={"seeds": range(4)}, full={"seeds": range(20)}, seconds=40.0),
        "powers": Run(run_powers, quick={"starts": 0}, full={"starts": 8, "powers": (2, 4, 6)}, seconds=20.0),
    },
    [
        Topic("fans", ["fans"], _show_fans, claims=["K4"]),
        Topic("unbiased", ["unbiased"], _show_unbiased, claims=["K1"]),
        Topic("search", ["search"], _show_search),
        Topic("map", ["map"], _show_map, judge=judge_map),
        Topic("trained", ["trained"], _show_trained, judge=judge_trained),
        Topic("powers", ["powers"], _show_powers, claims=["K3"]),
    ],
)
