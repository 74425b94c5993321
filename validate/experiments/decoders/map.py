"""What each decoder attains over p and ratio, and from which ratio on iteration recovers every feature."""

from collections.abc import Sequence

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from ....solvers import decoders
from ....solvers.decoders.optimum import DECODERS
from ....theory.annotations import as_annotated
from ....theory.rug import sigma
from ...runner.declarations import Figure, Run, Table, Topic, TopicContent, span
from ...runner.findings import Criterion, post_hoc
from ..drawing import finish_axes, plot_function
from .labels import DECODER_LABELS

# Losses that differ by less are those of one decoder.
EQUAL = Criterion("ReLU over JumpReLU, less 1", "<", post_hoc(1e-6))


@as_annotated
def run_map(
    p: Sequence[float] = (1e-4, 1e-3, 1e-2, 0.05, 0.2, 0.5), ratio: Sequence[float] = (0.05, 0.12, 0.25, 0.5)
) -> xr.Dataset:
    """Compute losses of decoders on a grid, and the ratio above which message passing recovers all features.

    Decoders estimate a feature from its output, in the limit of many features: "affine", "soft" and "hard"
    (thresholding), "relu", "jumprelu" and "bayes" from this output alone, message passing from all outputs
    (`solvers.decoders.attainable`).

    Parameters
    ----------
    p : sequence of float
        Probabilities that a feature is on, in (0, 1].
    ratio : sequence of float
        n_hidden / n_features, in (0, 1).

    Returns
    -------
    xarray.Dataset
        Losses per feature: ``loss`` (p, ratio, decoder), of decoders that read one output, and ``iterated``
        (p, ratio), of converged message passing. ``recovery`` (p): the ratio above which message passing
        recovers all features and ``iterated`` is 0.

    Examples
    --------
    >>> ds = run_map([0.01], [0.1, 0.5])
    >>> bool((ds["loss"].sel(decoder="bayes") <= ds["loss"] * (1 + 1e-12)).all())
    True
    """
    grid = np.broadcast_arrays(np.asarray(p, float)[:, None], np.asarray(ratio, float))
    noise = sigma(*grid)
    loss = [decoders.optimum(grid[0], noise, name).loss for name in DECODERS]
    line = decoders.recovery_ratio(np.asarray(p, float))
    iterated = [
        [0.0 if r > top else decoders.state_evolution(q, r, tol=1e-9).loss for r in ratio]
        for q, top in zip(p, line, strict=True)
    ]
    return xr.Dataset(
        {
            "loss": (("p", "ratio", "decoder"), np.stack(loss, axis=-1)),
            "iterated": (("p", "ratio"), np.array(iterated)),
            "recovery": ("p", line),
        },
        {"p": list(p), "ratio": list(ratio), "decoder": list(DECODERS)},
    )


@plot_function
def plot_map(ds: xr.Dataset, ax: Axes, ratio: float = 0.25) -> Axes:
    """Draw the losses of decoders over the Bayes decoder's against p, at the grid's ratio nearest to `ratio`.

    `ds` is from `run_map`.
    """
    at = ds.sel(ratio=ratio, method="nearest")
    least = at["loss"].sel(decoder="bayes")
    for name in ("soft", "hard", "relu", "jumprelu"):
        ax.plot(ds["p"], at["loss"].sel(decoder=name) / least, ".-", label=DECODER_LABELS[name])
    ax.plot(ds["p"], at["iterated"] / least, "k.:", label="iterated to its end")
    ax.set(xscale="log", xlabel="p", ylabel="loss / Bayes, one step", ylim=(-0.1, 4.1))
    return finish_axes(ax, title=f"ratio {float(at['ratio']):g}")


@plot_function
def plot_recovery_line(ds: xr.Dataset, ax: Axes) -> Axes:
    """Draw two ratios against p: above one message passing recovers all features, below one no decoder can.

    `ds` is from `run_map`.
    """
    p, line = ds["p"].values, ds["recovery"].values
    ax.fill_between(p, line, 1, color="C3", alpha=0.15, linewidth=0, label="all recovered by iteration")
    ax.plot(p, line, ".-", color="C3", label="message passing")
    ax.plot(p, p, "k--", label="ratio = p: no decoder below")
    ax.set(xscale="log", yscale="log", ylim=(p.min(), 1))
    return finish_axes(ax, "lower right", xlabel="p", ylabel="neurons per feature")


def _show_map(ds: xr.Dataset) -> TopicContent:
    """Return text, figure and table of the report's part "map": losses of decoders over p and ratio.

    The figure has losses over that of the Bayes decoder against p, and the ratio above which message passing
    recovers all features; the table has the loss of each decoder by p and ratio. `ds` is from `run_map`.
    """
    loss = ds["loss"]
    gain = loss.sel(decoder="relu") / loss.sel(decoder="jumprelu")
    most = gain.isel(gain.argmax(...))
    is_equal = EQUAL.satisfied(gain - 1).values
    to_bayes = loss.sel(decoder="jumprelu") / loss.sel(decoder="bayes")
    recovered = (ds["iterated"] == 0).values
    text = (
        "ReLU is itself the best JumpReLU where features are not rare: a jump lowers the loss only below a "
        "certain p, where the threshold moves abruptly. On this grid the two are the same at "
        f"{is_equal.sum()} of {is_equal.size} places, and ReLU loses {float(most):.2f} times as much at p = "
        f"{float(most['p']):g}, ratio {float(most['ratio']):g}. What JumpReLU loses to the posterior mean is "
        f"a factor of {span(to_bayes)}. As p falls at a fixed ratio JumpReLU and Bayes both tend to p "
        "sigma², ReLU to (1 + t²/4) times that, t² = 2 log(1/p): no constant bounds what a better decoder "
        f"gains. Iteration recovers all features at {recovered.sum()} of {recovered.size} places, where the "
        "loss of every one-step decoder is positive."
    )
    losses_by_decoder = loss.to_dataset("decoder").assign(iterated=ds["iterated"])
    columns = {"p": "{p:g}", "ratio": "{ratio:g}"}
    columns |= {DECODER_LABELS[str(name)]: f"{{{name}:.3g}}" for name in losses_by_decoder}
    caption = (
        "Loss per feature, errors below 1e-9 of each. TopK of many features is JumpReLU. 0: all recovered."
    )
    figure = Figure(
        "decoders",
        "What ReLU loses to a better decoder, and one step to iteration",
        "Left: losses over that of the best function of one output; 0 is exact recovery. Right: from which "
        "ratio on.",
        ds,
        (plot_map, plot_recovery_line),
    )
    headline = (
        f"A better decoder helps where features are rare: ReLU loses {float(most):.1f} times as much as "
        f"JumpReLU at p = {float(most['p']):g}, and iterated decoding recovers all features from a ratio "
        f"of {float(ds['recovery'].sel(p=0.05, method='nearest')):.2f} on at p = 0.05."
    )
    return TopicContent(
        text,
        [figure],
        [Table.formatted("Decoders over p and ratio", losses_by_decoder, columns, caption)],
        headline,
    )


RUNS = {
    "map": Run(
        run_map,
        full={"p": np.geomspace(1e-6, 0.5, 20).tolist(), "ratio": np.geomspace(0.02, 0.8, 12).tolist()},
        seconds=20,
    )
}
TOPICS = [Topic("map", ["map"], _show_map, claims=["C23", "C25"])]
