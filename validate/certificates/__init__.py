"""Certificates: statements about models that anyone can check with fractions alone."""

from .make import Checked, certify, check, exact_total, wiring_certificate

__all__ = ["Checked", "certify", "check", "exact_total", "wiring_certificate"]
