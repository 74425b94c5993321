"""The explicit steppers: of smooth velocities, and of inclusions with an l1 force, dense or listed."""

from .explicit import Trajectory, checked_times, integrate
from .inclusion import Force, Progress, advance

__all__ = ["Force", "Progress", "Trajectory", "advance", "checked_times", "integrate"]
