"""Sparsification of one encoding against its theory (Lecomte et al. 2024, Figs. 2 and 7)."""

from .plots import plot_deviation, plot_l1_norm, plot_nonzeros, plot_relative_variance
from .runs import default_times, run_agreement, run_fig2, run_fig7

__all__ = [
    "default_times", "plot_deviation", "plot_l1_norm", "plot_nonzeros", "plot_relative_variance",
    "run_agreement", "run_fig2", "run_fig7",
]  # fmt: skip
