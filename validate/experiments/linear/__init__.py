"""Trained linear autoencoders beside their exact losses and flows (Notes 2022)."""

from ...runner.declarations import Section
from . import flows, plateaus, representation, saddles, subspaces
from .descent import TrainedWeights, descend, moment_points
from .flows import plot_angles, plot_losses, run_flows
from .plateaus import plot_escape, plot_plateaus, run_plateaus
from .representation import plot_gain, plot_shares, run_representation
from .saddles import run_saddles
from .subspaces import plot_subspaces, run_subspaces

__all__ = [
    "TrainedWeights", "descend", "moment_points", "plot_angles", "plot_escape", "plot_gain", "plot_losses",
    "plot_plateaus", "plot_shares", "plot_subspaces", "run_flows", "run_plateaus", "run_representation",
    "run_saddles", "run_subspaces",
]  # fmt: skip

TEXT = """
A linear autoencoder x → ABx has a saddle of its loss for every set of eigenvectors of the inputs' second
moments that is not the leading one, and from small weights it passes by those that keep 0, 1, 2, … of the
leading directions. Losses and growth rates there follow from the eigenvalues alone. Time is that of the
flows in normal form: a step of gradient descent on the loss summed over features, at the learning rate η,
is 2η. Models are trained in float64 on all inputs at each step; “expected loss” is the loss over the
distribution, exactly. Ranges are the smallest and the largest value of all starts.
"""

SECTION = Section.of(
    "linear", "Linear autoencoders", TEXT, plateaus, flows, saddles, subspaces, representation
)
