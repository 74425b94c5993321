"""Collisions of features under l1 regularisation, in training (Lecomte et al. 2024, §2, §5, App. A)."""

from ...runner.declarations import Section
from . import cooccurrence, course, fig3, printed, remedy, trained, untied
from .cooccurrence import plot_cooccurrence, run_cooccurrence
from .course import plot_course, run_course
from .fig3 import plot_fig3, plot_ratio, run_fig3
from .printed import run_printed
from .remedy import VARIANTS, plot_remedy, run_remedy, run_variants
from .trained import run_trained
from .training import train_l1
from .untied import CASES, plot_untied, run_untied

__all__ = [
    "CASES", "SECTION", "VARIANTS", "plot_cooccurrence", "plot_course", "plot_fig3", "plot_ratio",
    "plot_remedy", "plot_untied", "run_cooccurrence", "run_course", "run_fig3", "run_printed", "run_remedy",
    "run_trained", "run_untied", "run_variants", "train_l1",
]  # fmt: skip

TEXT = """
Under the l1 force encodings end on one neuron each, and chance decides whether two features end on the same
one. With opposite signs they do not interact (a benign collision), and the neuron stays polysemantic.
With equal signs they interfere (a malign collision) until one of them has left. So a neuron has two places,
one for each sign. The source expects n²/(4m) polysemantic neurons for n features and m neurons. Were all
arrangements of the features on the 2m places equally likely, it would be n(n-1)/(2(2m-1)) on average, for
any n and m: “one place a feature” in the figures. “Independent choice” is the mean if features could also
share a place.

Time and λ of the flow are those of the normal form (constants 4 dropped). A λ of the printed loss, which is
what training has, is four times as large.
"""

SECTION = Section.of(
    "collisions",
    "Collisions of features",
    TEXT,
    fig3, printed, course, trained, cooccurrence, remedy, untied,
)  # fmt: skip
