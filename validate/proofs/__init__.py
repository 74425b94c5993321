"""Certificates with their stand-alone checkers, and the search for counterexamples of an inequality."""

from ...theory.lazy import lazily

__getattr__, __dir__ = lazily(__name__, __path__)
