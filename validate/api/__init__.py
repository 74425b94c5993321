"""The functions of `import superposition as sp`, a module each, which takes a model, data or a question."""

from ...theory.lazy import lazy_submodules

__getattr__, __dir__ = lazy_submodules(__name__, __path__)
