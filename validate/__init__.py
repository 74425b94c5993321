"""What experiments say: training, comparison with the theory, the ledger of claims, the report."""

from ..theory.rooms import lazily

__getattr__, __dir__ = lazily(__name__, __path__)
