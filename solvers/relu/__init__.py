"""Exact optima of small ReLU output models (Elhage et al. 2022), and names for what a model looks like."""

from ..minimise import Certificate
from .arrangement import Geometry, geometry, named_groups, represented
from .pair.aligned import alignment_frontier
from .pair.basins import Basins, pair_basins
from .pair.certificates import certify, solve_pair
from .pair.diagram import PHASES, PhaseDiagram, phase_diagram
from .pair.transitions import Transitions, pair_transitions
from .polygons import Polygon, best_polygon
from .sphere.arrange import Thomson, thomson
from .sphere.bounds import linear_programming_bound
from .sphere.check import SphereCheck, sphere_check

__all__ = [
    "PHASES",
    "Basins",
    "Certificate",
    "Geometry",
    "PhaseDiagram",
    "Polygon",
    "SphereCheck",
    "Thomson",
    "Transitions",
    "alignment_frontier",
    "best_polygon",
    "certify",
    "geometry",
    "linear_programming_bound",
    "named_groups",
    "pair_basins",
    "pair_transitions",
    "phase_diagram",
    "represented",
    "solve_pair",
    "sphere_check",
    "thomson",
]
