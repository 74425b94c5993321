"""Stored measurements: dated datasets with their checksums, and functions that read and write files."""

from ...theory.lazy import lazy_submodules

__getattr__, __dir__ = lazy_submodules(__name__, __path__)
