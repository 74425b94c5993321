"""Sparsification of one encoding against its theory (Lecomte et al. 2024, Figs. 2 and 7)."""

from ...runner.declarations import Section
from . import fig2, fig7, routes
from .encodings import default_times
from .fig2 import plot_deviation, plot_l1_norm, plot_nonzeros, run_fig2
from .fig7 import plot_relative_variance, run_fig7
from .routes import run_agreement

__all__ = [
    "default_times", "plot_deviation", "plot_l1_norm", "plot_nonzeros", "plot_relative_variance",
    "run_agreement", "run_fig2", "run_fig7",
]  # fmt: skip

TEXT = """
Without interference the l1 force acts on each encoding by itself, and all its weights that have not reached
zero are the same affine function of their first values. That turns the m equations into one, driven by a
quadratic between neighbouring weights: it is solved exactly. For many normal weights the same equation gives
a limit law in which no constant is fitted, including the last few weights, whose order statistics are
known. Time is that of the normal form of the flow (constants 4 dropped).

The source gives orders of magnitude: three regimes with unspecified constants. With all constants set to 1
they miss the exact solution by the factors below. In the middle regime the constants are 2 for the number
and 1 for the norm, up to logarithms.
"""

SECTION = Section.of("sparsification", "Sparsification under l1", TEXT, fig2, fig7, routes)
