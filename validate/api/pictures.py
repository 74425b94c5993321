"""Pictures of answers, in one style: a paper's column, safe for the colour-blind, data in neutral ink."""

import itertools
import textwrap
from typing import Any

import numpy as np
import xarray as xr
from matplotlib import colors, rc_context
from matplotlib.axes import Axes
from matplotlib.patheffects import withStroke
from matplotlib.ticker import FuncFormatter, NullFormatter

from ...theory import validation
from ..experiments.drawing import STYLE, deepest_point, draw_interference

__all__ = [
    "axes", "draw_audit", "draw_audited", "draw_columns", "draw_counts", "draw_losses", "draw_model",
    "draw_phases", "draw_sweep", "draw_training", "draw_widths", "encodings", "gram",
]  # fmt: skip

# Okabe and Ito's colours, apart for the common kinds of colour blindness. Your points are black.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#999999", "#F0E442")
# Losses beside a model's: variable, colour and label.
_REFERENCES = ("best_known", COLOURS[0], "best known"), ("lower_bound", COLOURS[2], "lower bound")
_OUTLINE = [withStroke(linewidth=2.5, foreground="white")]
_WIDTH, _WIDE, _HEIGHT = 4.6, 6.4, 3.4  # of axes, in inches
# Characters of a title of 8 points above axes of that width.
_TITLE_COLUMNS = 60
# Features whose names fit beside a matrix.
_NAMED_TICKS = 40


def axes(ax: Any = None, wide: bool = False) -> Axes:
    """Return `ax`, or if `ax` is None new axes in the project's style, 6.4 inches wide if `wide`, else 4.6.

    Objects other than Matplotlib axes raise a ValueError.
    """
    if ax is not None:
        if not isinstance(ax, Axes):
            raise ValueError(f"`ax` must be Matplotlib axes; got {validation.short_repr(ax)}.")
        return ax
    import matplotlib.pyplot as plt

    with rc_context(STYLE):
        figure = plt.figure(figsize=(_WIDE if wide else _WIDTH, _HEIGHT), layout="constrained")
        return figure.add_subplot()


def _format_log_ticks(ax: Axes, *names: str) -> None:
    """Format the ticks of logarithmic axes as plain numbers if the axis spans less than a factor of 100.

    `names` are those of the axes, "x" or "y".
    """
    for name in names:
        axis = getattr(ax, f"{name}axis")
        low, high = sorted(axis.get_view_interval())
        if low > 0.0 and high < 100.0 * low:
            axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
            axis.set_minor_formatter(NullFormatter())


def _spans_factor(values: Any, factor: float) -> bool:
    """Return whether values are positive and the largest is more than `factor` times the least."""
    return bool(values.dtype.kind in "fiu" and np.all(values > 0.0) and values.max() > factor * values.min())


def _use_log_axes(ax: Axes, x: Any, y: Any) -> None:
    """Make the axes logarithmic along which the values x or y are positive and span a factor of 20."""
    for values, scale in ((x, ax.set_xscale), (y, ax.set_yscale)):
        if _spans_factor(values, 20.0):
            scale("log")


def draw_losses(data: xr.Dataset, ax: Axes) -> Axes:
    """Draw importance times squared error of each feature as bars, with their mean as a line; return `ax`.

    `data` is the dataset of an answer of `loss`: per_feature, importance and loss.
    """
    worth = (data["importance"] * data["per_feature"]).values
    ax.bar(np.arange(worth.size), worth, color=COLOURS[0], width=0.8)
    ax.axhline(float(data["loss"]), color="black", linewidth=1.0)
    alignment: Any = {"xycoords": ("axes fraction", "data"), "ha": "right", "va": "bottom"}
    ax.annotate("mean", (0.99, float(data["loss"])), path_effects=_OUTLINE, **alignment)
    ax.set(xlabel="feature", ylabel="importance × squared error")
    ax.grid(False, axis="x")
    return ax


def encodings(W: Any, ax: Axes, numbers: bool = True) -> Axes:
    """Draw encodings W (n_features, 2) as lines from the origin, one colour a feature; return `ax`.

    With `numbers` each has the feature's index at its end.
    """
    W = np.asarray(W)
    reach = 1.15 * max(float(np.abs(W).max()), 1e-12)
    for i, (u, v) in enumerate(W):
        colour = COLOURS[i % 7]
        ax.plot([0.0, u], [0.0, v], "-", color=colour, linewidth=1.6, solid_capstyle="round")
        ax.plot([u], [v], "o", color=colour, markersize=4)
        if numbers and np.hypot(u, v) > 0.05 * reach:
            alignment: Any = {"ha": "left" if u >= 0 else "right", "va": "bottom" if v >= 0 else "top"}
            off = 4 * np.sign(u), 4 * np.sign(v)
            ax.annotate(str(i), (u, v), xytext=off, textcoords="offset points", fontsize=7, **alignment)
    ax.set(xlim=(-reach, reach), ylim=(-reach, reach), xticks=[], yticks=[])
    ax.set_aspect("equal")
    ax.grid(False)
    return ax


