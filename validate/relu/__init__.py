"""Trained small ReLU models beside the exact minimisers (Elhage et al. 2022)."""
