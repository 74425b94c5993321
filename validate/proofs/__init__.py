"""Certificates with their stand-alone checkers, and the search for counterexamples of an inequality."""

from ...theory.lazy import lazy_submodules

__getattr__, __dir__ = lazy_submodules(__name__, __path__)
