"""The whole HTML page: its head, table of contents, parts, and figures."""

import html
from collections.abc import Sequence
from importlib import resources

from ....theory.annotations import as_annotated
from ...experiments.drawing import with_prefix
from ...runner.declarations import Figure
from .text import formulas, paragraphs, slug


def _read_resource(name: str) -> str:
    """Return the text of a file beside this module."""
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


@as_annotated
def page(title: str, lead: str, parts: Sequence[tuple[str, str]], *, script: bool = True) -> str:
    """Return an HTML page of `parts`, each (heading, HTML), under a title and lead, with links at the top.

    The script is that of the ledger of claims; a page without one needs none.
    """
    links = "".join(f"<li><a href='#{slug(heading)}'>{formulas(heading)}</a></li>" for heading, _ in parts)
    sections = "\n".join(
        f"<section id='{slug(heading)}'><h2>{formulas(heading)} "
        f"<a class='anchor' href='#{slug(heading)}' aria-label='link to this part'>#</a></h2>\n"
        f"{body}\n</section>"
        for heading, body in parts
    )
    return (
        "<!DOCTYPE html>\n<html lang='en'><head><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>"
        f"<title>{html.escape(title)}</title><style>{_read_resource('style.css')}</style></head>\n<body>"
        f"<header><h1>{html.escape(title)}</h1>{paragraphs(lead)}"
        f"<nav aria-label='contents'><ul>{links}</ul></nav></header>\n"
        f"<main>{sections}</main>\n"
        + (f"<script>{_read_resource('script.js')}</script>" if script else "")
        + "</body></html>\n"
    )


@as_annotated
def render_figure(figure: Figure, anchor: str, picture: str, below: str = "") -> str:
    """Return the HTML of a figure: title, SVG `picture`, caption, and the HTML `below` it.

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
