"""Features that differ in frequency or depend on each other: theory beside trained models."""

from ...runner.declarations import Section
from . import (
    blocks,
    bracket,
    codes,
    descents,
    groups,
    groups_descent,
    many_active,
    small_models,
    split,
    width,
)
from .blocks import run_blocks
from .bracket import plot_bracket, run_bracket
from .codes import plot_codes, run_codes
from .descents import run_descended
from .groups import plot_groups, run_groups
from .groups_descent import run_polished
from .split import run_split
from .width import plot_width, run_width

__all__ = [
    "SECTION", "plot_bracket", "plot_codes", "plot_groups", "plot_width", "run_blocks",
    "run_bracket", "run_codes", "run_descended", "run_groups", "run_polished", "run_split",
    "run_width",
]  # fmt: skip

TEXT = """
Features differ in how often they are on and in how much their errors weigh. The capacities of the outputs of
a matrix of rank m sum to at most m. With one Lagrange multiplier for capacity they are split best: features
are dropped, kept exactly, put in pairs, or receive normal interference. Frequencies p that fall as i^-alpha
give a law of loss against m. Two losses bracket it: a proved lower bound for every model, and a code whose
exact loss is known.

Take blocks of features that depend on each other and on no other block. Each block has a capacity matrix, its
part of a projection on the rows. Other blocks add normal noise, whose size depends on these capacities. The
best matrices and coefficients follow with one Lagrange multiplier for capacity. Features that exclude each
other share a direction at opposite ends. Features that are on together share one on the same side, and two
such pairs are at opposite ends. Where few features are on, priority planes, in which the longest encoding
that is on turns the outputs of the others off, lose less; training does not find them.
"""
SECTION = Section.of(
    "unequal",
    "Features that differ or depend on each other",
    TEXT,
    width, descents, many_active, split, bracket, codes, groups, blocks, groups_descent, small_models,
)  # fmt: skip
