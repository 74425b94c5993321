"""The HTML of the report: one page that loads nothing, readable on phones, on paper and on dark screens."""

from .document import card, page, paragraphs, render, render_figure, table
from .errata import errata
from .ledger import ledger
from .text import formulas, slug

__all__ = [
    "card", "errata", "formulas", "ledger", "page", "paragraphs", "render", "render_figure", "slug", "table",
]  # fmt: skip
