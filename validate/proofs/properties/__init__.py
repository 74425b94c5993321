"""Tests of inequalities: strategies for laws, weights and models, and a search for counterexamples.

The strategies are those of Hypothesis, which is imported when one is made.
"""

from .refute import Outcome, Refutation, refute
from .strategies import TiedModel, laws, models, numbers, weights

__all__ = ["Outcome", "Refutation", "TiedModel", "laws", "models", "numbers", "refute", "weights"]
