"""Labels, markers and logarithmic axes of few decades, for figures of the ReLU output model."""

from collections.abc import Mapping
from typing import Any

import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from ..drawing import finish_axes

MARKERS = "osD^v"
DENSITY = "density p = 1 - S"


def draw_curve(ax: Axes, x: npt.ArrayLike, y: npt.ArrayLike, k: int, line: str = "-", **style: Any) -> None:
    """Draw the curve y of x with the k-th marker and, unless another is given, the k-th colour.

    `line` is Matplotlib's line style, `style` has further options of `Axes.plot`.
    """
    defaults: dict[str, Any] = {"color": f"C{k % 7}", "markersize": 4.5}
    ax.plot(x, y, MARKERS[k % len(MARKERS)] + line, **(defaults | style))


def finish_log_axes(ax: Axes, legend: str | Mapping[str, Any] | None = "best", **settings: Any) -> Axes:
    """Set properties and legend of the axes, as `finish_axes` does, and write ticks as plain numbers.

    Plain numbers suit logarithmic axes of less than four decades.
    """
    finish_axes(ax, legend, **settings)
    for name, axis in (("xscale", ax.xaxis), ("yscale", ax.yaxis)):
        low, high = sorted(axis.get_view_interval())
        if settings.get(name) == "log" and high < 1e4 * low:
            axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
            axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
            axis.set_minor_formatter(NullFormatter())
    return ax
