"""An atlas of solved toy models: the best known models of up to 9 features in up to 4 hidden neurons."""

from .grid import GRID, IMPORTANCES, Problem
from .search import make
from .store import Entry, entries, export, load, names

__all__ = ["GRID", "IMPORTANCES", "Entry", "Problem", "entries", "export", "load", "make", "names"]
