"""Features that differ or depend on each other, trained."""

from .groups import run_blocks, run_groups

__all__ = ["run_blocks", "run_groups"]
