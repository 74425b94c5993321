"""Sweeps: a run or a solver at each point of a labelled grid, in a store that survives kills."""

from .running import run
from .store import open

__all__ = ["open", "run"]
