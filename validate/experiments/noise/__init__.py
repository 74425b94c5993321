"""Hidden noise in training (Lecomte et al. 2024, §3, §4): Figs. 4 to 6, and which mechanism they show."""

from ...runner.declarations import Section
from . import agreement, fig4, fig5, fig6, mechanism, stuck
from .agreement import run_agreement
from .encodings import is_stuck
from .fig4 import plot_fig4, run_fig4
from .fig5 import plot_drop, plot_fig5_lam, plot_fig5_noise, run_drop, run_fig5
from .fig6 import curvature, plot_fig6, plot_weights, run_fig6, symmetric_minimum
from .mechanism import judge_mechanism, plot_kurtosis, plot_number, plot_rates, run_mechanism
from .stuck import plot_stuck, run_stuck

__all__ = [
    "curvature", "is_stuck", "judge_mechanism", "plot_drop", "plot_fig4", "plot_fig5_lam", "plot_fig5_noise",
    "plot_fig6", "plot_kurtosis", "plot_number", "plot_rates", "plot_stuck", "plot_weights", "run_agreement",
    "run_drop", "run_fig4", "run_fig5", "run_fig6", "run_mechanism", "run_stuck", "symmetric_minimum",
]  # fmt: skip

TEXT = """
Without the l1 term, noise on the hidden neurons sparsifies encodings if its excess kurtosis is negative. The
source infers this from the loss after one step, an effect of second order in the learning rate for encodings
that do not interfere. Theory here finds that the second order does not drive encodings there, and that
another effect of first order does: noise carries overlaps of encodings over the threshold of the ReLU, and
how often it does so depends on the shapes of the encodings. At first order only learning rate × steps counts,
and the flow of the noise-averaged loss has all of it. Figures show that flow in black next to training.

Learning rates and l1 strengths are those of the printed loss, a sum over inputs and outputs.
"""

SECTION = Section.of(
    "noise", "Sparsity from hidden noise", TEXT, mechanism, fig4, fig5, fig6, stuck, agreement
)
