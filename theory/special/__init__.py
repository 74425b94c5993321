"""Special functions of several packages: ramp moments of the normal law, roots of a cubic."""

from .cubic import CRITICAL, CubicRoots, cubic_roots
from .derive import derive_cubic_roots, derive_ramp_moment
from .normal import ramp_moments

__all__ = [
    "CRITICAL", "CubicRoots", "cubic_roots", "derive_cubic_roots", "derive_ramp_moment", "ramp_moments",
]  # fmt: skip
