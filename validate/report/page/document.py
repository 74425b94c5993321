"""The page and what it is made of, from the templates in the folder beside this module.

Values in a template are escaped, unless they are Markup or the filter ``safe`` says that they are HTML.
"""

import functools
import re
import textwrap
from collections.abc import Collection, Iterable, Sequence
from importlib import resources
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from ....theory.annotations import as_annotated
from ....theory.validation import count_noun, short_repr
from ...experiments.drawing import with_prefix
from ...runner.declarations import Figure
from .text import formulas, markdown_cell, slug


@functools.cache
def _environment() -> Environment:
    """Return the Jinja environment of the templates, with the functions of this module that they call."""
    environment = Environment(
        loader=PackageLoader(__name__.rpartition(".")[0]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        count_noun=count_noun,
        formulas=formulas,
        markdown_cell=markdown_cell,
        paragraphs=paragraphs,
        slug=slug,
    )
    environment.globals.update(table=table)
    return environment


def render(template: str, **values: Any) -> Markup:
    """Return the text of a file of the folder ``templates``, filled with `values`."""
    return Markup(_environment().get_template(template).render(values))


def _read_resource(name: str) -> Markup:
    """Return the text of a file beside this module, which is part of the page as it is."""
    return Markup(resources.files(__package__).joinpath(name).read_text(encoding="utf-8"))


@as_annotated
def page(title: str, lead: str, parts: Sequence[tuple[str, Markup]], *, script: bool = True) -> str:
    """Return an HTML page of `parts`, each (heading, HTML), under a title and lead, with links at the top.

    With `script` it has the JavaScript of the ledger's table of claims.
    """
    style, code = _read_resource("style.css"), _read_resource("script.js") if script else ""
    return render("page.html", title=title, lead=lead, parts=parts, style=style, script=code)


@as_annotated
def paragraphs(text: str) -> Markup:
    """Return plain text as HTML, a paragraph for each block between empty lines."""
    blocks = [" ".join(block.split()) for block in textwrap.dedent(text).split("\n\n")]
    return render("paragraphs.html", blocks=filter(None, blocks))


def _cell(value: Any) -> tuple[str, bool]:
    """Return (text of a table cell, whether it is a number); None is an empty cell."""
    if value is None or isinstance(value, bool | str):
        return "" if value is None else str(value), False
    if hasattr(value, "item"):
        value = value.item()
    return (str(value) if isinstance(value, int) else f"{value:.4g}"), True


@as_annotated
def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[Any]], caption: str = "") -> Markup:
    """Return an HTML table; numbers are aligned right and shown with four digits.

    `title` stands above, `caption` below. One of `rows` with more or fewer cells than `columns` raises a
    ValueError.

    >>> '<td class="number">0.3333</td>' in table("", ["x"], [[1 / 3]])
    True
    """
    rows = list(rows)
    for row in rows:
        if len(row) != len(columns):
            rule = f"{len(columns)} cells, as `columns` has"
            raise ValueError(f"`rows` must have {rule}; got {short_repr(row)}.")
    cells = [[_cell(value) for value in row] for row in rows]
    numeric = [any(row[k][1] for row in cells) for k in range(len(columns))]
    heads = list(zip(columns, numeric, strict=True))
    return render("table.html", title=title, columns=heads, rows=cells, caption=caption)


@as_annotated
def render_figure(figure: Figure, anchor: str, picture: str, links: Collection[str] = ()) -> Markup:
    """Return the HTML of a figure: title, SVG `picture`, caption, and `links` to its files.

    On the page the figure has the id `anchor`, and its drawing the id `anchor`-drawing.
    """
    # Panels beside each other would be too small on a phone: there the reader scrolls through them.
    wide = not callable(figure.draw) and min(figure.columns, len(figure.draw)) > 1
    picture = with_prefix(picture, f"{anchor}-").replace("<svg ", f"<svg id='{anchor}-drawing' ", 1)
    return render("figure.html", figure=figure, anchor=anchor, picture=picture, wide=wide, links=links)


@as_annotated
def card(sentence: str, anchor: str = "", drawing: str = "") -> Markup:
    """Return the HTML of a headline: a sentence over a small copy of the figure that it links to.

    The figure has the id `anchor` on the page, and its SVG, `drawing`, the id `anchor`-drawing; without an
    anchor there is the sentence alone.

    >>> print(card("Half is enough.", "rug-loss", "<svg viewBox='0 0 30 20'></svg>").strip())
    <li><a href="#rug-loss">
    <svg class="small" viewBox="0 0 30 20" aria-hidden="true">
    <use href="#rug-loss-drawing" width="30" height="20"/></svg>
    <span>Half is enough.</span></a></li>
    """
    match = re.search(r"viewBox=['\"]0 0 ([\d.]+) ([\d.]+)['\"]", drawing)
    width, height = match.groups() if match else ("1", "1")
    return render("card.html", sentence=sentence, anchor=anchor, width=width, height=height)
