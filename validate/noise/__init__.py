"""Figs. 4 to 6 of Lecomte et al. (2024), and which mechanism they show."""
