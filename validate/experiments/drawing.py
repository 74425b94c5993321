"""Figures: theory beside experiment in one look, and vector graphics that can stand in one HTML page."""

import functools
import html
import inspect
import io
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import cycle
from typing import Any, ParamSpec, TypeVar

import numpy as np
import numpy.typing as npt
import xarray as xr
from matplotlib import rc_context, rcParams
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, to_hex, to_rgb
from matplotlib.figure import Figure as Canvas
from matplotlib.legend import Legend
from scipy.ndimage import distance_transform_edt

from ...solvers.statistics import LEVEL, Estimate, mean, student
from ...theory.annotations import as_annotated, callable_object
from ...theory.validation import choice, doubles, numbers_or_repeat, short_repr
from ..runner.declarations import Figure

__all__ = [
    "DIVERGING", "LEGEND_ABOVE", "deepest_point", "draw_estimates", "draw_interference", "draw_means",
    "finish_axes", "plot_function", "plot_theory_vs_experiment", "size_axis", "svg", "with_prefix",
]  # fmt: skip

# Markers in a group, each with the same style: it can stand once, at the group.
_ALIKE = re.compile(r'<g([^>]*)>((?:<use [^>]*? style="([^"]*)"/>)(?:<use [^>]*? style="\3"/>)+)</g>')

DOTS = 16  # runs that are drawn one by one: enough to see their spread, few enough for a small file

# A legend above the axes hides no point.
LEGEND_ABOVE = {
    "loc": "lower center", "bbox_to_anchor": (0.5, 1.0), "ncols": 2, "fontsize": 8, "frameon": False,
}  # fmt: skip

# Experiments beside several theories are in the colour of none.
DATA = "black"

# Okabe and Ito's colours stay apart for the common kinds of colour blindness; black comes first, for theory.
_COLOURS = ["000000", "0072B2", "D55E00", "009E73", "CC79A7", "E69F00", "56B4E9"]
# Of all that has a sign: blue positive, orange negative, white zero.
DIVERGING = LinearSegmentedColormap.from_list("interference", ["#D55E00", "#FFFFFF", "#0072B2"])
STYLE: dict[Any, Any] = {
    "axes.prop_cycle": f"cycler('color', {_COLOURS})",
    "axes.grid": True,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "figure.dpi": 100,
    "font.size": 9,
    "grid.alpha": 0.25,
    "legend.frameon": False,
    "legend.fontsize": 8,
    # Text as outlines looks the same on every machine; fixed salt, so that the same data give the same file.
    "svg.fonttype": "path",
    "svg.hashsalt": "superposition",
}


P = ParamSpec("P")
R = TypeVar("R")


