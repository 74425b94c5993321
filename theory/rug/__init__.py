"""The Persian rug (Cowsik et al. 2024): macroscopic loss, bound, limits, sharp asymptotics."""
