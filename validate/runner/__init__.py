"""Runs by name: declarations, processes, cached results, sweeps."""

from ...theory.lazy import lazily

__getattr__, __dir__ = lazily(__name__, __path__)
