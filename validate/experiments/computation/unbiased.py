"""Networks for ReLU(x) without output bias: closed forms beside the lower bound of any network."""

from collections.abc import Sequence

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from ....theory import validation
from ....theory.annotations import as_annotated
from ....theory.computation import equal_features_loss
from ...runner.declarations import Figure, Run, Table, Topic, TopicContent, span
from ..drawing import finish_axes, plot_function


@as_annotated
def run_unbiased(
    p: Sequence[float] = (1e-4, 1e-3, 1e-2, 0.05, 0.1, 0.2, 0.4, 0.7, 1.0),
    per_neuron: Sequence[float] = (1.1, 1.5, 2.0, 4.0, 10.0),
    n_hidden: int = 50,
) -> xr.Dataset:
    """Return exact losses of networks for ReLU(x) without output bias, and the lower bound of any network.

    Inputs x_i are independent features, uniform on [-1, 1] when on; the targets are ReLU(x_i).

    Parameters
    ----------
    p : sequence of float
        Probabilities that a feature is on, in (0, 1].
    per_neuron : sequence of float
        Ratios n_features/n_hidden, above 1; n_features is rounded.
    n_hidden : int
        Number of hidden neurons, at least 1.

    Returns
    -------
    xarray.Dataset
        ``loss`` (p, per_neuron, network), the squared error per feature divided by p. Three networks have a
        neuron for each target that they compute: "unbiased" outputs 0 for the other targets, "readout" reads
        them from all neurons, and "constant" from one neuron of constant output (`equal_features_loss`).
        "lower_bound" holds for any network.

    Examples
    --------
    >>> ds = run_unbiased([0.01], [2.0])
    >>> bool((ds["loss"] >= ds["loss"].sel(network="lower_bound")).all())
    True
    """
    n = validation.integer("n_hidden", n_hidden, 1)
    ratio = validation.real("per_neuron", per_neuron, 1.0, 1e6)
    p_column = validation.probability("p", p)[:, None]
    names = ("lower_bound", "unbiased", "readout", "constant")
    loss = [equal_features_loss(name, p_column, np.rint(ratio * n), n) / p_column for name in names]
    return xr.Dataset(
        {"loss": (("p", "per_neuron", "network"), np.stack(loss, axis=-1))},
        {"p": list(p), "per_neuron": list(per_neuron), "network": list(names)},
        {"n_hidden": n},
    )


def _naive_loss(ds: xr.Dataset) -> xr.DataArray:
    """Return the loss (p, per_neuron) of the network that gives 0 for targets that it does not compute.

    Losses are per feature, divided by p; `ds` is from `run_unbiased`.
    """
    return ds["loss"].sel(network="unbiased")


def _saved_share(ds: xr.Dataset) -> xr.DataArray:
    """Return the share (p, per_neuron) of the naive loss that the best of three closed forms saves.

    The naive network, one of the three, gives 0 for targets that it does not compute, so that the share is at
    least 0. `ds` is from `run_unbiased`.
    """
    return 1 - ds["loss"].sel(network=["unbiased", "readout", "constant"]).min("network") / _naive_loss(ds)


@plot_function
def plot_unbiased(ds: xr.Dataset, ax: Axes) -> Axes:
    """Draw the share of the naive loss saved without output bias, and its upper bound, against p.

    The naive network gives 0 for targets that it does not compute; `ds` is from `run_unbiased`.
    """
    gain = _saved_share(ds)
    for k, ratio in enumerate(ds["per_neuron"].values):
        at = gain.sel(per_neuron=ratio)
        ax.plot(ds["p"], at.where(at > 0), ".-", color=f"C{k}", label=f"{ratio:g} features a neuron")
    ax.plot(ds["p"], 3 * ds["p"] / 8, "k--", linewidth=0.8, label="lower bound, 3p/8")
    ax.set(xscale="log", yscale="log", ylim=(1e-7, 1))
    return finish_axes(ax, xlabel="p", ylabel="share of the naive loss saved, no bias")


def _show_unbiased(ds: xr.Dataset) -> TopicContent:
    """Return text, figure and table of the report's part "unbiased": ReLU networks without output bias.

    Figure and table have the share of the naive loss that the best closed form saves, by p and features for
    each neuron; the figure also what the lower bound allows. `ds` is from `run_unbiased`.
    """
    gain, allowed = _saved_share(ds), 1 - ds["loss"].sel(network="lower_bound") / _naive_loss(ds)
    best = gain.isel(gain.argmax(...))
    constant_is_best = ds["loss"].sel(network="constant") < ds["loss"].sel(network="readout")
    least_p = [
        f"{float(ratio):g} features a neuron from p = {float(ds['p'][int(is_best.argmax())]):g}"
        for ratio in ds["per_neuron"].values
        if (is_best := constant_is_best.sel(per_neuron=ratio).values).any()
    ]
    text = (
        "With an output bias nothing is below the naive network, at any p and size. Without one the mean of "
        "the targets is worth something: at most 3p/8 of the naive loss. The dropped targets can be read "
        "from the existing neurons, or one neuron can be given up for a constant. Of these two, with "
        f"{ds.attrs['n_hidden']} neurons, the best saves {span(gain, '.2g')} on this grid, most at p = "
        f"{float(best['p']):g} with {float(best['per_neuron']):g} features a neuron, where the lower bound "
        f"allows {float(allowed.sel(p=best['p'], per_neuron=best['per_neuron'])):.3g}. "
    )
    text += f"A constant is the better one for {'; '.join(least_p)} on." if least_p else ""
    frame = gain.to_dataframe("saved")["saved"].unstack("per_neuron").reset_index()
    table = Table.of(
        "Share of the naive loss saved without bias, by the better of two closed forms",
        frame.map(lambda cell: f"{cell:.3g}"),
        "By p and by features for each neuron; exact but for roundings. The lower bound is 3p/8 in "
        "each column. With an output bias every entry is 0, and so is the lower bound.",
    )
    caption = "Best of two closed forms: readout of dropped targets, or a constant neuron."
    return TopicContent(
        text,
        [Figure("unbiased", "What is gained without an output bias", caption, ds, plot_unbiased)],
        [table],
        "For ReLU of independent features no n neurons with a linear readout beat the naive network in "
        "squared error, at any p.",
    )


RUNS = {"unbiased": Run(run_unbiased)}
TOPICS = [Topic("unbiased", ["unbiased"], _show_unbiased, claims=["K1"])]
