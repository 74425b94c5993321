"""Compiling, caching and interrupting of kernels."""
