"""What finite sizes give: compiled solvers. Arrays and a seed or Generator in, frozen dataclasses out."""

from ..theory.lazy import lazy_submodules

__getattr__, __dir__ = lazy_submodules(__name__, __path__)
