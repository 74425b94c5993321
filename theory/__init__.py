"""What is predicted: SymPy derivations and closed forms. Pure: no randomness, files, plots or torch."""
