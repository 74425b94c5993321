"""What experiments say: training, comparison with the theory, the ledger of claims, the report.

A room's `run_…` raises a ValueError that names an argument out of range, and an ImportError if it needs
PyTorch and that is not installed.
"""

from ..theory.rooms import lazily

__getattr__, __dir__ = lazily(__name__, __path__)
