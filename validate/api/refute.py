"""The search for counterexamples of inequalities."""

from .. import proofs
from .entry import entry

refute = entry(proofs.refute)
