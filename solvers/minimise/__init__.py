"""Global minimisation of the exact loss from many starts, for any law, size, penalty and tying."""

from .learning import LearningCoefficient, learning_coefficient
from .multistart import descend, lower_bound, minimise
from .result import Certificate, Local, Minimum

__all__ = [
    "Certificate", "LearningCoefficient", "Local", "Minimum", "descend", "learning_coefficient",
    "lower_bound", "minimise",
]  # fmt: skip
