"""What finite sizes give: compiled solvers. Arrays and a seed or Generator in, frozen dataclasses out."""

from ..theory.lazy import lazily

__getattr__, __dir__ = lazily(__name__, __path__)
