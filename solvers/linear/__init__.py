"""Gradient flows of linear autoencoders, closed-form and integrated (Notes 2022)."""
