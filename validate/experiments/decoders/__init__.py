"""Decoders on rugs and in trained models: the map over p and ratio, message passing, recovery."""

from .runs import run_map, run_passing, run_recovery, run_rugs
from .section import plot_map, plot_passing, plot_recovery_line, plot_rugs, plot_success
from .trained import run_trained

__all__ = [
    "plot_map", "plot_passing", "plot_recovery_line", "plot_rugs", "plot_success",
    "run_map", "run_passing", "run_recovery", "run_rugs", "run_trained",
]  # fmt: skip
