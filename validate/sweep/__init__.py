"""Sweeps: an experiment or a solver at each point of a labelled grid, in a Zarr store that nothing can spoil."""

from .running import run
from .store import open_store as open

__all__ = ["open", "run"]
