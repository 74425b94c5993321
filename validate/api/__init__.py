"""The functions of `import superposition as sp`, one in a module; they take a model, a law or a question."""

from ...theory.lazy import lazy_submodules

__getattr__, __dir__ = lazy_submodules(__name__, __path__)
