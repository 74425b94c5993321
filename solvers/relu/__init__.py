"""Exact losses and optimal small models of the ReLU output model (Elhage et al. 2022).

Global optima of two features in one dimension with numerical lower bounds (`pair`), optimal arrangements on
the sphere (`sphere`), polygons, names for what a model looks like, and what it would cost to leave out the
inputs with many features on. Minimisers of other sizes and laws come from `superposition.solvers.minimise`.
"""

from ..minimise import Certificate
from .arrangement import Geometry, geometry, represented, structure
from .dropping import ClassShares, Dropping, class_shares, cost_of_dropping
from .pair.basins import Basins, pair_basins
from .pair.certificates import certify, solve_pair
from .pair.diagram import PHASES, PhaseDiagram, phase_diagram
from .pair.transitions import Transitions, pair_transitions
from .polygons import Polygon, polygon
from .sphere.arrange import Curvature, Thomson, curvature, thomson
from .sphere.bounds import capacity_limit, linear_programming_bound

__all__ = [
    "PHASES",
    "Basins",
    "Certificate",
    "ClassShares",
    "Curvature",
    "Dropping",
    "Geometry",
    "PhaseDiagram",
    "Polygon",
    "Thomson",
    "Transitions",
    "capacity_limit",
    "certify",
    "class_shares",
    "cost_of_dropping",
    "curvature",
    "geometry",
    "linear_programming_bound",
    "pair_basins",
    "pair_transitions",
    "phase_diagram",
    "polygon",
    "represented",
    "solve_pair",
    "structure",
    "thomson",
]
