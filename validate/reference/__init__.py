"""Stored measurements: dated datasets with their checksums, and how files are read and written."""

from ...theory.lazy import lazily

__getattr__, __dir__ = lazily(__name__, __path__)
