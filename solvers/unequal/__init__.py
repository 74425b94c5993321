"""Features that differ, in the large: the best split of the hidden neurons, matrices that realise it."""

from .realise import realise
from .split import CODES, KINDS, Split, optimum
from .width import MeanField, WidthLaw, mean_field, width_law

__all__ = [
    "CODES",
    "KINDS",
    "MeanField",
    "Split",
    "WidthLaw",
    "mean_field",
    "optimum",
    "realise",
    "width_law",
]
