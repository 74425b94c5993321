"""Exact losses and optimal small models of the ReLU output model (Elhage et al. 2022).

Global optima of two features in one dimension with their certificates, polygons and other small models,
optimal arrangements on the sphere, and what the classes of input that are left out would cost.
"""

from ..minimise import Certificate
from .arrangement import Geometry, geometry, structure
from .classes import ClassShares, Dropping, DroppingTable, class_shares, cost_of_dropping, dropping_table
from .models import SmallModel
from .pair import (
    PHASES,
    Basins,
    PhaseDiagram,
    Transitions,
    certify,
    pair_basins,
    pair_transitions,
    phase_diagram,
    solve_pair,
)
from .planar import Polygon, polygon, solve_small
from .sphere import (
    Curvature,
    SparseModel,
    SphereCheck,
    Thomson,
    capacity_limit,
    curvature,
    programmed_bound,
    sparse_model,
    sphere_check,
    thomson,
)

__all__ = [
    "PHASES",
    "Basins",
    "Certificate",
    "ClassShares",
    "Curvature",
    "Dropping",
    "DroppingTable",
    "Geometry",
    "PhaseDiagram",
    "Polygon",
    "SmallModel",
    "SparseModel",
    "SphereCheck",
    "Thomson",
    "Transitions",
    "capacity_limit",
    "certify",
    "class_shares",
    "cost_of_dropping",
    "curvature",
    "dropping_table",
    "geometry",
    "pair_basins",
    "pair_transitions",
    "phase_diagram",
    "polygon",
    "programmed_bound",
    "solve_pair",
    "solve_small",
    "sparse_model",
    "sphere_check",
    "structure",
    "thomson",
]
