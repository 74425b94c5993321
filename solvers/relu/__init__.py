"""Exact losses and optimal small models of the ReLU output model (Elhage et al. 2022).

Global optima of two features in one dimension with their certificates, polygons and other small models,
optimal arrangements on the sphere, and what the classes of input that are left out would cost.
"""

from .classes import ClassShares, Dropping, DroppingTable, class_shares, cost_of_dropping, dropping_table
from .models import Certificate, SmallModel, load_models, save_models
from .phases import PHASES, PhaseDiagram, phase_diagram
from .phases_basins import Basins, pair_basins
from .phases_certify import certify, solve_pair
from .phases_planar import Polygon, polygon, solve_small, structure
from .phases_transitions import Transitions, pair_transitions
from .thomson_arrange import Thomson, thomson
from .thomson_bounds import capacity_limit, programmed_bound
from .thomson_geometry import Curvature, Geometry, curvature, geometry
from .thomson_limit import SparseModel, SphereCheck, sparse_model, sphere_check

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
    "load_models",
    "pair_basins",
    "pair_transitions",
    "phase_diagram",
    "polygon",
    "programmed_bound",
    "save_models",
    "solve_pair",
    "solve_small",
    "sparse_model",
    "sphere_check",
    "structure",
    "thomson",
]
