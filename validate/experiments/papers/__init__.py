"""Settings and code of single papers, a module for each, beside the runs and theory of their `PHENOMENON`.

The `RUNS` and `TOPICS` of a paper come last in the section of its phenomenon.
"""

from .cistoy import plot_mixed, plot_mixing, plot_spread, run_mixed, run_mixing, run_spread
from .prieto import plot_gram, plot_tables, run_tables

__all__ = [
    "plot_gram", "plot_mixed", "plot_mixing", "plot_spread", "plot_tables", "run_mixed", "run_mixing",
    "run_spread", "run_tables",
]  # fmt: skip
