"""The experiments, a package for each phenomenon: runs, figures, and what the report says of them."""

from ...theory.lazy import lazy_submodules

__getattr__, __dir__ = lazy_submodules(__name__, __path__)
