"""Claims of Cowsik, Dolev and Infanger (2024), "The Persian Rug", each with the check that judges it."""

from .cowsik_model import MODEL
from .cowsik_rug import RUG
from .cowsik_scaling import SCALING
from .cowsik_scaling_bounds import BOUNDS
from .cowsik_structure import STRUCTURE
from .cowsik_weights import WEIGHTS
from .ledger import Claim

__all__ = ["CLAIMS"]

CLAIMS: tuple[Claim, ...] = tuple(
    sorted(
        (*MODEL, *WEIGHTS, *RUG, *SCALING, *BOUNDS, *STRUCTURE),
        key=lambda claim: int(claim.id[1:]),
    )
)
