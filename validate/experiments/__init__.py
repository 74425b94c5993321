"""The experiments, a package for each phenomenon: runs, figures, and their topics in the report."""

from ...theory.lazy import lazy_submodules

__getattr__, __dir__ = lazy_submodules(__name__, __path__)
