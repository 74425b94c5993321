"""The experiments, a package for each phenomenon: runs, figures, and what the report says of them."""

from ...theory.lazy import lazily

__getattr__, __dir__ = lazily(__name__, __path__)
