"""Explicit time steppers: for smooth flows, and for flows with an l1 force on a matrix of weights."""

from .explicit import Trajectory, integrate

__all__ = ["Trajectory", "integrate"]
