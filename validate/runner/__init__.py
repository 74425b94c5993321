"""Runs by name: declarations, processes, cached results, sweeps."""

from ...theory.lazy import lazy_submodules

__getattr__, __dir__ = lazy_submodules(__name__, __path__)
