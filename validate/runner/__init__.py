"""Runs by name: their declarations, execution in processes, cached results, and sweeps."""

from ...theory.lazy import lazy_submodules

__getattr__, __dir__ = lazy_submodules(__name__, __path__)
