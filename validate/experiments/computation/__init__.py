"""Computation in superposition: what small networks gain over naive ones, beside the lower bound."""

from ...runner.declarations import Section
from . import fans, gain_map, powers, search, trained, unbiased
from .fans import plot_fans, run_fans
from .gain_map import plot_map, run_map
from .powers import plot_powers, run_powers
from .search import plot_search, run_search
from .trained import plot_trained, run_trained
from .unbiased import plot_unbiased, run_unbiased

__all__ = [
    "SECTION", "plot_fans", "plot_map", "plot_powers", "plot_search",
    "plot_trained", "plot_unbiased",
    "run_fans", "run_map", "run_powers", "run_search",
    "run_trained", "run_unbiased",
]  # fmt: skip

TEXT = r"""
Can n hidden ReLU neurons with a linear readout compute more than n functions of sparse features? For the
squared error there is a bound for any n functions of the input, whatever computes them: the sum of the
smallest eigenvalues of the targets' covariance (the lower bound). The naive network computes n of the targets
and gives the mean of the others. For ReLU(x) of independent features that are alike, it attains the lower
bound, so that nothing is better at any p. Something is gained without an output bias, for targets that one
neuron cannot compute, such as |x|, for targets that a matrix mixes, and for other powers of the error.
Features are uniform on [-1, 1] when on. Losses are per feature.
"""
SECTION = Section.of(
    "computation", "Computation in superposition", TEXT, fans, unbiased, search, gain_map, trained, powers
)
