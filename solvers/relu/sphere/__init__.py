"""Points on a sphere: the limit of one feature on and equal lengths. Packings and bounds."""

from .arrange import Curvature, Thomson, curvature, thomson
from .bounds import capacity_limit, programmed_bound

__all__ = [
    "Curvature",
    "Thomson",
    "capacity_limit",
    "curvature",
    "programmed_bound",
    "thomson",
]
