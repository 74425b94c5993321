"""The search for a counterexample of an inequality."""

from .. import proofs
from .entry import entry

refute = entry(proofs.refute)
