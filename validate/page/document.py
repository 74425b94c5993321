"""The page as a whole: its head, its table of contents and its parts."""

import html
from collections.abc import Sequence
from importlib import resources

from .text import formulas, paragraphs, slug


def _resource(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


def page(title: str, lead: str, parts: Sequence[tuple[str, str]], *, script: bool = True) -> str:
    """Return the page with these parts, each a heading and its HTML, and links to them at the top.

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
        f"<title>{html.escape(title)}</title><style>{_resource('style.css')}</style></head>\n<body>"
        f"<header><h1>{html.escape(title)}</h1>{paragraphs(lead)}"
        f"<nav aria-label='contents'><ul>{links}</ul></nav></header>\n"
        f"<main>{sections}</main>\n"
        + (f"<script>{_resource('script.js')}</script>" if script else "")
        + "</body></html>\n"
    )
