"""Noisy gradient descent and the flow of the noise-averaged loss (Lecomte et al. 2024, §3)."""