def plot_function(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate a plotting function: ValueError if a dataset lacks a variable that the function reads.

    Arguments are also checked by the function's annotations.

    Examples
    --------
    >>> @plot_function
    ... def plot_losses(ds: xr.Dataset, ax: Axes) -> Axes:
    ...     ax.plot(ds["loss"])
    ...     return ax
    >>> plot_losses(xr.Dataset({"p": 0.1}), Canvas().subplots())
    Traceback (most recent call last):
        ...
    ValueError: `ds` must be a dataset with 'loss'; got one of p.
    """
    callable_object("function", function)
    checked = as_annotated(function)

    @functools.wraps(function)
    def draw_checked(*args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function; name the missing variable if a dataset lacks one."""
        try:
            return checked(*args, **kwargs)
        except (AttributeError, KeyError, ValueError) as error:
            arguments = inspect.signature(function).bind(*args, **kwargs).arguments.items()
            sets = {name: value for name, value in arguments if isinstance(value, xr.Dataset)}
            names = {str(name) for ds in sets.values() for name in (*ds.variables, *ds.dims, *ds.attrs)}
            lacking = _LACKING.search(str(error.args[0]))
            if not sets or lacking is None or lacking[1] in names:  # another fault
                raise
            which = " or ".join(f"`{name}`" for name in sets)
            names_text = ", ".join(sorted(names)) or "nothing"
            raise ValueError(
                f"{which} must be a dataset with {lacking[1]!r}; got one of {names_text}."
            ) from error

    return draw_checked


# How xarray, and dictionaries such as those of sizes and attributes, name what is not there.
_LACKING = re.compile(
    r"(?:No variable named |no attribute |Dimensions \{|^)'?(\w+)'?(?:$|[.}]| is not a valid dim)"
)


@as_annotated
def draw_interference(ax: Axes, W_out: npt.ArrayLike, W_in: npt.ArrayLike, **colorbar: Any) -> Axes:
    """Draw the matrix W_out W_in, positive entries blue, negative ones orange, with a colour bar.

    `colorbar` are Matplotlib's options for the colour bar.
    """
    M = np.asarray(W_out) @ np.asarray(W_in)
    top = float(np.abs(M).max()) or 1.0
    picture = ax.imshow(M, cmap=DIVERGING, vmin=-top, vmax=top)
    ax.figure.colorbar(picture, ax=ax, **colorbar)
    ax.grid(False)
    return ax


@as_annotated
def size_axis(ax: Axes, points: npt.ArrayLike, **settings: Any) -> None:
    """Make the horizontal axis logarithmic, with ticks at the values `points` only.

    `settings` are further ones for Matplotlib's `Axes.set`; without an ``xlabel`` the axis is labelled
    n_features.
    """
    ticks = np.unique(points)
    ax.set(**{"xscale": "log", "xlabel": "n_features", **settings})
    ax.set_xticks(ticks, [f"{x:g}" for x in ticks])
    ax.minorticks_off()


@as_annotated
def finish_axes(ax: Axes, legend: str | Mapping[str, Any] | None = "best", **settings: Any) -> Axes:
    """Set properties of the axes and add a legend; return the axes.

    `settings` are those of Matplotlib's `Axes.set`; `legend` is its place, its options, or None for none.
    """
    ax.set(**settings)
    if isinstance(legend, str):
        choice("legend", legend, tuple(Legend.codes))
    if legend is not None:
        ax.legend(**({"loc": legend} if isinstance(legend, str) else legend))
    return ax


@as_annotated
def deepest_point(region: npt.NDArray[np.bool_]) -> tuple[int, int, float]:
    """Return (row, column) of the point of a region farthest from its border, and its distance to the border.

    `region` is a matrix, True inside; the distance is in steps of the grid, to the nearest point outside.

    Examples
    --------
    >>> deepest_point(np.array([[True, True, True, False]] * 3))
    (1, 1, 2.0)
    """
    if region.ndim != 2 or region.size == 0 or region.dtype != np.bool_:
        raise ValueError(f"`region` must be a matrix of True and False; got {short_repr(region)}.")
    depth = distance_transform_edt(np.pad(region, 1))[1:-1, 1:-1]  # the edge of the grid is a border too
    i, j = np.unravel_index(np.argmax(depth), depth.shape)
    return int(i), int(j), float(depth[i, j])


@as_annotated
def plot_theory_vs_experiment(theory: Sequence[xr.DataArray], experiment: xr.DataArray, ax: Axes) -> Axes:
    """Draw predictions as lines, and runs as small dots with their mean and its Student interval.

    Runs are black, and each curve has a colour of its own.

    Parameters
    ----------
    theory : sequence of DataArray
        Curves, each over one dimension, with the attribute ``label`` for the legend.
    experiment : DataArray
        Over x and a dimension ``run`` or ``seed`` of independent runs, two or more. The first 16 runs have
        dots; mean and interval are of all runs.
    ax : Axes
        Axes to draw on. They get a legend; labels and scales stay as they are.

    Examples
    --------
    >>> x = [0.0, 1.0, 2.0]
    >>> law = xr.DataArray(x, {"x": x}, ["x"], attrs={"label": "law"})
    >>> runs = xr.DataArray([[0.1, 1.2, 2.1], [0.0, 0.8, 1.9]], {"x": x}, ["run", "x"])
    >>> len(plot_theory_vs_experiment([law], runs, Canvas().subplots()).lines)
    3
    """
    run_dim = next((str(name) for name in ("run", "seed") if name in experiment.dims), "")
    others = [str(name) for name in experiment.dims if name != run_dim]
    if not run_dim or len(others) != 1 or experiment.sizes[run_dim] < 2:
        rule = "over x and two or more of `run` or `seed`"
        raise ValueError(f"`experiment` must be {rule}; got {dict(experiment.sizes)}.")
    # The colours of the cycle in use that are no greys.
    colours = [to_hex(rcParam["color"]) for rcParam in rcParams["axes.prop_cycle"] if "color" in rcParam]
    colours = [colour for colour in colours if np.ptp(to_rgb(colour)) > 0.0] or ["tab:blue"]
    for curve, colour in zip(theory, cycle(colours), strict=False):
        if curve.ndim != 1:
            raise ValueError(f"`theory` must be curves over one dimension; got shape {curve.shape}.")
        ax.plot(curve[curve.dims[0]], curve, color=colour, label=curve.attrs.get("label", "theory"))
    x = experiment[others[0]]
    values = experiment.transpose(run_dim, others[0]).values.astype(float)
    dots = values[:DOTS]
    is_part = len(dots) < len(values)
    count = f"{len(dots)} of {len(values)}" if is_part else f"{len(values)}"
    # Dots of one run after the other: one line of markers makes the smallest file.
    x_values = np.tile(x.values, len(dots))
    ax.plot(x_values, dots.ravel(), ".", color=DATA, alpha=0.35, markersize=2.5, label=f"{count} {run_dim}s")
    middle, half = student(values, axis=0)
    label = f"mean of all, {LEVEL:.0%}" if is_part else f"their mean, {LEVEL:.0%} interval"
    ax.errorbar(x, middle, half, fmt="o", color=DATA, markersize=3, elinewidth=0.8, label=label)
    return finish_axes(ax)


@as_annotated
def draw_estimates(ax: Axes, x: npt.ArrayLike, estimates: Collection[Estimate], **style: Any) -> None:
    """Draw estimates at x as markers with their limits as bars; `style` has options of `Axes.errorbar`."""
    x = numbers_or_repeat("x", x)
    if x.size != len(estimates):
        raise ValueError(f"`estimates` must be one for each of {x.size} points `x`; got {len(estimates)}.")
    limits = [(estimate.value, estimate.low, estimate.high) for estimate in estimates]
    middle, low, high = np.reshape(limits, (-1, 3)).T
    # An exact limit may lie a rounding error inside the estimate itself.
    sides = np.maximum([middle - low, high - middle], 0)
    ax.errorbar(x, middle, sides, **{"fmt": "o", "capsize": 2, **style})


@as_annotated
def draw_means(ax: Axes, x: npt.ArrayLike, samples: Any, **style: Any) -> None:
    """Draw means of `samples` over runs, the last axis, with Student's intervals, at x.

    Points with one run are left out; `style` has options of `Axes.errorbar`.
    """
    rows = [row[np.isfinite(row)] for row in np.atleast_2d(doubles("samples", samples))]
    x = numbers_or_repeat("x", x)
    if len(rows) != x.size:
        raise ValueError(f"`samples` must have a row for each of {x.size} points `x`; got {len(rows)}.")
    has_interval = [row.size > 1 for row in rows]
    if any(has_interval):
        draw_estimates(ax, x[has_interval], [mean(row) for row in rows if row.size > 1], **style)


@as_annotated
def svg(figure: Figure) -> str:
    """Return a figure as an SVG element that can stand inside HTML."""
    panels = (figure.draw,) if callable(figure.draw) else tuple(figure.draw)
    columns = min(figure.columns, len(panels))
    lines = -(-len(panels) // columns)
    with rc_context(STYLE):
        canvas = Canvas(figsize=(figure.size[0] * columns, figure.size[1] * lines), layout="constrained")
        axes = canvas.subplots(lines, columns, squeeze=False).ravel()
        for panel, ax in zip(panels, axes, strict=False):
            if panel(figure.dataset, ax) is not ax:
                raise TypeError(f"`draw` of {figure.name!r} must return the axes that it was given.")
        for ax in axes[len(panels) :]:
            ax.remove()
        text = io.StringIO()
        canvas.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
    drawing = text.getvalue()[text.getvalue().index("<svg") :]
    drawing = re.sub(r"<metadata>.*?</metadata>", "", drawing, flags=re.DOTALL)
    # Blanks between elements, and digits below a hundredth of a point, are a quarter of a file.
    drawing = re.sub(r">\s+<", "><", drawing)
    pattern = r'(?<=\s)(?:d|x|y)="[^"]*"'
    drawing = re.sub(pattern, lambda match: re.sub(r"(\.\d\d)\d+", r"\1", match[0]), drawing)
    drawing = _ALIKE.sub(_merge_styles, drawing)
    return drawing.replace("<svg ", f'<svg role="img" aria-label="{html.escape(figure.title)}" ', 1)


def _merge_styles(group: re.Match[str]) -> str:
    """Return an SVG group whose marks share a style, with the style moved from the marks to the group.

    The subgroups of `group` are the group's attributes, its marks, and their style.
    """
    return f'<g{group[1]} style="{group[3]}">{group[2]}</g>'.replace(f' style="{group[3]}"/>', "/>")


@as_annotated
def with_prefix(drawing: str, prefix: str) -> str:
    """Return an SVG element with `prefix` before all its ids and links to them.

    Drawings with different prefixes can share an HTML page.

    Examples
    --------
    >>> with_prefix('<svg><path id="a"/><use href="#a"/></svg>', "x-")
    '<svg><path id="x-a"/><use href="#x-a"/></svg>'
    """
    return re.sub(r'(\bid="|href="#|url\(#)', lambda match: match[0] + prefix, drawing)
