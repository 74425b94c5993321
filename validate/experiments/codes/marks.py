"""Trained models on the map of codes: at a dozen points, between the rug and the proved bound."""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from ....solvers.statistics import LEVEL, student
from ....theory.annotations import as_annotated
from ...runner.declarations import Figure, Run, Topic, TopicContent
from ...runner.findings import Criterion, post_hoc
from ...training import models_at
from ..drawing import finish_axes, plot_function
from .envelope import LABEL, envelope_figure, plot_envelope
from .lines import known_envelope
from .symmetry import CELLS, describe_ends, run_stored

# Of fewer seeds no interval is drawn.
ENOUGH_SEEDS = Criterion("seeds of an interval", ">=", post_hoc(3))

HIGHEST = 1.25

LOWEST = 2e-3


@as_annotated
def run_known(folder: str | Path = "") -> xr.Dataset:
    """Compute the least losses of known codes and the lower bound at each (p, ratio) of stored models.

    The models are trained autoencoders, read from the files in `folder`, by default the packaged ones. Known
    codes are those of `solvers.codes.envelope`, such as pairs and polygons, with the rug, the random code of
    Cowsik et al. (2024).

    Returns
    -------
    xarray.Dataset
        Of (point): ``p``, ``ratio``, and losses per feature: ``rug``; ``balanced``, the least of known codes
        with all features alike; ``envelope``, the least if weights of a code may differ by orders of
        magnitude; and ``lower_bound``.
    """
    trained = run_stored(folder=folder)
    p, ratio = np.unique(np.stack([trained["p"].values, trained["ratio"].values]), axis=1)
    balanced, free = (known_envelope(p, ratio, models=models) for models in ("balanced", "free"))
    columns = {"p": p, "ratio": ratio, "rug": free.rug, "balanced": balanced.loss}
    columns |= {"envelope": free.loss, "lower_bound": free.lower_bound}
    return xr.Dataset({name: ("point", values) for name, values in columns.items()})


@plot_function
def run_marks(trained: xr.Dataset, known: xr.Dataset) -> xr.Dataset:
    """Return losses of trained models beside the rug, the best known code and the lower bound.

    Parameters
    ----------
    trained, known : xarray.Dataset
        Losses of stored models, from `run_stored`, and of known codes at their (p, ratio), from `run_known`.

    Returns
    -------
    xarray.Dataset
        Losses are in units of the rug's at the exact ratio of the models, whose n_hidden is whole. Of
        (point): ``p`` and ``ratio``. Of (point, n_features): the least losses of known codes, ``balanced``
        (all features alike) and ``envelope`` (any weights), the ``lower_bound``, and the number of ``seeds``.
        Of (end, point, n_features), with an end for each phase of training: ``mean`` of the trained losses
        over seeds, and ``half``, half the width of Student's interval. Both are nan where fewer than three
        seeds remain; models that a phase broke are left out (`mask_broken_phases`).
    """
    sizes = np.unique(trained["n_features"].values)
    shape = (trained.sizes["end"], len(CELLS), sizes.size)
    mean, half = np.full(shape, np.nan), np.full(shape, np.nan)
    least = {name: np.full(shape[1:], np.nan) for name in ("balanced", "envelope", "lower_bound")}
    seeds = np.zeros(shape[1:], dtype=np.int32)
    solved = list(zip(known["p"].values, known["ratio"].values, strict=True))
    for i, j in np.ndindex(shape[1:]):
        models = trained.isel(model=models_at(trained, *CELLS[i], int(sizes[j])))
        seeds[i, j] = models.sizes["model"]
        if not ENOUGH_SEEDS.satisfied(seeds[i, j]):
            continue
        point = (float(models["p"][0]), float(models["ratio"][0]))
        if point not in solved:
            raise ValueError(f"`known` must hold all points of `trained`; (p, ratio) = {point} is missing.")
        rug = float(models["optimum"][0])
        for k, losses in enumerate(models["loss"].transpose("end", "model").values / rug):
            finite_losses = losses[np.isfinite(losses)]
            if ENOUGH_SEEDS.satisfied(finite_losses.size):
                mean[k, i, j], half[k, i, j] = student(finite_losses)
        for name, values in least.items():
            values[i, j] = known[name].values[solved.index(point)] / rug
    axes = ("end", "point", "n_features")
    p, ratio = zip(*CELLS, strict=True)
    ds = xr.Dataset({name: (axes[1:], values) for name, values in {"seeds": seeds, **least}.items()})
    ds = ds.assign(p=("point", list(p)), ratio=("point", list(ratio)), mean=(axes, mean), half=(axes, half))
    return ds.assign_coords(end=trained["end"], n_features=sizes).assign_attrs(level=LEVEL)


