"""Features that differ or depend on each other, trained."""

from .correlated import plot_gram, plot_groups, plot_tables
from .groups import run_blocks, run_groups, run_polished
from .tables import run_tables

__all__ = [
    "plot_gram",
    "plot_groups",
    "plot_tables",
    "run_blocks",
    "run_groups",
    "run_polished",
    "run_tables",
]
