r"""Fans for \|x\|: their exact losses at the best readout, beside naive networks and the lower bound."""

import itertools
from collections.abc import Sequence

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from ....solvers.computation import BestNetwork, best_readout, network_loss
from ....theory.annotations import as_annotated
from ....theory.computation import equal_features_loss, fan_network, rare_losses
from ....theory.features import Features
from ...runner.declarations import Figure, Run, Table, Topic, TopicContent, from_rows
from ..drawing import finish_axes, plot_function

Size = Sequence[int]  # n_features and n_hidden
EPS = (0.5, 0.3, 0.2, 0.1, 0.05, 0.02)  # small weights of fans, of which the best is taken


def with_sizes(ds: xr.Dataset, sizes: Sequence[Size]) -> xr.Dataset:
    """Return `ds` with the coordinates n_features and n_hidden along ``size``: the pairs in `sizes`."""
    n_features, n_hidden = np.array(sizes).T
    return ds.assign_coords(n_features=("size", n_features), n_hidden=("size", n_hidden))


def size_label(at: xr.Dataset | xr.DataArray) -> str:
    """Return the n_features and n_hidden of `at`, data of one size, as text, such as "3 on 2"."""
    return f"{int(at['n_features'])} on {int(at['n_hidden'])}"


def losses_over_p(best: BestNetwork, p: float) -> dict[str, float]:
    """Return losses per feature, divided by p: "best", its "error", "naive", and the "lower_bound".

    `best` is the result of `best_network`; the naive network has neurons of one feature each.
    """
    names = {"best": "loss", "lower_bound": "lower_bound", "naive": "naive", "error": "error_estimate"}
    return {name: getattr(best, field) / p for name, field in names.items()}


def label_lower_bound(ax: Axes, x: float, y: float) -> None:
    """Write "lower bound" above (x, y), a point on the line of the lower bound."""
    ax.annotate("lower bound", (x, y), (2, 2), textcoords="offset points", fontsize="small", va="bottom")


def best_fan(F: int, n: int, p: float, eps: Sequence[float] = EPS) -> tuple[float, float, float]:
    r"""Return (loss, its error, eps) of the best fan over `eps`, for \|x\| of F features on n neurons.

    Loss and error are means over the outputs, divided by p. In a fan every neuron receives all features: two
    of them with large weights, the others with weights of size eps (`theory.computation.fan_network`).
    """
    law, losses = Features(F, p, "symmetric"), []
    for small in eps:
        model = best_readout(fan_network(F, n, eps=small)[0], 0.0, law, "abs")
        loss = network_loss(model, law, "abs")
        losses.append((loss.loss / p, loss.error_estimate / p, small))
    return min(losses)


@as_annotated
def run_fans(
    p: Sequence[float] = (1e-4, 1e-3, 1e-2, 0.03, 0.1, 0.3),
    sizes: Sequence[Size] = ((3, 3), (4, 3), (4, 4)),
    eps: Sequence[float] = EPS,
) -> xr.Dataset:
    r"""Return exact losses of fans for \|x\| at their best readout, of naive networks, and the lower bound.

    In a fan every neuron receives all features: two of them with large weights, the others with small weights
    of size eps, from which the readout computes these others (`theory.computation.fan_network`).

    Parameters
    ----------
    p : sequence of float
        Probabilities that a feature is on, in (0, 1].
    sizes : sequence of (n_features, n_hidden)
        At most 5 features, and at least 3 neurons.
    eps : sequence of float
        Sizes of the small weights, of which the best is taken.

    Returns
    -------
    xarray.Dataset
        Of (size, p), losses per feature, divided by p: ``lower_bound``, ``naive`` (of neurons that serve one
        feature each) and ``fan``, with its ``error``; and ``eps``, the best small weight.

    Examples
    --------
    >>> ds = run_fans([0.01], [(3, 3)], [0.1])
    >>> bool(ds["fan"][0, 0] < 0.75 * ds["naive"][0, 0])
    True
    """
    rows = []
    for (F, n), q in itertools.product(sizes, p):
        best, error, small = best_fan(F, n, q, eps)
        naive = min(float(equal_features_loss(name, q, F, n, target="abs")) for name in ("naive", "pairs"))
        lower_bound = equal_features_loss("lower_bound", q, F, n, target="abs")
        row = {"lower_bound": lower_bound / q, "naive": naive / q, "fan": best, "error": error, "eps": small}
        rows.append(row)
    return with_sizes(from_rows(rows, size=len(sizes), p=list(p)), sizes)


@plot_function
def plot_fans(ds: xr.Dataset, ax: Axes) -> Axes:
    """Draw the losses of fans, naive networks and the lower bound against p; `ds` is from `run_fans`."""
    for i in range(ds.sizes["size"]):
        at = ds.isel(size=i)
        ax.plot(ds["p"], at["fan"] / at["naive"], ".-", color=f"C{i}", label=size_label(at))
        ax.plot(ds["p"], at["lower_bound"] / at["naive"], ":", color=f"C{i}")
    ax.axhline(1, color="0.5", linewidth=0.8)
    for low in np.unique((ds["lower_bound"] / ds["naive"]).isel(p=0).round(2)):
        label_lower_bound(ax, float(ds["p"][0]), float(low))
    return finish_axes(ax, xscale="log", xlabel="p", ylabel="loss of a fan / naive")


def _show_fans(ds: xr.Dataset) -> TopicContent:
    """Return text, figure and table of the report's part "fans", from `ds` of `run_fans`.

    Figure and table have losses of networks for |x| over p: fans (all neurons receive all features), naive
    networks of one feature a neuron, and the lower bound; the table has the best small weight of a fan, too.
    """
    saved, sentences = 1 - ds["fan"] / ds["naive"], []
    for i in range(ds.sizes["size"]):
        at = ds.isel(size=i)
        limit = rare_losses(int(at["n_features"]), int(at["n_hidden"]), target="abs")
        p_saving = ds["p"].values[(saved.isel(size=i) > 0).values]
        sentences.append(
            f"{size_label(at)}: {float(saved.isel(size=i)[0]):.1%} at p = {float(ds['p'][0]):g} (limit "
            f"{1 - limit.fan / limit.naive:.1%}), and some up to p = {p_saving.max():g}"
        )
    text = (
        "One ReLU cannot compute |x|: two are needed for each feature, or one computes half of it. A fan of "
        "n neurons computes n - 2 of them in full and halves of two more, where features are rare. All "
        "neurons receive two carriers with positive weights, and the others with small weights that change "
        "sign along the neurons; second differences of the neurons are |x|. Exact losses at the best "
        f"readout, saved over the naive network: {'; '.join(sentences)}. In the limit p to 0 a fan is 1/3 "
        "over the number of features above the lower bound for any n, so that with many neurons nearly n "
        "functions are computed that take two neurons each. When features are on together a fan errs, more "
        "so the smaller its weights."
    )
    caption = (
        "Solid: fan with the best of several small weights; dotted: the lower bound. Both over the naive "
        "loss."
    )
    table = Table.formatted(
        "Losses over p for |x|",
        ds.drop_vars("error"),
        {
            "features": "{n_features}",
            "neurons": "{n_hidden}",
            "p": "{p:g}",
            "lower bound": "{lower_bound:.5f}",
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


RUNS = {"fans": Run(run_fans, full={"sizes": ((3, 3), (4, 3), (4, 4), (5, 4), (5, 5))}, seconds=10.0)}
TOPICS = [Topic("fans", ["fans"], _show_fans, claims=["K4"])]
