"""Claims of Elhage et al. (2022), "Toy Models of Superposition", each with the check that judges it."""

from .elhage_linear import ELHAGE_LINEAR
from .elhage_relu import ELHAGE_RELU
from .ledger import Claim

__all__ = ["CLAIMS"]

CLAIMS: tuple[Claim, ...] = (*ELHAGE_LINEAR, *ELHAGE_RELU)
