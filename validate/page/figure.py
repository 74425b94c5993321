"""A figure as HTML."""

from ..drawing import with_prefix
from ..experiment import Figure
from .text import formulas


def drawn(figure: Figure, anchor: str, picture: str, below: str = "") -> str:
    """Return a figure's SVG `picture` under its title, over its caption and what HTML stands `below` that.

    On the page the figure has the id `anchor`, and its drawing that with ``-drawing`` at its end.
    """
    # Panels beside each other would be too small on a phone: there the reader scrolls through them.
    wide = not callable(figure.draw) and min(figure.columns, len(figure.draw)) > 1
    picture = with_prefix(picture, f"{anchor}-").replace("<svg ", f"<svg id='{anchor}-drawing' ", 1)
    return (
        f"<figure id='{anchor}'><h3>{formulas(figure.title)} "
        f"<a class='anchor' href='#{anchor}' aria-label='link to this figure'>#</a></h3>"
        f"<div class='{'plot wide' if wide else 'plot'}' tabindex='0'>{picture}</div>"
        f"<figcaption>{formulas(figure.caption)}{below}</figcaption></figure>"
    )
