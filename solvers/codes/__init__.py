"""Optimal blocks and the envelope of structured codes; the exact Hessian at the Persian rug."""