def gram(W_out: Any, W_in: Any, ax: Axes) -> Axes:
    """Draw the matrix W_out W_in: blue positive, orange negative, white zero; return `ax`.

    W_out has a row, W_in a column for each feature.
    """
    draw_interference(ax, W_out, W_in, label="W_out W_in").set(xlabel="input feature", ylabel="output")
    return ax


def draw_model(data: xr.Dataset, ax: Axes) -> Axes:
    """Draw a model's encodings on two neurons, else its matrix W_out W_in; return `ax`.

    `data` has W and W_out (feature, hidden), loss and the attribute "certainty", as in an answer of `best`.
    """
    if data.sizes["hidden"] == 2:
        encodings(data["W"].values, ax)
        ax.set(xlabel="neuron 0", ylabel="neuron 1")
    else:
        gram(data["W_out"].values, data["W"].values.T, ax)
        if "feature" in data.coords and data.sizes["feature"] <= _NAMED_TICKS:
            ticks = np.arange(data.sizes["feature"])
            ax.set_xticks(ticks, data["feature"].values, rotation=90, fontsize=5)
            ax.set_yticks(ticks, data["feature"].values, fontsize=5)
    title = f"loss {float(data['loss']):.4g}, {data.attrs['certainty']}"
    ax.set_title(textwrap.fill(title, _TITLE_COLUMNS), fontsize=8)
    return ax


def draw_counts(data: xr.Dataset, ax: Axes) -> Axes:
    """Draw the number of features or neurons that each bound, construction or limit allows; return `ax`.

    `data` is the dataset of an answer of `how_many`, with a bound or model in each row: ``model`` (its name),
    ``kind``, ``n_features`` and ``n_hidden``; the attribute "counted" says which of these two is drawn.
    """
    column = data.attrs["counted"]
    kinds = list(dict.fromkeys(data["kind"].values.tolist()))
    heights = np.arange(data.sizes["row"])[::-1]
    for height, count, kind, what in zip(
        heights, data[column].values, data["kind"].values, data["model"].values, strict=True
    ):
        if np.isfinite(count):
            ax.plot([count], [height], "o", color=COLOURS[kinds.index(kind)], markersize=5)
            ax.annotate(f"{count:g} {what}", (count, height), xytext=(0, 4), textcoords="offset points",
                        ha="center", va="bottom", fontsize=6)  # fmt: skip
    for k, kind in enumerate(kinds):
        ax.plot([], [], "o", color=COLOURS[k], label=kind)
    words = {"n_features": "features", "n_hidden": "hidden neurons"}
    ax.set(xlabel=words[column], yticks=[])
    ax.set_ylim(-0.7, heights.size)
    ax.margins(x=0.35)
    ax.legend(loc="lower right", fontsize=6)
    return ax


def draw_audit(data: xr.Dataset, ax: Axes) -> Axes:
    """Draw the loss of each model beside the best known loss and the lower bound; return `ax`.

    `data` is the dataset of an answer of `audit` on several models: loss, best_known and lower_bound over
    ``instance``.
    """
    x = np.arange(data.sizes["instance"])
    ax.plot(x, data["loss"], "o", color="black", label="models", markersize=5)
    for name, colour, label in _REFERENCES:
        if np.any(data[name] > 0.0):
            ax.plot(x, data[name], "_", label=label, color=colour, markersize=22, markeredgewidth=2)
    ax.set(yscale="log", ylabel="loss per feature", xlabel="instance")
    ax.set_xticks(x, data["instance"].values)
    ax.set_xlim(-0.6, x.size - 0.4)
    _format_log_ticks(ax, "y")
    ax.legend(loc="best")
    return ax


