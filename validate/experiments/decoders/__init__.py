"""Decoders on rugs and in trained models: the map over p and ratio, message passing, recovery."""

from ...runner.declarations import Section
from . import iteration, map, rugs, trained
from .iteration import plot_passing, plot_success, run_passing, run_recovery
from .map import plot_map, plot_recovery_line, run_map
from .rugs import plot_rugs, run_rugs
from .trained import run_trained

__all__ = [
    "plot_map", "plot_passing", "plot_recovery_line", "plot_rugs", "plot_success",
    "run_map", "run_passing", "run_recovery", "run_rugs", "run_trained",
]  # fmt: skip

TEXT = """
A feature that is stored in superposition is read through the interference of the others, which is Gaussian
where many are on. Which function of each output is then best? Given the noise, the least loss of any function
of one output is that of the posterior mean (Bayes). Thresholds and lines above them (ReLU, JumpReLU) are
optimised exactly, and TopK of many features is a JumpReLU. A decoder that sees all outputs can do more:
message passing decodes, estimates the interference that is left, and decodes again. State evolution says
what it attains, and from which ratio on it recovers every feature. Losses are per feature, at the least
interference that a linear projection can have.
"""

SECTION = Section.of(
    "decoders",
    "Decoders: what a better activation gains, and what iteration does",
    TEXT,
    map,
    iteration,
    rugs,
    trained,
)
