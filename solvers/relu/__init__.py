"""Exact losses and optimal small models of the ReLU output model (Elhage et al. 2022)."""
