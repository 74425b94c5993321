"""Structure and symmetry of trained weights beside structured codes and the rug."""

from .envelope import envelope_figure, plot_bracket, plot_envelope, run_envelope
from .graphs import adjacency, block_model
from .hessian import Curvatures, RugHessian, RugPoint, curvatures, rug_hessian, rug_point
from .lines import known_blocks, known_envelope, run_lines
from .marks import map_figure, plot_map, plot_marks, plot_shares, run_marks
from .runs import (
    plot_curvature,
    run_departure,
    run_hessian,
    run_known,
    run_pair,
    run_polished,
    run_structure,
)
from .structure import CodeStructure, code_structure, interference_kurtosis
from .symmetry import plot_symmetry, run_stored

__all__ = [
    "CodeStructure", "Curvatures", "RugHessian", "RugPoint", "adjacency", "block_model", "code_structure",
    "curvatures", "envelope_figure", "interference_kurtosis", "known_blocks", "known_envelope",
    "map_figure", "plot_bracket",
    "plot_curvature", "plot_envelope", "plot_map", "plot_marks", "plot_shares", "plot_symmetry",
    "rug_hessian", "rug_point", "run_departure", "run_envelope", "run_hessian", "run_known", "run_lines",
    "run_marks", "run_pair", "run_polished", "run_stored", "run_structure",
]  # fmt: skip
