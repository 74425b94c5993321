"""What is predicted: SymPy derivations and closed forms. Pure: no randomness, files, plots or torch.

A package is imported when it is asked for: after ``import superposition.theory`` there is
``superposition.theory.rug``.
"""

from .lazy import lazy_submodules

__getattr__, __dir__ = lazy_submodules(__name__, __path__)
