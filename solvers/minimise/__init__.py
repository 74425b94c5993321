"""Global minimisation of the exact loss from many starts, for any law, size, penalty and tying."""

from .result import Certificate, Local, Minimum
from .search import descend, lower_bound, minimise

__all__ = ["Certificate", "Local", "Minimum", "descend", "lower_bound", "minimise"]
