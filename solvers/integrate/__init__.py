"""Steppers that serve several rooms."""
