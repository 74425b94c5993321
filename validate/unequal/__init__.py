"""Features that differ: the width law, trained beside theory."""

from .scaling import plot_width
from .width import run_split, run_width

__all__ = ["plot_width", "run_split", "run_width"]
