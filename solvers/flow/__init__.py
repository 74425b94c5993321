"""The explicit steppers: of smooth velocities, and of inclusions with an l1 force, dense or listed."""

from .explicit import Trajectory, integrate

__all__ = ["Trajectory", "integrate"]
