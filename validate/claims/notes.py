"""Claims of the Notes (2022) on the mathematics of toy models, each with the check that judges it."""

from .ledger import Claim
from .notes_critical import NOTES_CRITICAL
from .notes_flows import NOTES_FLOWS
from .notes_relu import NOTES_RELU

__all__ = ["CLAIMS"]

CLAIMS: tuple[Claim, ...] = tuple(
    sorted((*NOTES_CRITICAL, *NOTES_FLOWS, *NOTES_RELU), key=lambda claim: int(claim.id[1:]))
)
