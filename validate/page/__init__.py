"""The HTML of the report: one page that loads nothing, readable on phones, on paper and on dark screens."""

from .document import page
from .ledger import ledger
from .text import badges, formulas, paragraphs, slug, table

__all__ = ["badges", "formulas", "ledger", "page", "paragraphs", "slug", "table"]