def draw_audited(data: xr.Dataset, ax: Axes) -> Axes:
    """Draw each feature's loss in one audited model beside the best known one's; return `ax`.

    `data` is the dataset of the model's audit (`audit.page.data_of`): over ``feature`` importance and the
    squared errors of both models, and W_out and W_in. If the figure has no other axes, axes are added for the
    model's encodings on two neurons, or else for its matrix W_out W_in.
    """
    from ..audit.page import plot_by_feature

    plot_by_feature(data, ax)
    if ax.figure.axes == [ax] and ax.get_subplotspec() is not None:
        grid = ax.figure.add_gridspec(1, 2)
        ax.set_subplotspec(grid[0])
        beside = ax.figure.add_subplot(grid[1])
        if data.sizes["neuron"] == 2:
            encodings(data["W_in"].values.T, beside).set(xlabel="neuron 0", ylabel="neuron 1")
        else:
            gram(data["W_out"].values, data["W_in"].values, beside)
    return ax


def draw_training(data: xr.Dataset, ax: Axes) -> Axes:
    """Draw the loss of a model in training over steps, with the best known loss and the bound; return `ax`.

    `data` has loss, best_known and lower_bound over ``step``, as the dataset of a `TrainingLog`.
    """
    ax.plot(data["step"], data["loss"], "o-", color="black", markersize=3, label="this model")
    for name, colour, label in _REFERENCES:
        if float(data[name][-1]) > 0.0:
            ax.axhline(float(data[name][-1]), color=colour, label=label)
    ax.set(yscale="log", xlabel="step", ylabel="loss per feature")
    ax.set_xscale("symlog", linthresh=1.0)  # there is a step 0
    ax.set_xlim(left=-0.3)
    _format_log_ticks(ax, "y")
    ax.legend(loc="best")
    return ax


def draw_columns(data: xr.Dataset, ax: Axes, x: str | None = None, y: str | None = None) -> Axes:
    """Draw column `y` of a prediction over its parameter `x`; return `ax`.

    `data` has a flat variable for each column, as in the answer of `predict` on a phenomenon. By default `x`
    is the first column that varies, `y` the loss or else the last one that varies.
    """
    names = list(data.data_vars)
    moving = [name for name in names if data[name].dtype.kind in "fiu" and np.unique(data[name]).size > 1]
    across = x or (moving[0] if moving else names[0])
    wanted = ["loss", *reversed(moving)]
    up = y or next((name for name in wanted if name in moving and name != across), names[-1])
    for name in (across, up):
        validation.choice("x", name, tuple(map(str, names)))
    order = np.argsort(data[across].values)
    ax.plot(data[across].values[order], data[up].values[order], "o-", color="black", markersize=4)
    _use_log_axes(ax, data[across].values, data[up].values)
    ax.set(xlabel=across, ylabel=up)
    return ax


def draw_sweep(data: xr.Dataset, ax: Axes, x: str | None = None, y: str | None = None) -> Axes:
    """Draw result `y` over axis `x` of a sweep, a line for each point of the other axes; return `ax`.

    `data` is the sweep's dataset over the axes of its grid. By default `x` is its first axis of numbers, and
    `y` the loss or else the first result. Results without a number at each point raise a ValueError.
    """
    axes_of = [str(name) for name in data.coords if name in data.dims]
    scalars = [
        str(name) for name, variable in data.data_vars.items()
        if set(map(str, variable.dims)) <= set(axes_of) and variable.dtype.kind in "fiu"
        and not str(name).startswith("point_")
    ]  # fmt: skip
    grid = [name for name in axes_of if any(name in data[scalar].dims for scalar in scalars)]
    if not scalars or not grid:
        raise ValueError(f"`y` must be one number at each point; got none among {', '.join(map(str, data))}.")
    numeric = [name for name in grid if data[name].dtype.kind in "fiu" and data.sizes[name] > 1] or grid
    across = validation.choice("x", x or numeric[0], tuple(grid))
    up = validation.choice("y", y or ("loss" if "loss" in scalars else scalars[0]), tuple(scalars))
    others = [name for name in data[up].dims if name != across]
    lines = data[up].transpose(across, *others).values.reshape(data.sizes[across], -1)
    points = itertools.product(*(data[name].values for name in others))
    names = [
        ", ".join(f"{name} {_format_number(at)}" for name, at in zip(others, point, strict=True))
        for point in points
    ]
    at, ends = data[across].values, []
    for k, (name, values) in enumerate(zip(names, lines.T, strict=True)):
        colour = "black" if len(names) == 1 else COLOURS[k % 7]
        ax.plot(at, values, "o-", color=colour, markersize=4, label=name)
        finite = values[np.isfinite(values)]
        if finite.size and len(names) > 1:
            ends.append((float(finite[-1]), name, colour))
    _use_log_axes(ax, at, lines[np.isfinite(lines)])
    ax.set(xlabel=across, ylabel=up)
    if len(names) <= _LABELLED:
        _label_ends(ax, ends)
    return ax


