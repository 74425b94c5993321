"""What experiments say: training, comparison with the theory, the ledger of claims, the report.

A function raises a ValueError that names an argument out of range, and an ImportError if it needs a library
that is not installed, such as PyTorch; where its docstring names errors, there are others too.
"""

from ..theory.lazy import lazy_submodules

__getattr__, __dir__ = lazy_submodules(__name__, __path__)
