"""Features that differ or depend on each other, trained."""

from .groups import run_blocks, run_groups
from .tables import circular_law, run_tables

__all__ = ["circular_law", "run_blocks", "run_groups", "run_tables"]
