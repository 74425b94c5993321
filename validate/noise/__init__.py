"""Hidden noise in training (Lecomte et al. 2024, §3, §4): Figs. 4 to 6, and which mechanism they show."""

from ...solvers.noise.stuck import curvature, stuck, symmetric_minimum
from .fig6 import run_fig6, run_stuck
from .mechanism import judged, run_mechanism
from .plots import (
    plot_drop,
    plot_fig4,
    plot_fig5_lam,
    plot_fig5_noise,
    plot_fig6,
    plot_kurtosis,
    plot_number,
    plot_rates,
    plot_stuck,
    plot_weights,
)
from .runs import run_agreement, run_drop, run_fig4, run_fig5

__all__ = [
    "curvature", "judged", "plot_drop", "plot_fig4", "plot_fig5_lam", "plot_fig5_noise", "plot_fig6",
    "plot_kurtosis", "plot_number", "plot_rates", "plot_stuck", "plot_weights", "run_agreement", "run_drop",
    "run_fig4", "run_fig5", "run_fig6", "run_mechanism", "run_stuck", "stuck", "symmetric_minimum",
]  # fmt: skip
