"""Settings and code of single papers: what they ran, beside what the phenomenon's own runs and theory say.

The runs and topics of a study, its `STUDY`, are part of the section of the phenomenon that it names.
"""

from .cistoy import plot_mixed, plot_mixing, plot_spread, run_mixed, run_mixing, run_spread
from .prieto import plot_gram, plot_tables, run_tables

__all__ = [
    "plot_gram", "plot_mixed", "plot_mixing", "plot_spread", "plot_tables", "run_mixed", "run_mixing",
    "run_spread", "run_tables",
]  # fmt: skip
