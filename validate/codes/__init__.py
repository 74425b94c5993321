"""Structure and symmetry of trained weights beside structured codes and the rug."""

from ...solvers.codes.structure import Structure, excess_kurtosis, structure
from .envelope import envelope_figure, plot_bracket, plot_envelope, run_envelope
from .marks import map_figure, plot_map, plot_marks, plot_shares, run_marks
from .runs import plot_curvature, run_departure, run_hessian, run_known, run_pair, run_polished, run_structure
from .symmetry import plot_symmetry, run_stored

__all__ = [
    "Structure", "envelope_figure", "excess_kurtosis", "map_figure", "plot_bracket", "plot_curvature",
    "plot_envelope", "plot_map", "plot_marks", "plot_shares", "plot_symmetry", "run_departure",
    "run_envelope", "run_hessian", "run_known", "run_marks", "run_pair", "run_polished", "run_stored",
    "run_structure", "structure",
]  # fmt: skip
