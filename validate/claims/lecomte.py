"""Claims of Lecomte et al. (2024), "What Causes Polysemanticity?", each with the check that judges it."""

from .lecomte_collisions import COLLISIONS
from .lecomte_l1 import SPARSIFICATION
from .lecomte_noise import NOISE
from .lecomte_noise_theory import NOISE_THEORY
from .lecomte_polysemantic import POLYSEMANTIC
from .lecomte_training import REMEDY
from .ledger import Claim

__all__ = ["CLAIMS"]

CLAIMS: tuple[Claim, ...] = tuple(
    sorted(
        (*SPARSIFICATION, *COLLISIONS, *POLYSEMANTIC, *REMEDY, *NOISE_THEORY, *NOISE),
        key=lambda claim: int(claim.id[1:]),
    )
)
