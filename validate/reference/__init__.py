"""Stored measurements: dated datasets with their checksums, and how files are read and written."""

from ...theory.lazy import lazy_submodules

__getattr__, __dir__ = lazy_submodules(__name__, __path__)
