"""Sparse autoencoders: the best ones of few features beside closed forms, and scores of ideal decoders."""

from ...runner.declarations import Section
from . import benchmark, ceiling, dense, hedging, oblique, pairs
from .benchmark import plot_benchmark, run_benchmark
from .ceiling import plot_reached, run_reached
from .dense import plot_dense, run_dense
from .hedging import plot_hedging, run_hedging
from .oblique import plot_oblique, run_oblique
from .pairs import plot_pairs, run_pairs

__all__ = [
    "SECTION", "plot_benchmark", "plot_dense", "plot_hedging", "plot_oblique", "plot_pairs", "plot_reached",
    "run_benchmark", "run_dense", "run_hedging", "run_oblique", "run_pairs", "run_reached",
]  # fmt: skip

TEXT = r"""
Does the objective of a sparse autoencoder want the true features? Here the features are known, binary and in
orthonormal directions, the objective is the squared error plus an l1 penalty, without decoder bias, and its
expectation is exact, so that the optimum is compared with closed forms and not a run with a run. One latent
on a parent and its child mixes them. Two latents on two features that are alike tilt towards each other, or
one of them stands for both features. Where features outnumber dimensions, an exact dense code costs less
than the true dictionary. And decoders that know features and dictionary say what a score is
worth.
"""
SECTION = Section.of("sae", "Sparse autoencoders", TEXT, hedging, pairs, oblique, dense, ceiling, benchmark)
