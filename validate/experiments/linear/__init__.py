"""Trained linear autoencoders beside their exact losses and flows (Notes 2022)."""

from .descent import Trained, descend
from .flows import plot_angles, plot_escape, plot_losses, plot_plateaus, run_flows, run_plateaus
from .representation import plot_gain, plot_shares, run_representation
from .saddles import plot_subspaces, run_saddles, run_subspaces
from .weights import moment_points

__all__ = [
    "Trained", "descend", "moment_points", "plot_angles", "plot_escape", "plot_gain", "plot_losses",
    "plot_plateaus", "plot_shares", "plot_subspaces", "run_flows", "run_plateaus", "run_representation",
    "run_saddles", "run_subspaces",
]  # fmt: skip
