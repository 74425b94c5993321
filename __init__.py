"""A theory engine for toy models of superposition and polysemanticity: `theory`, `solvers`, `validate`."""

from .theory.rooms import lazily

__version__ = "0.1.0"
__getattr__, __dir__ = lazily(__name__, __path__, ("solvers", "theory", "validate"))
