"""Two features in one dimension, solved globally: diagram, transitions, basins, certificates."""

from .basins import Basins, pair_basins
from .certificates import certify, solve_pair
from .diagram import PHASES, PhaseDiagram, phase_diagram
from .transitions import Transitions, pair_transitions

__all__ = [
    "PHASES",
    "Basins",
    "PhaseDiagram",
    "Transitions",
    "certify",
    "pair_basins",
    "pair_transitions",
    "phase_diagram",
    "solve_pair",
]
