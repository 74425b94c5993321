"""The Persian rug against really trained models (Cowsik et al. 2024, Figs. 1 and 2)."""

from .plots import (
    plot_bias_map,
    plot_excess,
    plot_finite_size,
    plot_loss_against_p,
    plot_loss_against_ratio,
    plot_onset,
    plot_profile,
    plot_rug,
)
from .runs import (
    run_bias,
    run_checked,
    run_finite_size,
    run_reference,
    run_rug,
    run_theory,
    run_trained,
    with_theory,
)
from .section import PANELS, loss_curves

__all__ = [
    "PANELS", "loss_curves", "plot_bias_map", "plot_excess", "plot_finite_size", "plot_loss_against_p",
    "plot_loss_against_ratio", "plot_onset", "plot_profile", "plot_rug", "run_bias", "run_checked",
    "run_finite_size", "run_reference", "run_rug", "run_theory", "run_trained", "with_theory",
]  # fmt: skip
