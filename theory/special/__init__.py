"""Special functions that several rooms need, each once: ramp moments, roots of a cubic, laws of values."""

from .cubic import CRITICAL, CubicRoots, cubic_roots
from .derive import derive_cubic_roots, derive_ramp_moment, derive_value_moment, derive_value_transform
from .normal import ramp_moments
from .values import VALUES, value_moment, value_transform

__all__ = [
    "CRITICAL",
    "VALUES",
    "CubicRoots",
    "cubic_roots",
    "derive_cubic_roots",
    "derive_ramp_moment",
    "derive_value_moment",
    "derive_value_transform",
    "ramp_moments",
    "value_moment",
    "value_transform",
]
