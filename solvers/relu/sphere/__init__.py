"""Points on a sphere: the limit of one feature on and equal lengths. Packings, bounds, true minimisers."""

from .arrange import Curvature, Thomson, curvature, thomson
from .bounds import capacity_limit, programmed_bound
from .check import SphereCheck, sphere_check

__all__ = [
    "Curvature",
    "SphereCheck",
    "Thomson",
    "capacity_limit",
    "curvature",
    "programmed_bound",
    "sphere_check",
    "thomson",
]
