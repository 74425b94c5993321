"""Tests of inequalities: strategies for laws, weights and models, and a search for counterexamples.

The strategies are those of Hypothesis, which is imported when one is made.
"""

from .refute import Refutation, Status, refute
from .strategies import Model, laws, models, numbers, weights

__all__ = ["Model", "Refutation", "Status", "laws", "models", "numbers", "refute", "weights"]
