"""Linear autoencoders (Notes 2022): critical points, saddles, gradient flows, energies."""
