"""The Persian rug at finite size: optimum, Hadamard operators, exact finite-size loss."""

from .optimum import Optimum, crossover_ratio, optimum

__all__ = ["Optimum", "crossover_ratio", "optimum"]
