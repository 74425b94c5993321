"""Hidden noise in training (Lecomte et al. 2024, §3, §4): Figs. 4 to 6, and which mechanism they show."""

from .fig6 import run_fig6, run_stuck
from .mechanism import judge_mechanism, run_mechanism
from .plots import *  # noqa: F403  # its `__all__` says what
from .plots import __all__ as _plots
from .runs import run_agreement, run_drop, run_fig4, run_fig5
from .shapes import curvature, is_stuck, symmetric_minimum

__all__ = [
    "curvature", "judge_mechanism", "run_agreement", "run_drop", "run_fig4", "run_fig5", "run_fig6",
    "run_mechanism", "run_stuck", "is_stuck", "symmetric_minimum", *_plots,
]  # fmt: skip
