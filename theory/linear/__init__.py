"""Linear autoencoders (Notes 2022): critical points, saddles, gradient flows, energies.

The derivations are in the module `derive`, which imports SymPy when it is asked for something.
"""

from . import derive
from .critical import RULES, CriticalPoint, critical_hessian, critical_loss, critical_point, growth_rates
from .factorisation import FactorisationLLC, factorisation_llc
from .losses import WeightedOptimum, reconstruction_loss, sparse_loss, weighted_optimum
from .modes import aligned_mode, aligned_pair
from .spectrum import Spectrum, spectrum

__all__ = [
    "RULES", "CriticalPoint", "FactorisationLLC", "Spectrum", "WeightedOptimum", "aligned_mode",
    "aligned_pair", "critical_hessian", "critical_loss", "critical_point", "derive", "factorisation_llc",
    "growth_rates", "reconstruction_loss", "sparse_loss", "spectrum", "weighted_optimum",
]  # fmt: skip