# Curves that are named at their ends; more would not be told apart.
_LABELLED = 12


def _format_number(value: Any) -> str:
    """Return a number with six digits, and other values as text."""
    return f"{value:g}" if np.issubdtype(type(value), np.number) else str(value)


def draw_widths(data: xr.Dataset, ax: Axes, points: Any = None, label: str = "yours") -> Axes:
    """Draw each predicted loss against the number of hidden neurons, and `points`; return `ax`.

    `data` is the dataset of an answer of `predict` on a law: n_hidden, model, kind and loss of each
    prediction. `points` are a pair of arrays (n_hidden, loss) of your own, named `label`.
    """
    style = {
        "lower bound": ("-", 2.4), "attained": ("-", 1.2), "best known code": ("--", 1.6),
        "limit of many features": (":", 1.8), "measured": ("s", 1.2),
    }  # fmt: skip
    models = data["model"].values.astype(str)
    what = np.array([_DROPPED_LABEL if "matter most" in name else name for name in models])
    ends = []
    for k, name in enumerate(dict.fromkeys(what.tolist())):
        mine = what == name
        m, loss = data["n_hidden"].values[mine], data["loss"].values[mine]
        kind = str(data["kind"].values[mine][0])
        line, width = style[kind]
        colour = (
            "#555555" if kind == "lower bound" else "#AAAAAA" if name == _DROPPED_LABEL else COLOURS[k % 7]
        )
        single = m.size == 1 and line != "s"  # a line of one point is not seen
        marker: Any = {"marker": "s", "markersize": 4} if single else {"markersize": 5}
        ax.plot(m, loss, line, color=colour, linewidth=width, label=name, **marker)
        ends.append((float(loss[np.argmax(m)]), _SHORT.get(name, name), colour))
    if points is not None:
        m, loss = (np.asarray(point, float) for point in points)
        ax.plot(m, loss, "o", color="black", markersize=5, label=label, zorder=5)
        ends.append((float(loss[np.argmax(m)]), label, "black"))
    ax.set(xscale="log", yscale="log", xlabel="hidden neurons", ylabel="loss per feature")
    ticks = np.unique(data["n_hidden"].values)
    if ticks.size <= 9:
        ax.set_xticks(ticks, [f"{m:g}" for m in ticks])
        ax.minorticks_off()
    _label_ends(ax, ends)
    return ax


_DROPPED_LABEL = "the most important kept, others dropped"
_SHORT = {"what no model of this size goes below": "lower bound"}


def _label_ends(ax: Axes, ends: list[tuple[float, str, str]]) -> None:
    """Write the name of each curve to the right of its end, shifted so that names do not overlap.

    `ends` has for each curve (y at its end in the units of the data, its name, its colour).
    """
    scale = np.log10 if ax.get_yscale() == "log" else np.asarray
    low, high = scale(ax.get_ylim())
    ends = sorted(end for end in ends if end[0] > 0.0 or ax.get_yscale() != "log")
    wanted = np.array([(scale(loss) - low) / (high - low) for loss, *_ in ends])
    at = wanted.copy()
    for _ in range(100):  # push neighbours apart until they are a line of text from each other
        close = np.flatnonzero(np.diff(at) < _GAP - 1e-9)
        for k in close:
            middle = 0.5 * (at[k] + at[k + 1])
            at[k], at[k + 1] = middle - 0.5 * _GAP, middle + 0.5 * _GAP
        if close.size == 0:
            break
    for height, y, (_, name, colour) in zip(wanted, at, ends, strict=True):
        ax.annotate(
            name, (1.0, height), xytext=(1.04, y), xycoords="axes fraction", textcoords="axes fraction",
            fontsize=7.5, color=colour, va="center", annotation_clip=False,
            arrowprops={"arrowstyle": "-", "color": colour, "linewidth": 0.6, "shrinkA": 0, "shrinkB": 0,
                "relpos": (0.0, 0.5)},
        )  # fmt: skip


_GAP = 0.065  # of the axes' height: a line of text


