"""The report: the page, its figures and tables, the gallery, the explorer."""

from ...theory.lazy import lazily

__getattr__, __dir__ = lazily(__name__, __path__)
