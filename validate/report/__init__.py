"""The report: the page, its figures and tables, the gallery, the explorer."""

from ...theory.lazy import lazy_submodules

__getattr__, __dir__ = lazy_submodules(__name__, __path__)
