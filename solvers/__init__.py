"""Compiled solvers at finite sizes. They take arrays and a seed or Generator, and return frozen dataclasses.

Public functions check their arguments once. One that is out of range, not finite or of another shape raises
a ValueError that names the argument, its value and what is allowed; docstrings say only what goes beyond.
"""

from ..theory.lazy import lazy_submodules

__getattr__, __dir__ = lazy_submodules(__name__, __path__)
