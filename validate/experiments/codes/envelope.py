"""The map of structured codes: which of them, or of their mixtures, beats the Persian rug where."""

from collections.abc import Sequence
from functools import partial

import numpy as np
import xarray as xr
from matplotlib import colors
from matplotlib.axes import Axes

from ....solvers.codes import MODELS
from ....theory import validation
from ....theory.annotations import as_annotated
from ....theory.codes import CODES
from ...runner.declarations import Figure, Run
from ..drawing import deepest_point, finish_axes, plot_function
from .lines import known_envelope

# Codes are drawn by kind: names beginning with the same word.
KINDS = {name: name for name in ("dropped", "cut polygon", "priority", "rug")}
KINDS |= {"identity": "kept exactly", "pair": "pairs", "skew pair": "pairs"}
KINDS |= {"triangle": "simplices", "tetrahedron": "simplices"}

OTHER = "graph code"

# What wins, in words, with a colour (Okabe and Ito, and paler ones of the same).
WINNERS = {
    "rug": "#D55E00",
    "dropped + rug": "#F0B58A",
    "dropped + pairs": "#CFE8F7",
    "dropped + graph code": "#F3E6A2",
    "dropped + cut polygon": "#E7C7DC",
    "dropped + priority": "#D9CCE9",
    "pairs": "#56B4E9",
    "pairs + kept exactly": "#0072B2",
    "graph code": "#E69F00",
    "cut polygon": "#CC79A7",
    "priority": "#9467BD",
    "graph code + pairs": "#009E73",
    "graph code + rug": "#F4A582",
    "cut polygon + graph code": "#B58900",
    "simplices": "#88CCAA",
    "rug + simplices": "#E8A090",
    "pairs + rug": "#F7B6A0",
    "pairs + priority": "#7FA8D9",
    "dropped + simplices": "#DDEEDD",
    "pairs + simplices": "#66BBBB",
    "other": "#BBBBBB",
}

# Behind text on the coloured plane; outlined letters would be most of the file.
LABEL = {"facecolor": "white", "alpha": 0.75, "linewidth": 0, "pad": 1.0}

LEVELS = (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.99)


def _winner_name(first: str, second: str) -> str:
    """Return the name in `WINNERS` of a mixture of the codes `first` and `second`, or "other".

    Names are kinds of code such as "pairs", "rug" or "dropped + pairs", with "dropped" first; the order of
    the arguments does not matter.
    """
    kinds = {KINDS.get(name.removesuffix(" shifted"), OTHER) for name in (first, second)}
    named = sorted(kinds, key=lambda kind: (kind != "dropped", kind == "kept exactly", kind))
    name = " + ".join(named)
    return name if name in WINNERS else "other"


@as_annotated
def run_envelope(
    size: int = 32, *, lowest: float = 1e-4, highest: float = 0.9, codes: Sequence[str] = CODES
) -> xr.Dataset:
    """Compute the least loss of structured codes, dropping, the rug and their mixtures over (p, ratio).

    p is the probability that a feature is on, and ratio = n_hidden / n_features. Structured codes are those
    of `solvers.codes.envelope`, such as antipodal pairs; the rug is the random code of Cowsik et al. (2024).

    Parameters
    ----------
    size : int, optional
        Points along each axis, at least 2: p in equal steps of its logarithm, ratios from 1/(2 size) on in
        equal steps.
    lowest, highest : float, optional
        Least and largest p.
    codes : sequence of str, optional
        Codes to compare, such as "pair" or "pentagon": names in `theory.codes.CODES`.

    Returns
    -------
    xarray.Dataset
        Of (models, p, ratio), where models are "tied" (W_out = W_in'), "balanced" (other decoders too, with
        all features of a code alike) or "free" (weights of one code may also differ by orders of magnitude):
        the least ``loss`` per feature, and ``structured``, the least without the rug; ``first`` and
        ``second``, the two codes of the best mixture, as indices into the names in the attributes
        ``names_tied``, ``names_balanced`` and ``names_free``; ``share``, the fraction of the features in the
        second one; ``winner``, the mixture as an index into `WINNERS`. Of (p, ratio): losses of the ``rug``
        and of the best affine model (``linear``), and a proved ``lower_bound``. Losses are exact, with three
        exceptions: the rug's is the limit of many features, that of cut polygons a bound, that of priority
        codes an infimum.

    Examples
    --------
    >>> ds = run_envelope(2, lowest=0.01, highest=0.1, codes=["pair"])
    >>> bool((ds["loss"] >= ds["lower_bound"]).all())
    True
    """
    size = validation.integer("size", size, 2)
    low = validation.number("lowest", lowest, 1e-6, 1, brackets="[)")
    high = validation.number("highest", highest, low, 1, brackets="()")
    p, ratio = np.geomspace(low, high, size), (np.arange(size) + 0.5) / size
    datasets, all_names = [], {}
    for models in MODELS:
        envelope = known_envelope(p[:, None], ratio, codes, models=models)
        kind = np.array(
            [[list(WINNERS).index(_winner_name(a, b)) for b in envelope.names] for a in envelope.names]
        )
        columns = {name: getattr(envelope, name) for name in ("loss", "structured", "share")}
        first, second = envelope.first.astype(np.int8), envelope.second.astype(np.int8)
        columns |= {"first": first, "second": second, "winner": kind[first, second].astype(np.int8)}
        datasets.append(xr.Dataset({name: (("p", "ratio"), values) for name, values in columns.items()}))
        all_names[f"names_{models}"] = ", ".join(envelope.names)
        common = {"rug": envelope.rug, "linear": envelope.linear, "lower_bound": envelope.lower_bound}
    ds = xr.concat(datasets, "models").assign_coords(models=list(MODELS), p=p, ratio=ratio)
    ds = ds.assign({name: (("p", "ratio"), values) for name, values in common.items()})
    return ds.assign_attrs(winners=", ".join(WINNERS), **all_names)


