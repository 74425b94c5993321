"""The HTML of the report: one page that loads nothing, readable on phones, on paper and on dark screens."""

from .document import drawn, page
from .errata import errata
from .ledger import judged, ledger
from .text import badges, card, formulas, paragraphs, slug, table

__all__ = [
    "badges", "card", "drawn", "errata", "formulas", "judged", "ledger", "page", "paragraphs", "slug",
    "table",
]  # fmt: skip
