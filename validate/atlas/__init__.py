"""An atlas of solved toy models: the best that are known of up to 9 features in up to 4 hidden neurons."""

from .grid import GRID, Problem
from .search import make

__all__ = ["GRID", "Problem", "make"]
