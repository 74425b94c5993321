"""Figures as vector graphics, all in one style, that can stand in one HTML page."""

import html
import io
import re
from typing import Any

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

from .experiment import Figure

__all__ = ["check_axes", "svg", "with_prefix"]

# Okabe and Ito's colours stay apart for the common kinds of colour blindness; black comes first, for theory.
_COLOURS = ["000000", "0072B2", "D55E00", "009E73", "CC79A7", "E69F00", "56B4E9"]
_STYLE = {
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


def check_axes(ax: Any) -> None:
    """Check that a plot was given axes to draw in.

    Raises
    ------
    TypeError
        If it is anything else.
    """
    if not isinstance(ax, Axes):
        raise TypeError(f"`ax` must be a matplotlib Axes; got {type(ax).__name__}.")


def svg(figure: Figure) -> str:
    """Draw a figure as an SVG element that can stand inside HTML.

    Parameters
    ----------
    figure : Figure

    Raises
    ------
    TypeError
        If a panel's `draw` does not return the axes that it was given.
    """
    panels = (figure.draw,) if callable(figure.draw) else tuple(figure.draw)
    columns = min(figure.columns, len(panels))
    lines = -(-len(panels) // columns)
    with rc_context(_STYLE):
        canvas = Canvas(figsize=(figure.size[0] * columns, figure.size[1] * lines), layout="constrained")
        axes = canvas.subplots(lines, columns, squeeze=False).ravel()
        for panel, ax in zip(panels, axes, strict=False):
            if panel(figure.dataset, ax) is not ax:
                raise TypeError(f"`draw` of {figure.name!r} must return the axes that it was given.")
        for ax in axes[len(panels) :]:
            ax.remove()
        text = io.StringIO()
        canvas.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
    drawing = text.getvalue()
    drawing = drawing[drawing.index("<svg") :]
    drawing = re.sub(r"<metadata>.*?</metadata>", "", drawing, flags=re.DOTALL)
    # Blanks between elements, and digits below a hundredth of a point, are a quarter of a file.
    drawing = re.sub(r">\s+<", "><", drawing)
    drawing = re.sub(
        r'(?<=\s)(?:d|x|y)="[^"]*"', lambda found: re.sub(r"(\.\d\d)\d+", r"\1", found[0]), drawing
    )
    return drawing.replace("<svg ", f'<svg role="img" aria-label="{html.escape(figure.title)}" ', 1)


def with_prefix(drawing: str, prefix: str) -> str:
    """Put a prefix before all ids of a drawing, so that several can share a page.

    Examples
    --------
    >>> with_prefix('<svg><path id="a"/><use href="#a"/></svg>', "x-")
    '<svg><path id="x-a"/><use href="#x-a"/></svg>'
    """
    drawing = re.sub(r'\bid="', f'id="{prefix}', drawing)
    drawing = re.sub(r'href="#', f'href="#{prefix}', drawing)
    return re.sub(r"url\(#", f"url(#{prefix}", drawing)
