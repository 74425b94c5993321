"""Collisions of features under l1 regularisation, in training (Lecomte et al. 2024, §2, §5, App. A)."""

from .fig3 import run_course, run_fig3
from .plots import plot_cooccurrence, plot_course, plot_fig3, plot_ratio, plot_remedy, plot_untied
from .remedy import VARIANTS, run_remedy, run_variants
from .trained import CASES, run_cooccurrence, run_printed, run_trained, run_untied
from .training import train_l1

__all__ = [
    "CASES", "VARIANTS",
    "plot_cooccurrence", "plot_course", "plot_fig3", "plot_ratio", "plot_remedy", "plot_untied",
    "run_cooccurrence", "run_course", "run_fig3", "run_printed", "run_remedy", "run_trained", "run_untied",
    "run_variants", "train_l1",
]  # fmt: skip
