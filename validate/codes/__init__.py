"""Structure and symmetry of trained weights (Cowsik et al. 2024, Figs. 3 to 7)."""
