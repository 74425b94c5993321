"""Collisions of features under l1 regularisation, in training (Lecomte et al. 2024, §2, §5, App. A)."""

from .cooccurrence import COOCCURRENCE, plot_cooccurrence, run_cooccurrence
from .counts import DEAD, ON, SHIFTED, ZERO, collision_counts
from .course import plot_course, run_course
from .fig3 import FIG3, plot_fig3, plot_ratio, quoted_p_values, run_fig3
from .remedy import REMEDY, Split, outcomes, plot_outcomes, plot_remedy, run_remedy, split_neurons
from .section import report_section
from .trained import TRAINED, plot_trained, run_printed, run_trained
from .training import train_l1
from .untied import CASES, plot_untied, run_inputs, run_untied

__all__ = [
    "CASES",
    "COOCCURRENCE",
    "DEAD",
    "FIG3",
    "ON",
    "REMEDY",
    "SHIFTED",
    "TRAINED",
    "ZERO",
    "Split",
    "collision_counts",
    "outcomes",
    "plot_cooccurrence",
    "plot_course",
    "plot_fig3",
    "plot_outcomes",
    "plot_ratio",
    "plot_remedy",
    "plot_trained",
    "plot_untied",
    "quoted_p_values",
    "report_section",
    "run_cooccurrence",
    "run_course",
    "run_fig3",
    "run_inputs",
    "run_printed",
    "run_remedy",
    "run_trained",
    "run_untied",
    "split_neurons",
    "train_l1",
]
