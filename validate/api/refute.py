"""The search for a counterexample of an inequality."""

from ..proofs import properties
from .entry import entry

refute = entry(properties.refute)
