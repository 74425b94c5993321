"""Structure and symmetry of trained weights beside structured codes and the rug."""

from ...runner.declarations import Section
from . import copies, envelope, lines, marks, pair, saddle, symmetry, trained
from .envelope import envelope_figure, plot_bracket, plot_envelope, run_envelope
from .lines import known_blocks, known_envelope, run_lines
from .marks import map_figure, plot_map, plot_marks, run_known, run_marks
from .pair import run_pair
from .saddle import plot_curvature, run_departure, run_hessian, run_polished
from .structure import CodeStructure, code_structure, interference_kurtosis
from .symmetry import plot_symmetry, run_stored
from .trained import plot_shares, run_structure

__all__ = [
    "SECTION", "CodeStructure", "code_structure", "envelope_figure", "interference_kurtosis", "known_blocks",
    "known_envelope", "map_figure", "plot_bracket", "plot_curvature", "plot_envelope", "plot_map",
    "plot_marks", "plot_shares", "plot_symmetry", "run_departure", "run_envelope", "run_hessian",
    "run_known", "run_lines", "run_marks", "run_pair", "run_polished", "run_stored", "run_structure",
]  # fmt: skip

TEXT = """
A model ReLU(M x + b) whose matrix has rank n_hidden need not look like the Persian rug. It can keep features
in blocks that do not interfere, such as pairs on one line, or leave features out; several such codes have
less loss.

Pairs need not be even. With W_out and W_in free, one direction holds two features as M = [[1, -c], [-1/c,
1]], whose loss when both are on is (1 + c^-2) (1/3 - 1/(6c)) in sum for c >= 1. Its derivative by 1/c
vanishes at c = 1, the antipodal pair, which is its maximum, and at c = 3, the minimum: 25 p^2/162 for each
feature in place of p^2/6. The rows of such a pair come in two kinds, so that permutation symmetry is broken
even where all features are served alike.

The end of a training is not an optimum. A large model can be made of copies of a small one, each with
features and neurons of its own, so that the least loss at a ratio never rises from n_features to a multiple
of it.

The macroscopic loss of the rug depends on the diagonal, the biases and the sums of squares of the rows alone,
so that rotations of the n_hidden dimensions which keep the diagonal leave it as it is: these steps get their
curvature from the deviation of the interference from a normal law, of either sign. The exact Hessian, on
matrices of the rug's rank, is split by the rug's own symmetry into n_features blocks.
"""

SECTION = Section.of(
    "codes",
    "Structured codes and the symmetry of trained weights",
    TEXT,
    marks, copies, symmetry, pair, trained, saddle, lines, envelope,
)  # fmt: skip