def draw_phases(data: xr.Dataset, ax: Axes, points: Any = None, label: str = "yours") -> Axes:
    """Draw a diagram of phases with their names; over one axis the loss and the geometry; return `ax`.

    `data` is the dataset of an answer of `phases`, with ``geometry``, ``loss`` and W over one or two axes of
    its grid. Over one axis, the geometry is drawn as encodings for two neurons, as dimensionalities for more;
    `points`, arrays (values along this axis, losses) of your own, are added with the name `label` in the
    legend.
    """
    names = [str(dim) for dim in data["geometry"].dims]
    if len(names) == 1:
        return _draw_line(data, ax, names[0], points, label)
    if points is not None:
        raise ValueError(f"`points` must be None for a diagram over two axes; got {names[0]} and {names[1]}.")
    geometries, index = np.unique(data["geometry"].values.astype(str), return_inverse=True)
    index = index.reshape(data["geometry"].shape)
    palette = np.array([colors.to_rgb(COLOURS[k % len(COLOURS)]) for k in range(geometries.size)])
    x, y = data[names[0]].values, data[names[1]].values
    paler = 1.0 - 0.6 * (1.0 - palette[index])
    ax.pcolormesh(x, y, paler.transpose(1, 0, 2), shading="nearest", rasterized=True)
    for k, name in enumerate(geometries):
        i, j, _ = deepest_point(index == k)
        ax.text(float(x[i]), float(y[j]), name.replace(", ", "\n"), ha="center", va="center", fontsize=8,
                path_effects=_OUTLINE)  # fmt: skip
    labels = {
        "sparsity": "sparsity S = 1 - p", "p": "p = 1 - S", "importance": "importance of the last feature",
        "n_hidden": "hidden neurons", "n_features": "features",
    }  # fmt: skip
    ax.set(xlabel=labels[names[0]], ylabel=labels[names[1]])
    for name, values, scale in ((names[0], x, ax.set_xscale), (names[1], y, ax.set_yscale)):
        if values.size > 2 and name != "sparsity" and _spans_factor(values, 5.0):
            scale("log")
    ax.grid(False)
    ax.tick_params(which="both", direction="out")
    _format_log_ticks(ax, "x", "y")
    return ax


def _draw_line(data: xr.Dataset, ax: Axes, name: str, points: Any, label: str) -> Axes:
    """Draw a diagram over the axis `name` of `data`: the loss, with the geometry above it.

    The geometry is the encodings on two neurons; on more, the dimensionalities (shares of a dimension).
    `points`, if not None, are (x, y) of further losses, named `label` in the legend. Return `ax`.
    """
    x = data[name].values
    ax.plot(x, data["loss"], "o-", color="black", markersize=4, label="best known")
    if points is not None:
        ax.plot(*points, "x", color=COLOURS[1], markersize=6, label=label, zorder=5)
        ax.legend(loc="lower right")
    if name != "sparsity" and _spans_factor(x, 5.0):
        ax.set_xscale("log")
    axis_label = {"sparsity": "sparsity S = 1 - p", "p": "p = 1 - S"}.get(name, name)
    ax.set(xlabel=axis_label, ylabel="loss per feature", yscale="log")
    low, high = ax.get_ylim()
    if data.sizes["hidden"] > 2:
        ticks = ax.get_yticks()
        ax.set_yticks(ticks[(ticks >= low) & (ticks <= high)])
        ax.set_ylim(low, high * (high / low) ** 0.8)  # space for the dimensionalities
        inset = ax.inset_axes((0.0, 0.58, 1.0, 0.42), sharex=ax)
        sizes = data["dimensionality"].values
        inset.plot(
            np.repeat(x, sizes.shape[1]), sizes.ravel(), "o", color=COLOURS[0], alpha=0.4, markersize=3
        )
        inset.set(ylim=(-0.05, 1.05), ylabel="dimensionality")
        inset.yaxis.tick_right()
        inset.yaxis.set_label_position("right")
        inset.tick_params(labelbottom=False)
    elif data.sizes["hidden"] == 2 and x.size <= 12:
        ax.set_ylim(low, high * (high / low) ** 0.6)  # space for the encodings
        size = min(1.0 / x.size, 0.2)
        for k in np.argsort(x):  # side by side, as points may be close, each with a line to its point
            middle = (np.searchsorted(np.sort(x), x[k]) + 0.5) / x.size
            inset = ax.inset_axes((middle - 0.4 * size, 0.8, 0.8 * size, 0.2))
            W = data["W"].isel({name: int(k)}).values
            encodings(W[~np.isnan(W).any(axis=1)], inset, numbers=False)
            inset.axis("off")
            ax.annotate(
                "", (x[k], float(data["loss"][int(k)])), xytext=(middle, 0.8), textcoords="axes fraction",
                arrowprops={"arrowstyle": "-", "color": "#AAAAAA", "linewidth": 0.7, "shrinkB": 3},
            )  # fmt: skip
    return ax
