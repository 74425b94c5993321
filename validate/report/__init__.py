"""One HTML page of all runs and statements, pictures of the main results, models that can be dragged."""

from ...theory.lazy import lazy_submodules

__getattr__, __dir__ = lazy_submodules(__name__, __path__)
