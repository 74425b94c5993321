"""Global minimisation of the exact loss from many starts, for any law, size, penalty and tying."""

from .multistart import descend, lower_bound, minimise
from .result import Certificate, Local, Minimum

__all__ = ["Certificate", "Local", "Minimum", "descend", "lower_bound", "minimise"]
