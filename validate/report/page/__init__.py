"""The HTML of the report: one page that loads nothing, readable on phones, on paper and on dark screens."""

from .document import page, render_figure
from .errata import errata
from .ledger import judged_on, ledger
from .text import badges, card, formulas, paragraphs, slug, table

__all__ = [
    "badges", "card", "errata", "formulas", "judged_on", "ledger", "page", "paragraphs", "render_figure",
    "slug", "table",
]  # fmt: skip
