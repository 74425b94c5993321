"""The stepper that serves several rooms, for compiled and for Python velocities."""

from .explicit import Trajectory, integrate

__all__ = ["Trajectory", "integrate"]
