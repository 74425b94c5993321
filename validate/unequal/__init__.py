"""Features that differ: the width law, trained beside theory."""

from .width import power_law, run_width

__all__ = ["power_law", "run_width"]
