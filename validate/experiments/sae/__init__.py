"""What the best sparse autoencoders of few features do, beside closed forms, and what decoders reach."""

from .runs import run_hedging, run_pairs, run_reached
from .section import plot_hedging, plot_pairs, plot_reached

__all__ = [
    "plot_hedging", "plot_pairs", "plot_reached", "run_hedging", "run_pairs", "run_reached",
]  # fmt: skip
