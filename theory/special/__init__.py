"""Special functions that several rooms need: transforms of the value laws."""

from .values import VALUES, value_moment, value_transform

__all__ = ["VALUES", "value_moment", "value_transform"]
