"""Predictions: SymPy derivations and closed forms. Pure: no randomness, files, plots or torch.

A package is imported when it is asked for: after ``import superposition.theory`` there is
``superposition.theory.rug``.

Public functions check their arguments once. One that is out of range, not finite or of another shape raises
a ValueError that names the argument, its value and what is allowed; docstrings say only what goes beyond.
"""

from .lazy import lazy_submodules

__getattr__, __dir__ = lazy_submodules(__name__, __path__)
