"""The Persian rug against really trained models (Cowsik et al. 2024, Figs. 1 and 2)."""

from ...runner.declarations import Section
from . import bias, check, finite_size, first_weights, losses, picture
from .bias import plot_bias_map, plot_profile, run_bias
from .check import run_checked
from .finite_size import plot_finite_size, run_finite_size
from .grids import PANELS
from .losses import (
    loss_curves,
    plot_excess,
    plot_loss_against_p,
    plot_loss_against_ratio,
    plot_onset,
    run_reference,
    run_theory,
)
from .models import run_trained, with_theory
from .picture import plot_rug, run_rug

__all__ = [
    "PANELS", "loss_curves", "plot_bias_map", "plot_excess", "plot_finite_size", "plot_loss_against_p",
    "plot_loss_against_ratio", "plot_onset", "plot_profile", "plot_rug", "run_bias", "run_checked",
    "run_finite_size", "run_reference", "run_rug", "run_theory", "run_trained", "with_theory",
]  # fmt: skip

TEXT = """
A ReLU autoencoder of sparse data keeps n_hidden numbers for n_features features. If its weights are
statistically symmetric, the other features act on each output like Gaussian noise, and the loss depends on
three numbers alone: the scale a, the bias b and the standard deviation sigma of that noise, which the ratio
n_hidden/n_features bounds from below. The Persian rug attains the bound. Lines in the figures are its loss at
the optimal a and b, computed without sampling; markers are models that were really trained.

The bound on sigma is a theorem about one choice of weights, not about what training finds. The tables give
the relative excess of trained models over the rug; negative numbers are models that beat it.
"""

SECTION = Section.of("rug", "The Persian rug", TEXT, losses, picture, first_weights, finite_size, bias, check)
