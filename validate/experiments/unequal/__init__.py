"""Features that differ or depend on each other, trained beside theory."""

from .bracket import plot_bracket, run_bracket
from .codes import plot_codes, run_codes
from .correlated import plot_groups
from .descended import run_descended
from .groups import run_blocks, run_groups, run_polished
from .scaling import plot_width
from .width import run_split, run_width

__all__ = [
    "plot_bracket", "plot_codes", "plot_groups", "plot_width", "run_blocks",
    "run_bracket", "run_codes", "run_descended", "run_groups", "run_polished", "run_split",
    "run_width",
]  # fmt: skip
