"""Trained linear autoencoders beside their exact losses and flows (Notes 2022)."""