def _name_regions(winner: np.ndarray, ds: xr.Dataset, ax: Axes, taken: Sequence[tuple[float, float]]) -> None:
    """Write each code's name where the region in which it is best is widest, away from points `taken`.

    `winner` (p, ratio) holds indices into `WINNERS` of the best code at each point of `ds`, from
    `run_envelope`; `taken` are points (p, ratio) whose surroundings stay free.
    """
    log_p, ratio = np.log(ds["p"].values), ds["ratio"].values
    free = np.ones(winner.shape, dtype=bool)
    for p, r in taken:
        free[np.argmin(np.abs(log_p - np.log(p))), np.argmin(np.abs(ratio - r))] = False
    for index in np.unique(winner):
        i, j, depth = deepest_point(free & (winner == index))
        if depth >= 0.04 * winner.shape[0]:
            text = list(WINNERS)[index].replace(" + ", "\n+ ")
            point = (float(ds["p"][i]), float(ds["ratio"][j]))
            side = "left" if i < 0.15 * winner.shape[0] else "center"
            ax.text(*point, text, ha=side, va="center", fontsize=7, bbox=LABEL)


@plot_function
def plot_envelope(
    ds: xr.Dataset, ax: Axes, models: str = "balanced", *, taken: Sequence[tuple[float, float]] = ()
) -> Axes:
    """Draw which code has the least loss at each (p, ratio), with contours of its loss over the rug's.

    `ds` is from `run_envelope`. `models` are kinds of weights: "tied", "balanced" (other decoders too) or
    "free" (features of a code may differ). Names of regions keep away from the points `taken`, (p, ratio).
    """
    known = tuple(str(name) for name in ds["models"].values)
    plane = ds.sel(models=validation.choice("models", models, known))
    winner = plane["winner"].values
    colour = np.array([colors.to_rgb(name) for name in WINNERS.values()])[winner]
    ax.set_xscale("log")  # before labels are placed along contours
    ax.pcolormesh(plane["p"], plane["ratio"], colour.transpose(1, 0, 2), shading="nearest", rasterized=True)
    share = (plane["loss"] / plane["rug"]).values.T
    lines = ax.contour(plane["p"], plane["ratio"], share, levels=LEVELS, colors="black", linewidths=0.7)
    labels = ax.clabel(lines, fontsize=6, fmt="%g")
    _name_regions(winner, plane, ax, [*taken, *(label.get_position() for label in labels)])
    ax.grid(False)
    ax.set(title=f"{models} models")
    return finish_axes(ax, None, xlabel="feature probability p", ylabel="ratio n_hidden/n_features")


@plot_function
def plot_bracket(ds: xr.Dataset, ax: Axes, ratio: float = 0.25) -> Axes:
    """Draw losses of rug, best known codes and lower bound, each times 3/p, against p, at one ratio.

    The ratio is the grid's nearest to `ratio`; `ds` is from `run_envelope`.
    """
    line = ds.sel(ratio=validation.number("ratio", ratio, 0, 1), method="nearest")
    unit = line["p"] / 3.0
    ax.plot(line["p"], line["rug"] / unit, color="#D55E00", label="rug")
    styles = {"tied": ("#56B4E9", ":"), "balanced": ("#0072B2", "--"), "free": ("#9467BD", "-")}
    for models in line["models"].values:
        colour, style = styles[str(models)]
        loss = line["loss"].sel(models=models) / unit
        ax.plot(line["p"], loss, color=colour, linestyle=style, label=f"{models} codes")
    ax.plot(line["p"], line["lower_bound"] / unit, color="0.4", label="proved lower bound")
    ax.set(xscale="log", yscale="log", title=f"ratio = {float(line['ratio']):.3g}")
    return finish_axes(ax, xlabel="feature probability p", ylabel="loss / (p/3)")


@plot_function
def envelope_figure(ds: xr.Dataset) -> Figure:
    """Return the map for each kind of model, and the bracket at ratio 1/4; `ds` is from `run_envelope`."""
    return Figure(
        "envelope",
        "Where structured codes beat the Persian rug",
        "Colours: the code, or mixture of two, with the least loss among those that are known. Contours: its "
        "loss over the rug's. Tied models are W W' only; balanced ones have a free decoder and features that "
        "are all alike; free ones also weights that differ by orders of magnitude. Last panel: all of them "
        "and the lower bound that holds for every model.",
        ds,
        (*(partial(plot_envelope, models=str(name)) for name in ds["models"].values), plot_bracket),
        size=(4.8, 3.6),
    )


RUNS = {"envelope": Run(run_envelope, {"size": 64}, {"size": 64}, seconds=2)}
