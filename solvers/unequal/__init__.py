"""Features that differ, in the large: the best split of the hidden neurons, matrices that realise it."""

from .realise import realise
from .split import CODES, KINDS, Split, optimum

__all__ = ["CODES", "KINDS", "Split", "optimum", "realise"]
