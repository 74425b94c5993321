"""The part of the report on features that differ or depend on each other."""

from ..experiment import Section
from . import bracket, codes, correlated, published, scaling

SECTION = Section(
    "unequal",
    "Features that differ or depend on each other",
    scaling.TEXT + correlated.TEXT,
    scaling.EXPERIMENTS
    | published.EXPERIMENTS
    | bracket.EXPERIMENTS
    | codes.EXPERIMENTS
    | correlated.EXPERIMENTS,
    [*scaling.TOPICS, *published.TOPICS, *bracket.TOPICS, *codes.TOPICS, *correlated.TOPICS],
)