@plot_function
def plot_marks(ds: xr.Dataset, ax: Axes) -> Axes:
    """Draw losses of trained models beside the best known codes and the lower bound; return `ax`.

    `ds` is from `run_marks`. Each (p, ratio) has a group of columns, by rising n_features: points with
    Student's intervals for the trained models at each end of training (filled at the last), lines for the
    best known codes, and a bar up to the lower bound. Losses are in units of the rug's.
    """
    positions = np.arange(ds.sizes["point"])
    width = 0.8 / ds.sizes["n_features"]
    ax.axhline(1.0, color="#D55E00", linewidth=1, label="the rug")
    for j, n in enumerate(ds["n_features"].values):
        at_size, colour = ds.sel(n_features=n), f"C{j + 1}"
        x = positions + (j + 0.5) * width - 0.4
        label = None if j else "excluded by the proved bound"
        ax.bar(x, at_size["lower_bound"], width, color="0.8", label=label, linewidth=0)
        for name, style, text in (("balanced", "-", "balanced"), ("envelope", ":", "any")):
            line: dict[str, Any] = {"linestyles": style, "lw": 1.2}
            line["label"] = None if j else f"best known code, {text} weights"
            ax.hlines(at_size[name], x - width / 2, x + width / 2, "k", **line)
        ends = reversed(range(ds.sizes["end"]))
        for end, mean, half in zip(ends, at_size["mean"], at_size["half"], strict=True):
            marker_style: dict[str, Any] = {"fmt": "o", "color": colour, "markersize": 3.4, "zorder": 3 - end}
            if end == 0:  # the last one
                marker_style |= {"linewidth": 1, "label": f"trained, n_features = {n}"}
            else:
                marker_style |= {"linewidth": 0.5, "markerfacecolor": "white"}
            ax.errorbar(x, mean, half, **marker_style)
    ax.set_xticks(positions, [f"{ratio:g}" for ratio in ds["ratio"].values])
    ps = ds["p"].values
    for p in np.unique(ps):
        at_p = positions[ps == p]
        ax.text(at_p.mean(), 0.99, f"p = {p:g}", ha="center", va="top", transform=ax.get_xaxis_transform())
        if at_p[0]:
            ax.axvline(at_p[0] - 0.5, color="0.6", linewidth=0.6)
    ax.set(xlim=(-0.5, positions[-1] + 0.5), ylim=(0, HIGHEST))
    ax.grid(False, axis="x")
    above = {"ncols": 2, "loc": "lower center", "bbox_to_anchor": (0.5, 1.0)}
    return finish_axes(ax, above, xlabel="ratio n_hidden/n_features", ylabel="loss / loss of the rug")


@plot_function
def plot_map(plane: xr.Dataset, marks: xr.Dataset, ax: Axes) -> Axes:
    """Draw the map of the best known balanced codes and the points at which models were trained.

    `plane` is from `run_envelope`, `marks` from `run_marks`. Each point shows by how many per cent the
    largest trained models exceed the best known balanced code: mean loss at the end of training, with
    Student's interval.
    """
    points = list(zip(marks["p"].values, marks["ratio"].values, strict=True))
    plot_envelope(plane.sel(p=slice(LOWEST, None)), ax, taken=points)
    for point, xy in enumerate(points):
        mark = marks.isel(end=-1, point=point)
        trained_sizes = np.flatnonzero(np.isfinite(mark["mean"].values))
        if trained_sizes.size == 0:
            continue
        largest = mark.isel(n_features=trained_sizes[-1])
        unit = 100.0 / float(largest["balanced"])
        text = f"{unit * float(largest['mean']):.0f}±{unit * float(largest['half']):.1g}"
        ax.plot(*xy, "o", color="black", markersize=3.5)
        ax.annotate(text, xy, (0, 4), textcoords="offset points", ha="center", fontsize=7.5, bbox=LABEL)
    return finish_axes(ax, None, title="best balanced code; trained models in % of it")


@plot_function
def map_figure(plane: xr.Dataset, marks: xr.Dataset) -> Figure:
    """Return a figure of two panels: the map of codes with the trained models' points, and their losses.

    `plane` is from `run_envelope` (codes over (p, ratio)), `marks` from `run_marks` (trained models).
    """
    sizes = ", ".join(str(n) for n in marks["n_features"].values)
    return Figure(
        "map",
        "Trained models between the rug and the proved bound",
        "Top: the code, or mixture of two, with the least loss among known ones whose features are all "
        "alike, and contours of its loss over the rug's; at the dots the mean loss of converged models of "
        f"the largest size trained, in per cent of that code's. Bottom: models of {sizes} features, filled "
        f"at convergence, open at the stopping rule of the source (cut at {HIGHEST:g}), "
        f"{marks.attrs['level']:.0%} Student intervals over seeds; short lines are the best known codes, "
        "dotted where weights may differ by orders of magnitude; grey is below what any model can reach.",
        marks,
        (partial(plot_map, plane), plot_marks),
        columns=1,
        size=(8.0, 4.2),
    )


def _show_map(trained: xr.Dataset, known: xr.Dataset, plane: xr.Dataset) -> TopicContent:
    """Return text and figures of the report's part "map": which codes are best over (p, ratio).

    One figure shows the map with the trained models' losses at their points, the other the maps for three
    kinds of weights and the bracket of losses at ratio 1/4. `trained` is from `run_stored` (stored models),
    `known` of `run_known` (losses of known codes at their points), `plane` of `run_envelope` (the map).
    """
    marks = run_marks(trained, known)
    half = marks["mean"].isel(end=-1, point=np.isclose(marks["ratio"], 0.5)).values
    return TopicContent(
        f"{describe_ends(trained)}. Losses of trained models are means over {trained.attrs['samples']} fresh "
        "samples; those of codes, of the rug and of the bound are computed.",
        [map_figure(plane, marks), envelope_figure(plane)],
        headline=f"Trained for {trained.attrs['steps']} steps more than the source's rule asks for, models "
        f"with half as many neurons as features have {np.nanmin(half):.0%} to {np.nanmax(half):.0%} of the "
        "Persian rug's loss: they keep features in pairs.",
    )


RUNS = {"known": Run(run_known, seconds=2)}
TOPICS = [Topic("map", ["symmetry", "known", "envelope"], _show_map, claims=["C27"])]
