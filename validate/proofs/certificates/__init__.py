"""Certificates: statements about models that anyone can check with fractions alone."""

from .alignment import alignment_certificate
from .lean import lean_goal
from .learning import learning_certificate
from .make import CheckedCertificate, certify, check, exact_total, wiring_certificate
from .network import network_certificate
from .pair import pair_certificate
from .pentagon import pentagon_certificate

__all__ = [
    "CheckedCertificate", "alignment_certificate", "certify", "check", "exact_total", "lean_goal",
    "learning_certificate", "network_certificate", "pair_certificate", "pentagon_certificate",
    "wiring_certificate",
]  # fmt: skip
