"""Structured codes beside the Persian rug: blocks, pairs, dropping, mixtures, their lower envelope."""
